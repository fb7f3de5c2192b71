"""The analysis as a trace: what a timeline viewer shows beside each kernel, step and gap.

The format is the Trace Event Format that ui.perfetto.dev and chrome://tracing open. It is made from the public
tables, so that it is the same whatever the capture was; what the host did stays in the capture itself.
"""

import gzip
import json
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tracekit.errors import CaptureError
from tracekit.report.accounting import NS
from tracekit.report.counted import has_counters
from tracekit.report.lanes import Place, Tracks
from tracekit.report.result import Result
from tracekit.report.whole import write_whole
from tracekit.tables import Kind
from tracekit.tables.ceilings import Ceilings
from tracekit.tables.columns import column

REDUCED_BYTES = 50_000_000
"""What `reduced` keeps the uncompressed trace under; viewers grow slow from some hundred megabytes."""

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
_BINS = 2000
_SHORT_NAME = 120
_EVENT_BYTES = 600
"""More than a reduced kernel takes: names and words are bounded."""
_REST = 5_000_000
_SURE_DIGITS = 4


def write_annotated(result: Result, path: Path, *, reduced: bool = False) -> int:
    """Write the annotated trace, compressed where the name ends in `.gz`.

    Args:
        result: The analysis.
        path: The file.
        reduced: Whether to keep it under `REDUCED_BYTES`: names are cut, evidence and the shortest kernels left out.

    Returns:
        How many kernels were left out.

    Raises:
        CaptureError: The file cannot be written.
    """
    kernels, left_out = _kept(result, reduced=reduced)
    text = annotated_json(result, kernels, reduced=reduced)
    content = gzip.compress(text, compresslevel=6, mtime=0) if path.suffix == ".gz" else text
    try:
        write_whole(path, content)
    except OSError as error:
        raise CaptureError(
            str(path), f"cannot be written: {error.strerror or error}", hint="choose another place with -o"
        ) from error
    return left_out


def annotated_json(result: Result, kernels: pd.DataFrame, *, reduced: bool = False) -> bytes:
    """The trace as JSON; times are from the first kernel or step on, so that no digit of them is lost.

    Args:
        result: The analysis.
        kernels: Rows of its KERNELS with `s_compute` and `s_dram` to be drawn.
        reduced: Whether to cut names and leave evidence out.
    """
    starts = [int(table["ts_ns"].min()) for table in (result.kernels, result.steps) if len(table)]
    first = min(starts, default=0)
    tracks = Tracks(_places(result))
    events = chain(
        _kernel_events(kernels, tracks, first, reduced=reduced),
        _step_events(result.steps, tracks, first),
        _phase_events(result.kernels, tracks, first),
        _gap_events(result.gaps, tracks, first),
        _counters(result.rows, tracks.places, first),
        # Last: tracks are known when their slices have been made.
        _names(tracks),
    )
    lines = ",\n".join(json.dumps(event, allow_nan=False, separators=(",", ":")) for event in events)
    head = json.dumps({"displayTimeUnit": "ms", "otherData": {"tracekit_first_ts_ns": str(first)}})
    return f'{head[:-1]},"traceEvents":[\n{lines}\n]}}\n'.encode()


def _kept(result: Result, *, reduced: bool) -> tuple[pd.DataFrame, int]:
    """The kernels to draw, with the shares of the roofs, in order of time; and how many are left out."""
    rows = _roof_shares(result.rows, result.ceilings).sort_values("ts_ns", kind="stable")
    most = (REDUCED_BYTES - _REST) // _EVENT_BYTES
    if not reduced or len(rows) <= most:
        return rows, 0
    longest = rows.nlargest(most, "dur_ns").index
    return rows.loc[rows.index.isin(longest)], len(rows) - most


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


def _kernel_events(rows: pd.DataFrame, tracks: Tracks, first: int, *, reduced: bool) -> Iterator[Event]:
    wanted = {**_ARGUMENTS, **({} if reduced else _EVIDENCE)}
    if not has_counters(rows):
        # The same word on every kernel tells nothing.
        wanted = {name: word for name, word in wanted.items() if not name.endswith(("_hw", "hw_status"))}
    fields = rows[[name for name in wanted if name in rows]].rename(columns=wanted)
    names = [str(name) for name in rows["name"]]
    starts = _without_overlap(rows) - first
    keys, streams = _key(rows), np.nan_to_num(column(rows, "stream"), nan=0).astype(np.int64)
    dur = rows["dur_ns"].to_numpy(dtype=np.int64)
    titles = [
        f"{'thread' if device < 0 else 'stream'} {stream}"
        for (_, device), stream in zip(keys, streams, strict=True)
    ]
    where = tracks.put(keys, streams, titles, starts, dur)
    fixed = zip(names, rows["kind"], where, starts.tolist(), dur.tolist(), strict=True)
    for (name, kind, at, start, lasting), record in zip(fixed, fields.to_dict("records"), strict=True):
        shown = name[:_SHORT_NAME] if reduced else name
        event = _slice(shown, _CATEGORY[str(kind)], at, start, lasting)
        event["args"] = {
            str(word): value for word, raw in record.items() if (value := _value(raw)) is not None
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


def _value(raw: Any) -> Any:
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
    return raw if isinstance(raw, int) else str(raw)


def _without_overlap(rows: pd.DataFrame) -> np.ndarray:
    """Starts [ns]; self times of ops, which begin inside one another, are set one after the other on each thread."""
    starts = rows["ts_ns"].to_numpy(dtype=np.int64).copy()
    dur = rows["dur_ns"].to_numpy(dtype=np.int64)
    is_op = (rows["kind"] == Kind.CPU_OP).to_numpy(dtype=bool)
    threads = rows.groupby(["rank", "stream"], dropna=False, sort=False).ngroup().to_numpy()
    for thread in np.unique(threads[is_op]):
        at = np.flatnonzero(is_op & (threads == thread))
        before = np.cumsum(dur[at]) - dur[at]
        starts[at] = before + np.maximum.accumulate(starts[at] - before)
    return starts


def _step_events(steps: pd.DataFrame, tracks: Tracks, first: int) -> Iterator[Event]:
    wanted = ["step_id", "engine", "phase", "confidence", "evidence", "annotation", "flags", "n_kernels"]
    wanted += ["context_tokens", "generation_requests", "sum_k", "mfu", "mbu"]
    for at, record in zip(
        _one_track(steps, tracks, _STEPS), steps[["ts_ns", "dur_ns", *wanted]].to_dict("records"), strict=True
    ):
        name = f"step {record['step_id']}: {record['phase']}"
        event = _slice(name, "tracekit_step", at, int(record["ts_ns"]) - first, int(record["dur_ns"]))
        event["args"] = {word: value for word in wanted if (value := _value(record[word])) is not None}
        yield event


def _one_track(rows: pd.DataFrame, tracks: Tracks, track: int) -> list[Place]:
    """Where slices are that belong on one track of each device."""
    starts, dur = (rows[name].to_numpy(dtype=np.int64) for name in ("ts_ns", "dur_ns"))
    return tracks.put(_key(rows), np.full(len(rows), track), [_TITLES[track]] * len(rows), starts, dur)


def _phase_events(kernels: pd.DataFrame, tracks: Tracks, first: int) -> Iterator[Event]:
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
    words = phase[changed].astype(str)
    for word, run in zip(words, runs.to_dict("records"), strict=True):
        where = (int(run["place"]), _PHASES)
        tracks.titles[where] = _TITLES[_PHASES]
        event = _slice(
            word, "tracekit_phase", where, int(run["start"]) - first, int(run["end"] - run["start"])
        )
        yield {**event, "args": {"kernels": int(run["count"])}}


def _gap_events(gaps: pd.DataFrame, tracks: Tracks, first: int) -> Iterator[Event]:
    wanted = gaps[["ts_ns", "dur_ns", "cause", "evidence", "step_id"]].to_dict("records")
    for at, gap in zip(_one_track(gaps, tracks, _GAPS), wanted, strict=True):
        name = f"idle: {gap['cause']}"
        event = _slice(name, "tracekit_gap", at, int(gap["ts_ns"]) - first, int(gap["dur_ns"]))
        yield {**event, "args": {"evidence": str(gap["evidence"]), "step": int(gap["step_id"])}}


def _counters(rows: pd.DataFrame, places: dict[tuple[int, int], int], first: int) -> Iterator[Event]:
    """Achieved rates over time, of the kernels whose work is known, as means over equal parts of the time."""
    where = np.array([places[key] for key in _key(rows)], dtype=np.int64)
    starts = _without_overlap(rows)
    dur = rows["dur_ns"].to_numpy(dtype=np.int64)
    for place in np.unique(where):
        for title, name in (("achieved FLOP/s", "known_flops"), ("DRAM byte/s", "known_traffic")):
            work = np.nan_to_num(column(rows, name))
            chosen = (where == place) & (work > 0) & (dur > 0)
            if chosen.any():
                edges, rates = mean_rates(starts[chosen] - first, dur[chosen], work[chosen], _BINS)
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
