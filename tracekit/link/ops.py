"""The op tree of each host thread, and the innermost op around an instant."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.intervals import innermost, nest
from tracekit.tables import OP_TREE

Ints = npt.NDArray[np.int64]


def op_tree(ops: pd.DataFrame) -> pd.DataFrame:
    """OP_TREE from OPS: parents, depths and self times per thread.

    Self time is an op's duration less its children's; where clocks make children overrun, it is zero.
    """
    if ops.empty:
        return OP_TREE.empty()
    starts = ops["ts_ns"].to_numpy()
    ends = starts + ops["dur_ns"].to_numpy()
    pieces = []
    done = 0
    for rows in _by_thread(ops["thread"].to_numpy()):
        nesting = nest(starts[rows], ends[rows])
        parent = np.where(nesting.parent >= 0, nesting.parent + done, -1)
        pieces.append((rows[nesting.order], parent, nesting.depth))
        done += len(rows)
    order = np.concatenate([piece[0] for piece in pieces])
    tree = ops.iloc[order].reset_index(drop=True)
    tree["parent"] = np.concatenate([piece[1] for piece in pieces])
    tree["depth"] = np.concatenate([piece[2] for piece in pieces])
    tree["self_ns"] = _self_times(tree)
    return OP_TREE.conform(tree)


def _self_times(tree: pd.DataFrame) -> Ints:
    """Duration less the part of it that children cover."""
    starts = tree["ts_ns"].to_numpy()
    ends = starts + tree["dur_ns"].to_numpy()
    parent = tree["parent"].to_numpy()
    child = parent >= 0
    inside = np.minimum(ends[child], ends[parent[child]]) - starts[child]
    covered = np.bincount(parent[child], weights=np.maximum(inside, 0), minlength=len(tree))
    left: Ints = tree["dur_ns"].to_numpy(dtype=np.int64) - covered.astype(np.int64)
    return np.maximum(left, 0)


def _by_thread(threads: npt.NDArray[np.int32]) -> Iterator[npt.NDArray[np.intp]]:
    """Row numbers of each thread, threads in order."""
    order = np.argsort(threads, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(threads[order])) + 1)


def op_at(tree: pd.DataFrame, threads: npt.NDArray[np.int32], times: Ints) -> Ints:
    """Row of the innermost op on a thread at an instant, -1 where there is none.

    Args:
        tree: OP_TREE.
        threads: Thread of each question; negative where it is not known.
        times: Instant of each question, ns.
    """
    found = np.full(len(times), -1, np.int64)
    if tree.empty:
        return found
    owner = tree["thread"].to_numpy(dtype=np.int32)
    starts = tree["ts_ns"].to_numpy(dtype=np.int64)
    ends = starts + tree["dur_ns"].to_numpy(dtype=np.int64)
    parent = tree["parent"].to_numpy(dtype=np.int64)
    first = np.flatnonzero(np.concatenate(([True], owner[1:] != owner[:-1])))
    for low, high in zip(first, [*first[1:], len(owner)], strict=True):
        asked = np.flatnonzero(threads == owner[low])
        if len(asked):
            local = np.where(parent[low:high] >= 0, parent[low:high] - low, -1)
            at = innermost(starts[low:high], ends[low:high], local, times[asked])
            found[asked] = np.where(at >= 0, at + low, -1)
    return found
