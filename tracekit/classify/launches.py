"""How far the host runs ahead of the device: delay from launch to start, and launches waiting at once."""

import numpy as np
import pandas as pd

from tracekit.classify.signals import Bools
from tracekit.intervals import Ints, in_order
from tracekit.tables import Kind
from tracekit.tables.columns import column, since
from tracekit.tables.text import in_words, is_word

_READ = ("phase", "ts_ns", "launch_ts_ns", "launch_end_ns")
QUEUED_NS = 10_000
"""A kernel that waited this long after its launch stood in a queue; less is the launch's own way to the device."""


def launch_delays(kernels: pd.DataFrame) -> pd.DataFrame:
    """Delay from the end of the launch call to the start of its first kernel, by phase.

    Of a graph replay the first kernel alone counts: the others wait for each other. Negative delays (a kernel that
    starts before its launch call has returned) count as 0.

    Returns:
        One row a phase: `phase`, `n` launches, `median_ns`, `p95_ns`, `queued` (share of launches that waited in a
        queue; near 0 the host is behind the device), and `call_ns` (median length of the launch call).
    """
    first = kernels[[name for name in _READ if name in kernels]].iloc[first_kernels(kernels, "correlation")]
    origin = int(first["ts_ns"].min()) if len(first) else 0
    start, launch, done = (since(first, name, origin) for name in ("ts_ns", "launch_ts_ns", "launch_end_ns"))
    delay = np.maximum(0.0, start - np.where(np.isnan(done), launch, done))
    rows = pd.DataFrame({"phase": in_words(first, "phase"), "delay": delay, "call": done - launch})
    told = [
        {
            "phase": phase,
            "n": len(part),
            "median_ns": part["delay"].median(),
            "p95_ns": part["delay"].quantile(0.95),
            "queued": float((part["delay"] > QUEUED_NS).mean()),
            "call_ns": part["call"].median(),
        }
        for phase, part in rows.groupby("phase", sort=True, observed=True)
    ]
    return pd.DataFrame(told, columns=["phase", "n", "median_ns", "p95_ns", "queued", "call_ns"])


def queue_depth(kernels: pd.DataFrame) -> pd.DataFrame:
    """Launches issued and not yet started, over time.

    Returns:
        One row a change: `ts_ns` and `depth` from then on; the last depth is 0.
    """
    rows = kernels.iloc[np.flatnonzero(_launched(kernels))]
    issued = rows["launch_ts_ns"].to_numpy(dtype=np.int64)
    started = np.maximum(rows["ts_ns"].to_numpy(dtype=np.int64), issued)
    times = np.concatenate([issued, started])
    order = np.argsort(times, kind="stable")
    change = np.repeat([1, -1], len(rows))[order]
    times, depth = times[order], np.cumsum(change)
    last = np.append(np.diff(times) != 0, np.True_)[: len(times)]
    return pd.DataFrame({"ts_ns": times[last], "depth": depth[last]})


def first_kernels(kernels: pd.DataFrame, *names: str) -> Ints:
    """Positions of the first kernel of each launch, in order of start.

    Args:
        kernels: Rows with kind, ts_ns and launch_ts_ns.
        names: Numeric columns that tell apart launches of one time.
    """
    rows = np.flatnonzero(_launched(kernels))
    rows = rows[np.argsort(kernels["ts_ns"].to_numpy(dtype=np.int64)[rows], kind="stable")]
    launch = kernels["launch_ts_ns"].to_numpy(dtype=np.int64, na_value=0)[rows]
    keys = [launch, *(np.nan_to_num(column(kernels, name)[rows], nan=-1.0) for name in names)]
    order = in_order(*keys)
    new = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    first: Ints = rows[np.sort(order[np.append(True, new)[: len(order)]])]
    return first


def _launched(kernels: pd.DataFrame) -> Bools:
    """Device work with a launch record."""
    return ~is_word(kernels, "kind", Kind.CPU_OP) & kernels["launch_ts_ns"].notna().to_numpy(dtype=bool)
