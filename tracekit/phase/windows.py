"""The device window of each step: start, length, busy time, counts of kernels and graph replays."""

import numpy as np
import pandas as pd

from tracekit.intervals import Ints, exclusive
from tracekit.phase.attribute import Attribution
from tracekit.phase.hosts import Flags, Spans, locate
from tracekit.tables import Capture, Kind
from tracekit.tables.text import is_word, matches

KERNEL_LAUNCH = r"Launch(?:Cooperative)?Kernel|ModuleLaunch|GraphLaunch"
LOST_SHARE = 0.05
GRAPH_LAUNCH = r"^(?:cuda|hip)GraphLaunch"


def windows(kernels: pd.DataFrame, found: Attribution, steps: Spans) -> pd.DataFrame:
    """The device window of each step, on the stream where it spent most time.

    A lone early kernel on another stream would stretch the window of a step that an asynchronous engine
    launched long before it ran. A step without device work has its host range.

    Returns:
        One row a step: device, ts_ns, dur_ns, busy_ns, n_kernels, n_post_step_kernels.
    """
    work = is_word(kernels, "kind", Kind.KERNEL, Kind.CPU_OP)
    after = found.how == "post_step"
    table = pd.DataFrame(
        {
            "ts_ns": steps.start,
            "dur_ns": np.maximum(steps.end - steps.start, 0),
            "busy_ns": np.zeros(len(steps), np.int64),
            "n_kernels": _tally(found.step[work & ~after], len(steps)),
            "n_post_step_kernels": _tally(found.step[work & after], len(steps)),
            "device": pd.array([pd.NA] * len(steps), dtype="Int32"),
        }
    )
    inside = _inside(kernels, found)
    if inside.empty:
        return table
    main = inside[_on_main_stream(inside)]
    if is_word(kernels, "kind", Kind.CPU_OP).all():
        # An op's row is its self time, which is no interval: the window is the step itself.
        spent = (main["high"] - main["low"]).groupby(main["step"]).sum()
        table.loc[spent.index, "busy_ns"] = np.minimum(spent, table.loc[spent.index, "dur_ns"])
        return table
    span = main.groupby("step").agg(low=("low", "min"), high=("high", "max"), device=("device", "first"))
    table.loc[span.index, "ts_ns"] = span["low"]
    table.loc[span.index, "dur_ns"] = span["high"] - span["low"]
    table.loc[span.index, "device"] = span["device"].astype("Int32")
    busy = _busy(inside, span)
    table.loc[busy.index, "busy_ns"] = busy
    return table


def graph_launches(capture: Capture, steps: Spans) -> Ints:
    """Graph replays that each step called, on its own thread."""
    calls = capture.runtime_calls
    replay = matches(calls["name"], GRAPH_LAUNCH)
    thread = calls["thread"].to_numpy(dtype=np.int64)[replay]
    at, _ = locate(steps, thread, calls["ts_ns"].to_numpy(dtype=np.int64)[replay])
    return _tally(at[at >= 0], len(steps))


def cut_off(capture: Capture, steps: Spans) -> Flags:
    """Steps of which the window lost work: launches whose kernels are not in the capture.

    A few launches have no device row in any capture (empty grids, records that were dropped).
    """
    calls = capture.runtime_calls
    launch = matches(calls["name"], KERNEL_LAUNCH)
    thread, start = (calls[name].to_numpy(dtype=np.int64)[launch] for name in ("thread", "ts_ns"))
    at, _ = locate(steps, thread, start)
    known = capture.device_events["correlation"].dropna()
    ran = calls["correlation"][launch].isin(known).to_numpy(dtype=bool)
    lost = _tally(at[(at >= 0) & ~ran], len(steps))
    return np.asarray(lost > LOST_SHARE * _tally(at[at >= 0], len(steps)), dtype=bool)


def _tally(steps: Ints, count: int) -> Ints:
    return np.bincount(steps[steps >= 0], minlength=count).astype(np.int64)


def _inside(kernels: pd.DataFrame, found: Attribution) -> pd.DataFrame:
    low = kernels["ts_ns"].to_numpy(dtype=np.int64)
    rows = pd.DataFrame(
        {
            "step": found.step,
            "stream": kernels["stream"].fillna(-1).to_numpy(dtype=np.int64),
            "device": kernels["device"].array,
            "low": low,
            "high": low + kernels["dur_ns"].to_numpy(dtype=np.int64),
        }
    )
    return rows.iloc[np.flatnonzero((found.step >= 0) & (found.how != "post_step"))]


def _on_main_stream(inside: pd.DataFrame) -> Flags:
    """The rows on the stream of their step that holds most of its time."""
    lane, number = pd.factorize(inside["stream"], sort=True)
    pair, pairs = pd.factorize(inside["step"].to_numpy() * len(number) + lane)
    held = np.bincount(pair, (inside["high"] - inside["low"]).to_numpy(dtype=np.float64))
    order = np.lexsort((pairs % len(number), held, pairs // len(number)))
    most = np.zeros(len(pairs), dtype=bool)
    most[order] = np.diff(pairs[order] // len(number), append=-1) != 0
    return most[pair]


def _busy(inside: pd.DataFrame, span: pd.DataFrame) -> pd.Series:
    """Length of the union of each step's rows, inside its window."""
    number = span.index.get_indexer(pd.Index(inside["step"]))
    rows, number = inside[number >= 0], number[number >= 0]
    first, last = (span[name].to_numpy(dtype=np.int64)[number] for name in ("low", "high"))
    low, high = (np.clip(rows[name].to_numpy(dtype=np.int64), first, last) for name in ("low", "high"))
    # Laid end to end, the windows have one union, of which each has its part.
    length = (span["high"] - span["low"]).to_numpy(dtype=np.int64)
    place = (np.cumsum(length) - length)[number] - first
    own = exclusive(low + place, high + place)
    return pd.Series(np.bincount(number, own, len(span)).astype(np.int64), index=span.index)
