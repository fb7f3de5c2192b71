"""How far the host runs ahead of the device: delay from launch to start, and launches waiting at once."""

import numpy as np
import pandas as pd

from tracekit.tables import Kind
from tracekit.tables.columns import column
from tracekit.tables.text import words

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
    rows = pd.DataFrame(
        {
            "phase": words(kernels, "phase"),
            "correlation": column(kernels, "correlation"),
            "ts": column(kernels, "ts_ns"),
            "launch": column(kernels, "launch_ts_ns"),
            "done": column(kernels, "launch_end_ns"),
        }
    )[words(kernels, "kind") != Kind.CPU_OP]
    rows = rows[rows["launch"].notna()].sort_values("ts", kind="stable")
    first = rows[~rows.duplicated(["correlation", "launch"])]
    delay = np.maximum(0.0, first["ts"] - first["done"].fillna(first["launch"]))
    first = first.assign(delay=delay, call=first["done"] - first["launch"])
    out: pd.DataFrame = first.groupby("phase", sort=True).agg(
        n=("delay", "size"),
        median_ns=("delay", "median"),
        p95_ns=("delay", lambda values: values.quantile(0.95)),
        queued=("delay", lambda values: float((values > QUEUED_NS).mean())),
        call_ns=("call", "median"),
    )
    return out.reset_index()


def queue_depth(kernels: pd.DataFrame) -> pd.DataFrame:
    """Launches issued and not yet started, over time.

    Returns:
        One row a change: `ts_ns` and `depth` from then on; the last depth is 0.
    """
    rows = kernels[
        (words(kernels, "kind") != Kind.CPU_OP) & kernels["launch_ts_ns"].notna().to_numpy(dtype=bool)
    ]
    issued = rows["launch_ts_ns"].to_numpy(dtype=np.int64)
    started = np.maximum(rows["ts_ns"].to_numpy(dtype=np.int64), issued)
    times = np.concatenate([issued, started])
    order = np.argsort(times, kind="stable")
    change = np.concatenate([np.ones(len(issued), np.int64), -np.ones(len(started), np.int64)])[order]
    frame = pd.DataFrame({"ts_ns": times[order], "depth": np.cumsum(change)})
    return frame[~frame.duplicated("ts_ns", keep="last")].reset_index(drop=True)
