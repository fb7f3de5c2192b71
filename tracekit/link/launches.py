"""Kernels joined to their launches: many kernels to one launch, and kernels without any."""

import numpy as np
import pandas as pd

from tracekit.tables import Kind
from tracekit.tables.calls import GRAPH_LAUNCH, LAUNCH
from tracekit.tables.text import matches


def launches(runtime_calls: pd.DataFrame) -> pd.DataFrame:
    """One row a correlation id: the call that launched, with its thread and times.

    Correlation id 0 is how some recorders say "none", so it joins nothing.
    """
    calls = runtime_calls[runtime_calls["correlation"].fillna(0) > 0]
    order = (~matches(calls["name"], LAUNCH)).astype(np.int8)
    calls = calls.iloc[np.lexsort((calls["ts_ns"].to_numpy(dtype=np.int64), order))]
    calls = calls.drop_duplicates("correlation")
    return pd.DataFrame(
        {
            "correlation": calls["correlation"],
            "launch_ts_ns": calls["ts_ns"],
            "launch_end_ns": calls["ts_ns"] + calls["dur_ns"],
            "launch_name": calls["name"],
            "thread": calls["thread"],
            "launch_grid": calls["grid"],
            "launch_block": calls["block"],
            "from_graph": pd.array(matches(calls["name"], GRAPH_LAUNCH), dtype="boolean"),
        }
    )


def _filled(own: pd.Series, launch: pd.Series) -> pd.Series:
    """The kernel's own grid or block, else its launch's: older ROCm recorders put them there."""
    if launch.isna().all() or own.notna().all():
        return own
    return own.astype(object).where(own.notna(), launch.astype(object)).astype("category")


def join_launches(device_events: pd.DataFrame, runtime_calls: pd.DataFrame) -> pd.DataFrame:
    """Device events with the columns of their launch; null where no launch was recorded."""
    joined = device_events.merge(
        launches(runtime_calls), on="correlation", how="left", validate="many_to_one"
    )
    for name in ("grid", "block"):
        joined[name] = _filled(joined[name], joined[f"launch_{name}"].where(joined["kind"] == Kind.KERNEL))
    joined["from_graph"] = joined["from_graph"].fillna(value=False)
    launched = joined["launch_ts_ns"].notna()
    order = joined.groupby("correlation", observed=True).cumcount().astype("Int64")
    joined["node_order"] = order.where(launched)
    return joined
