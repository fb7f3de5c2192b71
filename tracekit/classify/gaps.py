"""Why a device was idle inside a step: one row an idle interval, with its cause by evidence.

A kernel that was launched before the device drained waits for the device (dependency); one that was launched
after it made the device wait for the host. Times of host and device are on the capture's one clock.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit.classify.phrases import Phrases, chosen, joined, named, number
from tracekit.classify.signals import Bools, Floats, Objects
from tracekit.intervals import Ints, holes
from tracekit.tables import GAPS, CaptureInfo, GapCause, Kind
from tracekit.tables.columns import column, is_true
from tracekit.tables.text import category, is_word, matches

_READ = (
    "rank", "device", "stream", "name", "family", "ts_ns", "dur_ns", "correlation", "from_graph", "thread",
    "launch_ts_ns", "launch_end_ns",
)  # fmt: skip
_TIMES = ("ts_ns", "launch_ts_ns", "launch_end_ns")
_SYNC = r"Synchronize|^(?:cuda|hip)Memcpy(?!\w*Async)"
_PROFILER = r"(?i)buffer flush|activity buffer|instrumentation|profilerst(?:art|op)"
STACKS = "Python stacks"
"""What the evidence of a host's gap says where the capture recorded them."""
AFTER_SYNC_NS = 100_000
"""A launch this long after a synchronisation is late for the host's own reasons, not for the wait."""


@dataclass(frozen=True, slots=True)
class _Idle:
    """Idle intervals of one device inside steps, with the rows before and after each."""

    start: Ints
    end: Ints
    step: Ints
    before: Ints
    after: Ints


@dataclass(frozen=True, slots=True)
class _Calls:
    """Host calls of one sort, by thread, in order of end."""

    start: Ints
    end: Ints
    thread: Ints
    name: Phrases


def find_gaps(
    kernels: pd.DataFrame, steps: pd.DataFrame, runtime_calls: pd.DataFrame, info: CaptureInfo | None = None
) -> pd.DataFrame:
    """The idle intervals of each device inside the windows of its steps.

    Args:
        kernels: Device work of one capture with LINKED columns and, where known, `family`. A row of kind
            `cpu_op` is not device work.
        steps: STEPS, whose `ts_ns` and `dur_ns` are device windows; a step without kernels has none.
        runtime_calls: RUNTIME_CALLS of the capture.
        info: What the capture says of itself; recording options that inflate host time are named.

    Returns:
        GAPS. A step's gaps and its busy time add up to its window.
    """
    rows = kernels.loc[~is_word(kernels, "kind", Kind.CPU_OP), [name for name in _READ if name in kernels]]
    windows = steps[(steps["n_kernels"] > 0).to_numpy(dtype=bool)] if "n_kernels" in steps else steps
    if rows.empty or windows.empty:
        return GAPS.empty()
    # Nullable times become floats, which hold a time since the first kernel to the nanosecond, but none since 1970.
    origin = int(rows["ts_ns"].min())
    rows, windows, calls = (_later(frame, -origin) for frame in (rows, windows, runtime_calls))
    devices = rows["device"].astype("float64").fillna(-1)
    parts = [_device_gaps(rows[devices == device], windows, calls, info) for device in devices.unique()]
    out = pd.concat(parts, ignore_index=True).sort_values("ts_ns", kind="stable", ignore_index=True)
    return GAPS.check(GAPS.conform(_later(out, origin)))


def _later(frame: pd.DataFrame, by: int) -> pd.DataFrame:
    """The rows with every time so much later [ns]."""
    return frame.assign(**{name: frame[name] + by for name in _TIMES if name in frame})


def _device_gaps(
    rows: pd.DataFrame, steps: pd.DataFrame, calls: pd.DataFrame, info: CaptureInfo | None
) -> pd.DataFrame:
    device = rows["device"].iloc[0]
    if "device" in steps and not pd.isna(device):
        steps = steps[(steps["device"].isna() | (steps["device"] == device)).to_numpy(dtype=bool)]
    rows = rows.sort_values("ts_ns", kind="stable")
    idle = _idle(rows, steps)
    cause, evidence = _causes(rows, idle, calls, info)
    return pd.DataFrame(
        {
            "rank": rows["rank"].iloc[0] if "rank" in rows else pd.NA,
            "device": device,
            "step_id": idle.step,
            "ts_ns": idle.start,
            "dur_ns": idle.end - idle.start,
            "cause": cause,
            "evidence": evidence,
        }
    )


def _idle(rows: pd.DataFrame, steps: pd.DataFrame) -> _Idle:
    starts = rows["ts_ns"].to_numpy(dtype=np.int64)
    ends = starts + rows["dur_ns"].to_numpy(dtype=np.int64)
    low, high = holes(starts, ends)
    steps = steps.sort_values("ts_ns", kind="stable")
    opens = steps["ts_ns"].to_numpy(dtype=np.int64)
    closes = opens + steps["dur_ns"].to_numpy(dtype=np.int64)
    at = np.searchsorted(opens, low, side="right") - 1
    inside = (at >= 0) & (low < closes[np.maximum(at, 0)]) if len(opens) else np.zeros(len(low), dtype=bool)
    low, high, at = low[inside], high[inside], at[inside]
    by_end = np.argsort(ends, kind="stable")
    before = by_end[np.searchsorted(ends[by_end], low, side="right") - 1]
    after = np.searchsorted(starts, high, side="left")
    ids = steps["step_id"].to_numpy(dtype=np.int64)
    return _Idle(low, np.minimum(high, closes[at]), ids[at], before, after)


def _causes(
    rows: pd.DataFrame, idle: _Idle, calls: pd.DataFrame, info: CaptureInfo | None
) -> tuple[Objects, Objects]:
    """Cause and evidence of each idle interval; the first that holds, in the order of `tests`."""
    after, before = rows.iloc[idle.after], rows.iloc[idle.before]
    launched, thread = column(after, "launch_ts_ns"), column(after, "thread")
    done = np.where(np.isnan(ended := column(after, "launch_end_ns")), launched, ended)
    late = done > idle.start
    sync_end, sync_name = _last_sync(_calls(calls, _SYNC), thread, launched)
    synced = late & (sync_end >= idle.start) & (launched - sync_end < AFTER_SYNC_NS)
    same_graph = _same(before, after, "correlation") & is_true(after, "from_graph")
    comm = _is_comm(before) | _is_comm(after)
    crossed = ~_same(before, after, "stream")
    stacks = (
        f"; recorded with {STACKS}, which inflate host time" if info and "with_stack" in info.options else ""
    )
    delay, early = _us(done - idle.start), _us(idle.start - done)
    queued = joined("queued ", early, " before")
    launched_late = joined("launched ", delay, " after the device drained")
    waited = joined("host waited in ", sync_name, chosen(_to_host(before), " after a copy to the host"))
    tests: list[tuple[Bools, GapCause, Phrases | str]] = [
        (_mostly(_calls(calls, _PROFILER), idle), GapCause.PROFILER, "the profiler flushed its buffers"),
        (np.isnan(launched), GapCause.UNKNOWN, "the next kernel has no launch record"),
        (same_graph, GapCause.DEPENDENCY, "between nodes of one graph replay"),
        (synced, GapCause.SYNC, joined(waited, ", then ", launched_late)),
        (late, GapCause.HOST, joined(launched_late, stacks)),
        (comm, GapCause.COMMUNICATION, joined(queued, "; hand-over between compute and a collective")),
        (crossed, GapCause.DEPENDENCY, joined(queued, " on another stream, which waited")),
        (~late, GapCause.DEPENDENCY, joined(queued, "; the device took this long to start it")),
    ]
    nothing = np.zeros(len(idle.start), np.int64)
    cause, evidence = Phrases(nothing, [GapCause.UNKNOWN.value]), Phrases(nothing, [""])
    for where, word, text in reversed(tests):
        cause, evidence = chosen(where, word.value, cause), chosen(where, text, evidence)
    return cause.spelled(), evidence.spelled()


def _us(ns: Floats | Ints) -> Phrases:
    return joined(number(np.asarray(ns, dtype=np.float64) / 1e3), " us")


def _same(left: pd.DataFrame, right: pd.DataFrame, name: str) -> Bools:
    return np.asarray(column(left, name) == column(right, name), dtype=bool)


def _is_comm(rows: pd.DataFrame) -> Bools:
    return matches(rows["family"], "^comm") if "family" in rows else np.zeros(len(rows), np.bool_)


def _to_host(rows: pd.DataFrame) -> Bools:
    return matches(rows["name"], r"(?i)DtoH|DeviceToHost")


def _calls(calls: pd.DataFrame, pattern: str) -> _Calls:
    """Host calls whose name matches, in order of end."""
    found = calls[matches(calls["name"], pattern)]
    start = found["ts_ns"].to_numpy(dtype=np.int64)
    end = start + found["dur_ns"].to_numpy(dtype=np.int64)
    order = np.argsort(end, kind="stable")
    thread = found["thread"].to_numpy(dtype=np.int64)[order]
    return _Calls(start[order], end[order], thread, named(category(found, "name")[order]))


def _last_sync(calls: _Calls, thread: Floats, launched: Floats) -> tuple[Floats, Phrases]:
    """End and name of the last synchronisation on the launching thread before each launch; NaN where none."""
    end = np.full(len(thread), np.nan, dtype=np.float64)
    name = np.full(len(thread), len(calls.name.texts) - 1)
    for one in np.unique(calls.thread):
        mine, asked = calls.thread == one, np.flatnonzero(thread == one)
        at = np.searchsorted(calls.end[mine], launched[asked], side="right") - 1
        asked, at = asked[at >= 0], at[at >= 0]
        end[asked] = calls.end[mine][at]
        name[asked] = calls.name.numbers[mine][at]
    return end, Phrases(name, calls.name.texts)


def _mostly(calls: _Calls, idle: _Idle) -> Bools:
    """Idle intervals of which one of the calls covers at least half."""
    out = np.zeros(len(idle.start), dtype=bool)
    for start, end in zip(calls.start, calls.end, strict=True):
        shared = np.minimum(idle.end, end) - np.maximum(idle.start, start)
        out |= 2 * shared >= idle.end - idle.start
    return out
