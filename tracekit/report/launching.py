"""How far the host runs ahead of the device, by phase: delays of launches, and how many wait at once."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from tracekit.classify import first_kernels, launch_delays, queue_depth
from tracekit.report.contract import LaunchRow
from tracekit.tables.text import is_word, occurring


def launch_rows(kernels: pd.DataFrame) -> Mapping[str, LaunchRow]:
    """Launches by phase; phases without a launch record have none.

    Args:
        kernels: Kernels with phase, rank, kind, ts_ns, correlation, launch_ts_ns and launch_end_ns.
    """
    if "launch_end_ns" not in kernels or kernels["launch_ts_ns"].isna().all():
        return {}
    deepest = _deepest(kernels)
    return {
        str(row["phase"]): LaunchRow(
            n=int(row["n"]),
            delay_ns=float(row["median_ns"]),
            delay_p95_ns=float(row["p95_ns"]),
            call_ns=None if pd.isna(row["call_ns"]) else float(row["call_ns"]),
            queued=float(row["queued"]),
            deepest=deepest.get(str(row["phase"]), 0),
        )
        for row in launch_delays(kernels).to_dict("records")
    }


def queues(kernels: pd.DataFrame) -> Iterator[tuple[Any, pd.DataFrame]]:
    """Each rank and its launches waiting over time, as `queue_depth` gives them; ranks without launches have none."""
    if {"launch_ts_ns", "correlation"} <= set(kernels):
        for rank, rows in _launched(kernels):
            yield rank, queue_depth(rows)


def _launched(kernels: pd.DataFrame) -> Iterator[tuple[Any, pd.DataFrame]]:
    """The first kernel of each launch, by rank: a replay is one launch, and waits until its first kernel starts."""
    rows = kernels[["rank", "kind", "phase", "ts_ns", "launch_ts_ns"]]
    first = rows.iloc[first_kernels(kernels, "correlation", "rank")]
    yield from first.groupby("rank", dropna=False, sort=False)


def _deepest(kernels: pd.DataFrame) -> dict[str, int]:
    """The most launches that waited at once while a phase was launched, over the ranks."""
    out: dict[str, int] = {}
    for _, rows in _launched(kernels):
        depth = queue_depth(rows)
        at = np.searchsorted(
            depth["ts_ns"].to_numpy(), rows["launch_ts_ns"].to_numpy(dtype=np.int64), side="right"
        )
        waiting = depth["depth"].to_numpy()[at - 1]
        for phase in occurring(rows, "phase"):
            most = int(waiting[is_word(rows, "phase", phase)].max(initial=0))
            out[phase] = max(out.get(phase, 0), most)
    return out
