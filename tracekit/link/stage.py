"""The link stage: one capture's device events as kernels with launch, op and thread."""

import numpy as np
import pandas as pd

from tracekit.link.launches import join_launches
from tracekit.link.ops import op_at, op_tree
from tracekit.tables import LINKED, Capture, Kind, Linked, QualityNote


def link(capture: Capture) -> Linked:
    """Join a capture's kernels to their launches and ops.

    On a capture without device work and without a device, each op with self time becomes a row of kind
    `cpu_op`: name, thread as stream, self time as duration, so that the rows sum to the time that the op
    threads were in ops.

    Raises:
        TableError: A reader handed on a broken table.
    """
    tree = op_tree(capture.ops)
    kernels = _cpu_rows(tree) if is_cpu_only(capture) else _device_rows(capture, tree)
    kernels["kernel_id"] = np.arange(len(kernels), dtype=np.int64)
    kernels["rank"] = pd.Series(capture.info.rank, index=kernels.index, dtype="Int32")
    linked = LINKED.check(LINKED.conform(kernels))
    return Linked(linked, tree, tuple(_notes(linked, capture)))


def is_cpu_only(capture: Capture) -> bool:
    """Whether the capture is of a host alone: nothing in it says that there was a device."""
    return capture.device_events.empty and capture.runtime_calls.empty and not capture.info.devices


def _device_rows(capture: Capture, tree: pd.DataFrame) -> pd.DataFrame:
    rows = join_launches(capture.device_events, capture.runtime_calls)
    threads = rows["thread"].fillna(-1).to_numpy(dtype=np.int32)
    at = op_at(tree, threads, rows["launch_ts_ns"].fillna(-1).to_numpy(dtype=np.int64))
    rows["op_row"] = _or_null(at)
    names = tree["name"].cat
    codes = np.where(at >= 0, names.codes.to_numpy()[at], -1) if len(tree) else at
    rows["op"] = pd.Categorical.from_codes(codes, names.categories)
    return rows


def _cpu_rows(tree: pd.DataFrame) -> pd.DataFrame:
    busy = np.flatnonzero(tree["self_ns"].to_numpy(dtype=np.int64) > 0)
    busy = busy[np.argsort(tree["ts_ns"].to_numpy(dtype=np.int64)[busy], kind="stable")]
    ops = tree.iloc[busy].reset_index(drop=True)
    return pd.DataFrame(
        {
            "kind": pd.Categorical([str(Kind.CPU_OP)] * len(ops), categories=[str(kind) for kind in Kind]),
            "name": ops["name"],
            "op": ops["name"],
            "ts_ns": ops["ts_ns"],
            "dur_ns": ops["self_ns"],
            "stream": ops["thread"].astype("Int64"),
            "thread": ops["thread"],
            "launch_ts_ns": ops["ts_ns"],
            "launch_end_ns": ops["ts_ns"],
            "from_graph": pd.Series([False] * len(ops), dtype="boolean"),
            "op_row": _or_null(busy),
        }
    )


def _or_null(rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pd.arrays.IntegerArray:
    return pd.arrays.IntegerArray(rows.astype(np.int64), rows < 0)


# Where launches are to be had, by format, for captures that may lack all of them; a table of kernels is one.
_CALLS = {
    "nsys": "record with nsys profile --trace=cuda,nvtx",
    "rocprof": "record with rocprofv3 --hip-trace",
}
_TABLES = {"nsys": "give the export, nsys export --type sqlite", "rocprof": "give the JSON or rocpd file"}


def _notes(kernels: pd.DataFrame, capture: Capture) -> list[QualityNote]:
    unlinked = kernels["launch_ts_ns"].isna()
    if not unlinked.any():
        return []
    time = int(kernels.loc[unlinked, "dur_ns"].sum())
    text = "device events have no launch record: launched before the window, or lost"
    way = (_TABLES if capture.info.schema == "csv" else _CALLS).get(capture.info.format)
    if way is not None and capture.runtime_calls.empty:
        text = f"device events have no launch record: the capture holds no calls of the host; {way}"
    return [QualityNote("unlinked", int(unlinked.sum()), text, time)]
