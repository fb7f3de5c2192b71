"""Kernels, ops and signatures for tests of whose work a kernel does."""

import json
from typing import Any, TypeAlias

import pandas as pd

from tracekit.tables import LINKED, OP_TREE, SIGNATURES
from tracekit.work import model_work

# Name, dims, types, strides, concrete; and op row, duration, kind.
Call: TypeAlias = tuple[Any, ...]
Row: TypeAlias = tuple[int | None, int, str]


def signatures(*calls: Call) -> pd.DataFrame:
    rows = [
        (name, *(None if value is None else json.dumps(value) for value in (*rest, *[None] * 4)[:4]))
        for name, *rest in calls
    ]
    return SIGNATURES.conform(pd.DataFrame(rows, columns=["op", "dims", "types", "strides", "concrete"]))


def tree(parents: list[int], calls: list[Call]) -> pd.DataFrame:
    """One op a call, on one thread, under the given parents."""
    depth = []
    for parent in parents:
        depth.append(0 if parent < 0 else depth[parent] + 1)
    count = len(parents)
    return OP_TREE.conform(
        pd.DataFrame(
            {
                "name": [call[0] for call in calls],
                "ts_ns": range(count),
                "dur_ns": [1] * count,
                "thread": [0] * count,
                "signature": range(count),
                "parent": parents,
                "depth": depth,
                "self_ns": [1] * count,
            }
        )
    )


def kernels(rows: list[Row], **columns: Any) -> pd.DataFrame:
    """Kernels as (op row or None, duration, kind)."""
    op_rows, durations, kinds = zip(*rows, strict=True)
    frame = LINKED.conform(
        pd.DataFrame(
            {
                "kernel_id": range(len(rows)),
                "kind": kinds,
                "name": columns.pop("name", ["k"] * len(rows)),
                "ts_ns": range(len(rows)),
                "dur_ns": durations,
                "from_graph": False,
                "op_row": pd.array(op_rows, dtype="Int64"),
                "bytes": pd.array(columns.pop("bytes", [None] * len(rows)), dtype="Int64"),
            }
        )
    )
    return frame.assign(**columns)


def run(
    rows: list[Row], parents: list[int], calls: list[Call], steps: pd.DataFrame | None = None, **columns: Any
) -> pd.DataFrame:
    return model_work(kernels(rows, **columns), tree(parents, calls), signatures(*calls), steps)


def listed(column: pd.Series) -> list[Any]:
    return [None if pd.isna(value) else value for value in column]
