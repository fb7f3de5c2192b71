"""The analysis as a trace: what a timeline viewer shows beside each kernel, step and gap.

The format is the Trace Event Format that ui.perfetto.dev and chrome://tracing open. It is made from the public
tables, so that it is the same whatever the capture was; what the host did stays in the capture itself.
"""

import gzip
import json
import math
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tracekit.errors import CaptureError
from tracekit.report.accounting import NS
from tracekit.report.counted import has_counters
from tracekit.report.lanes import Place, Tracks
from tracekit.report.reduced import REDUCED_BYTES, Limits
from tracekit.report.result import Result
from tracekit.report.whole import write_whole
from tracekit.tables import Kind
from tracekit.tables.ceilings import Ceilings
from tracekit.tables.columns import column, lanes

Event = dict[str, Any]

_CATEGORY = {
    str(Kind.KERNEL): "kernel",
    str(Kind.MEMCPY): "gpu_memcpy",
    str(Kind.MEMSET): "gpu_memset",
    str(Kind.CPU_OP): "cpu_op",
}
_STEPS, _PHASES, _GAPS = 1_000_001, 1_000_002, 1_000_003
_TITLES = {_STEPS: "steps", _PHASES: "phases", _GAPS: "idle"}
_ORDER = {"steps": -3, "phases": -2, "idle": -1}
_SERIES = {"achieved FLOP/s": "known_flops", "DRAM byte/s": "known_traffic"}
_SURE_DIGITS = 4
_TRIED = (2.1, 1.6, 1.0)


def write_annotated(result: Result, path: Path, *, reduced: bool = False) -> Mapping[str, int]:
    """Write the annotated trace, compressed where the name ends in `.gz`.

    Args:
        result: The analysis.
        path: The file.
        reduced: Whether to keep it under `REDUCED_BYTES`: texts are cut, evidence and the shortest slices left out.

    Returns:
        How many kernels, steps, gaps and phases were left out, those of which any were.

    Raises:
        CaptureError: The file cannot be written.
    """
    limits = Limits()
    if reduced:
        limits, text = _within(result)
    else:
        text = annotated_json(result, limits)
    content = gzip.compress(text, compresslevel=6, mtime=0) if path.suffix == ".gz" else text
    try:
        write_whole(path, content)
    except OSError as error:
        raise CaptureError(
            str(path), f"cannot be written: {error.strerror or error}", hint="choose another place with -o"
        ) from error
    return limits.left_out


def _within(result: Result) -> tuple[Limits, bytes]:
    """The trace that is under REDUCED_BYTES: events mostly take less than the most, so more is tried first."""
    for more in _TRIED:
        limits = Limits(int(REDUCED_BYTES * more))
        text = annotated_json(result, limits)
        if len(text) < REDUCED_BYTES:
            break
    return limits, text


def annotated_json(result: Result, limits: Limits) -> bytes:
    """The trace as JSON; times are from the first kernel or step on, so that no digit of them is lost.

    Args:
        result: The analysis.
        limits: How much of it may be drawn; what was left out is noted there, and in the trace's `otherData`.
    """
    starts = [int(table["ts_ns"].min()) for table in (result.kernels, result.steps) if len(table)]
    first = min(starts, default=0)
    tracks = Tracks(_places(result))
    events = chain(
        _kernel_events(_kernels(result), tracks, first, limits),
        _step_events(result.steps, tracks, first, limits),
        _phase_events(result.kernels, tracks, first, limits),
        _gap_events(result.gaps, tracks, first, limits),
        _counters(result.rows, tracks.places, first, limits),
        # Last: tracks are known when their slices have been made.
        _names(tracks),
    )
    lines = ",\n".join(json.dumps(event, allow_nan=False, separators=(",", ":")) for event in events)
    other = {"tracekit_first_ts_ns": str(first)}
    other |= {f"tracekit_left_out_{what}": str(count) for what, count in limits.left_out.items()}
    head = json.dumps({"displayTimeUnit": "ms", "otherData": other})
    return f'{head[:-1]},"traceEvents":[\n{lines}\n]}}\n'.encode()


def _kernels(result: Result) -> pd.DataFrame:
    """The kernels in order of time, with the shares of the roofs."""
    return _roof_shares(result.rows, result.ceilings).sort_values("ts_ns", kind="stable", ignore_index=True)


def _key(frame: pd.DataFrame) -> list[tuple[int, int]]:
    """Rank and device of each row; -1 where there is none."""
    ranks, devices = (column(frame, name) for name in ("rank", "device"))
    pairs = zip(np.nan_to_num(ranks, nan=-1), np.nan_to_num(devices, nan=-1), strict=True)
    return [(int(rank), int(device)) for rank, device in pairs]


def _places(result: Result) -> dict[tuple[int, int], int]:
    """The number of each rank's device in the trace."""
    seen = {*_key(result.kernels), *_key(result.steps), *_key(result.gaps)}
    return {key: number for number, key in enumerate(sorted(seen), 1)}


def _names(tracks: Tracks) -> Iterator[Event]:
    for (rank, device), place in tracks.places.items():
        name = ("" if rank < 0 else f"rank {rank} ") + ("host" if device < 0 else f"device {device}")
        yield {"ph": "M", "name": "process_name", "pid": place, "args": {"name": name}}
    for (place, track), title in sorted(tracks.titles.items()):
        where = {"ph": "M", "pid": place, "tid": track}
        yield {**where, "name": "thread_name", "args": {"name": title}}
        # What explains the kernels stands above them.
        yield {**where, "name": "thread_sort_index", "args": {"sort_index": _ORDER.get(title, track)}}


def _micro(ns: int) -> float:
    return ns / 1e3


def _slice(name: str, category: str, where: tuple[int, int], start: int, dur: int) -> Event:
    pid, tid = where
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": _micro(start),
        "dur": _micro(dur),
    }


_ARGUMENTS = {
    "device": "device",
    "stream": "stream",
    "correlation": "correlation",
    "family": "family",
    "phase": "phase",
    "step_id": "step",
    "bottleneck": "class",
    "bottleneck_confidence": "class confidence",
    "s_compute": "% of compute roof",
    "s_dram": "% of DRAM roof",
    "flops_per_s": "FLOP/s",
    "dram_bytes_per_s": "DRAM byte/s",
    "arithmetic_intensity": "FLOP/byte",
    "flops_source": "FLOPs from",
    "dram_bytes": "least DRAM byte",
    "dram_bytes_hw": "measured DRAM byte",
    "hw_status": "counters",
    "flags": "flags",
}
_EVIDENCE = {"bottleneck_evidence": "class evidence", "phase_evidence": "phase evidence", "op": "op"}


def _kernel_events(every: pd.DataFrame, tracks: Tracks, first: int, limits: Limits) -> Iterator[Event]:
    starts = _without_overlap(every) - first
    rows = limits.longest("kernels", every.assign(_start=starts))
    wanted = {**_ARGUMENTS, **({} if limits.size else _EVIDENCE)}
    if not has_counters(rows):
        # The same word on every kernel tells nothing.
        wanted = {name: word for name, word in wanted.items() if not name.endswith(("_hw", "hw_status"))}
    fields = rows[[name for name in wanted if name in rows]].rename(columns=wanted)
    names = [str(name) for name in rows["name"]]
    starts = rows["_start"].to_numpy(dtype=np.int64)
    keys, streams = _key(rows), np.nan_to_num(column(rows, "stream"), nan=0).astype(np.int64)
    dur = rows["dur_ns"].to_numpy(dtype=np.int64)
    titles = [
        f"{'thread' if device < 0 else 'stream'} {stream}"
        for (_, device), stream in zip(keys, streams, strict=True)
    ]
    where = tracks.put(keys, streams, titles, starts, dur)
    fixed = zip(names, rows["kind"], where, starts.tolist(), dur.tolist(), strict=True)
    for (name, kind, at, start, lasting), record in zip(fixed, fields.to_dict("records"), strict=True):
        event = _slice(limits.text(name), _CATEGORY[str(kind)], at, start, lasting)
        event["args"] = {
            str(word): value for word, raw in record.items() if (value := _value(raw, limits)) is not None
        }
        yield event


def _roof_shares(rows: pd.DataFrame, ceilings: Ceilings) -> pd.DataFrame:
    """The rows with what they reached of the two roofs [%]; NaN where work or roof is unknown."""
    dur = column(rows, "dur_ns")
    time = np.where(dur > 0, dur, np.nan)
    bandwidth = ceilings.dram.used or np.nan
    return rows.assign(
        s_compute=100 * column(rows, "compute_ns") / time,
        s_dram=100 * column(rows, "known_traffic") / bandwidth / time * NS,
    )


def _value(raw: Any, limits: Limits) -> Any:
    if raw is None or raw is pd.NA:
        return None
    if isinstance(raw, float):
        return (
            None
            if not math.isfinite(raw)
            else int(raw)
            if raw.is_integer()
            else float(f"{raw:.{_SURE_DIGITS}g}")
        )
    return raw if isinstance(raw, int) else limits.text(str(raw))


def _without_overlap(rows: pd.DataFrame) -> np.ndarray:
    """Starts [ns]; self times of ops, which begin inside one another, are set one after the other on each thread."""
    starts = rows["ts_ns"].to_numpy(dtype=np.int64).copy()
    dur = rows["dur_ns"].to_numpy(dtype=np.int64)
    is_op = (rows["kind"] == Kind.CPU_OP).to_numpy(dtype=bool)
    ops = np.flatnonzero(is_op)
    for lane in lanes(rows.iloc[ops], "rank", "stream"):
        at = ops[lane]
        before = np.cumsum(dur[at]) - dur[at]
        starts[at] = before + np.maximum.accumulate(starts[at] - before)
    return starts


def _step_events(every: pd.DataFrame, tracks: Tracks, first: int, limits: Limits) -> Iterator[Event]:
    steps = limits.longest("steps", every)
    wanted = ["step_id", "engine", "phase", "confidence", "evidence", "annotation", "flags", "n_kernels"]
    wanted += ["context_tokens", "generation_requests", "sum_k", "mfu", "mbu"]
    for at, record in zip(
        _one_track(steps, tracks, _STEPS), steps[["ts_ns", "dur_ns", *wanted]].to_dict("records"), strict=True
    ):
        name = f"step {record['step_id']}: {record['phase']}"
        event = _slice(name, "tracekit_step", at, int(record["ts_ns"]) - first, int(record["dur_ns"]))
        event["args"] = {
            word: value for word in wanted if (value := _value(record[word], limits)) is not None
        }
        yield event


def _one_track(rows: pd.DataFrame, tracks: Tracks, track: int) -> list[Place]:
    """Where slices are that belong on one track of each device."""
    starts, dur = (rows[name].to_numpy(dtype=np.int64) for name in ("ts_ns", "dur_ns"))
    return tracks.put(_key(rows), np.full(len(rows), track), [_TITLES[track]] * len(rows), starts, dur)


def _phase_events(kernels: pd.DataFrame, tracks: Tracks, first: int, limits: Limits) -> Iterator[Event]:
    """Runs of kernels of one phase, from the start of the first to the end of the last."""
    rows = kernels.assign(_place=[tracks.places[key] for key in _key(kernels)]).sort_values(
        ["_place", "ts_ns"], kind="stable"
    )
    phase = rows["phase"].astype(object)
    changed = (phase != phase.shift()) | (rows["_place"] != rows["_place"].shift())
    rows = rows.assign(_run=changed.cumsum(), _end=rows["ts_ns"] + rows["dur_ns"])
    runs = rows.groupby("_run").agg(
        place=("_place", "first"), start=("ts_ns", "first"), end=("_end", "max"), count=("_end", "size")
    )
    # A long kernel of another stream may outlast its run; slices of one track may not overlap.
    is_last = runs["place"] != runs["place"].shift(-1)
    following = runs["start"].shift(-1, fill_value=0).where(~is_last, runs["end"])
    runs["end"] = np.minimum(runs["end"], following)
    runs = runs.assign(word=phase[changed].astype(str).to_numpy(), dur_ns=runs["end"] - runs["start"])
    for run in limits.longest("phases", runs).to_dict("records"):
        where = (int(run["place"]), _PHASES)
        tracks.titles[where] = _TITLES[_PHASES]
        event = _slice(run["word"], "tracekit_phase", where, int(run["start"]) - first, int(run["dur_ns"]))
        yield {**event, "args": {"kernels": int(run["count"])}}


def _gap_events(every: pd.DataFrame, tracks: Tracks, first: int, limits: Limits) -> Iterator[Event]:
    gaps = limits.longest("gaps", every)
    wanted = gaps[["ts_ns", "dur_ns", "cause", "evidence", "step_id"]].to_dict("records")
    for at, gap in zip(_one_track(gaps, tracks, _GAPS), wanted, strict=True):
        name = f"idle: {gap['cause']}"
        event = _slice(name, "tracekit_gap", at, int(gap["ts_ns"]) - first, int(gap["dur_ns"]))
        yield {**event, "args": {"evidence": limits.text(str(gap["evidence"])), "step": int(gap["step_id"])}}


def _counters(
    rows: pd.DataFrame, places: dict[tuple[int, int], int], first: int, limits: Limits
) -> Iterator[Event]:
    """Achieved rates over time, of the kernels whose work is known, as means over equal parts of the time."""
    where = np.array([places[key] for key in _key(rows)], dtype=np.int64)
    starts = _without_overlap(rows)
    dur = rows["dur_ns"].to_numpy(dtype=np.int64)
    bins = limits.bins(len(_SERIES) * len(places))
    for place in np.unique(where):
        for title, name in _SERIES.items():
            work = np.nan_to_num(column(rows, name))
            chosen = (where == place) & (work > 0) & (dur > 0)
            if chosen.any():
                edges, rates = mean_rates(starts[chosen] - first, dur[chosen], work[chosen], bins)
                for at, rate in zip(edges[:-1], rates, strict=True):
                    yield _count(title, int(place), at, rate)
                yield _count(title, int(place), edges[-1], 0.0)


def _count(title: str, place: int, at: float, rate: float) -> Event:
    return {
        "ph": "C",
        "name": title,
        "pid": place,
        "ts": round(at / 1e3, 3),
        "args": {"rate": float(f"{rate:.4g}")},
    }


def mean_rates(
    starts: np.ndarray, dur: np.ndarray, work: np.ndarray, bins: int
) -> tuple[np.ndarray, np.ndarray]:
    """Work a second in each of `bins` equal parts of the time, each kernel's work spread evenly over it.

    Args:
        starts: Start of each kernel [ns].
        dur: Its duration [ns], positive.
        work: Its work [FLOP or byte].
        bins: How many parts.

    Returns:
        Their bins + 1 edges [ns], and the bins rates [FLOP/s or byte/s].
    """
    times = np.concatenate([starts, starts + dur]).astype(np.float64)
    change = np.concatenate([work / dur, -work / dur])
    order = np.argsort(times, kind="stable")
    at = times[order]
    done = np.concatenate([[0.0], np.cumsum(np.cumsum(change[order])[:-1] * np.diff(at))])
    edges = np.linspace(at[0], at[-1], bins + 1)
    rates = np.diff(np.interp(edges, at, done)) / np.diff(edges) * NS
    return edges, np.maximum(rates, 0.0)
