"""What the link stage hands on: kernels joined to their launches, ops joined to their parents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.tables.capture import OPS, QualityNote
from tracekit.tables.public import KERNELS
from tracekit.tables.schema import Column, Table

if TYPE_CHECKING:
    import pandas as pd

_SHARED = (
    "kernel_id",
    "rank",
    "device",
    "stream",
    "kind",
    "name",
    "ts_ns",
    "dur_ns",
    "correlation",
    "launch_ts_ns",
    "from_graph",
    "op",
    "grid",
    "block",
    "flags",
)

LINKED = Table(
    "linked",
    (
        *(column for column in KERNELS.columns if column.name in _SHARED),
        Column("bytes", "int64", "Bytes of a copy or fill.", "byte", null=True),
        Column("thread", "int32", "Host thread of the launch; on a CPU-only trace the op's.", null=True),
        Column("launch_end_ns", "int64", "End of the launch call.", "ns", null=True),
        Column("launch_name", "string", "Name of the launch call.", null=True),
        Column("op_row", "int64", "Row of OP_TREE: the innermost op around the launch.", null=True),
        Column("node_order", "int64", "Order among the kernels of one launch, by start.", null=True),
    ),
    key=("kernel_id",),
)

OP_TREE = Table(
    "op_tree",
    (
        *OPS.columns,
        Column("parent", "int64", "Row of the enclosing op on the same thread; -1 at the root."),
        Column("depth", "int64", "Enclosing ops on the same thread.", minimum=0),
        Column("self_ns", "int64", "Duration less that of its children.", "ns", minimum=0),
    ),
)


@dataclass(frozen=True, slots=True)
class Linked:
    """The output of the link stage for one capture.

    Attributes:
        kernels: LINKED, in order of start.
        ops: OP_TREE, in order of (thread, start, longest first); `op_row` and `parent` are positions in it.
        quality: What could not be joined.
    """

    kernels: pd.DataFrame
    ops: pd.DataFrame
    quality: tuple[QualityNote, ...] = ()
