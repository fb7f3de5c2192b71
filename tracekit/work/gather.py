"""Gathers and scatters: rows that are picked are charged, never the table."""

import math

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor


def rows(table: Tensor | None, index: Tensor | None, *, weight: bool) -> OpWork | None:
    """Picking rows: Q = min(T, V)·H·b read + T·H·b written + the index.

    Which rows repeat is device data; T distinct rows are assumed, up to the whole table.
    """
    if table is None or index is None or not table.shape:
        return None
    row = math.prod(table.shape[1:]) * table.item
    read = min(index.numel, table.shape[0]) * row
    traffic = read + index.numel * row + index.bytes
    return OpWork(0.0, float(traffic), table.dtype, "vector", weight_bytes=float(read) if weight else 0.0)


@model("aten::embedding", kind=OpKind.GATHER)
def embedding(call: OpCall) -> OpWork | None:
    """`aten::embedding(table[V, H], index[T])`: F = 0, Q = 2·T·H·b + 8T, not V·H."""
    return rows(call.tensor(0), call.tensor(1), weight=True)


@model("aten::index_select", kind=OpKind.GATHER)
def index_select(call: OpCall) -> OpWork | None:
    """`aten::index_select(self, dim, index[T])`: the T slices along dim, read and written."""
    x, dim, index = call.tensor(0), call.integer(1), call.tensor(2)
    if x is None or index is None or not x.shape:
        return None
    at = 0 if dim is None else dim % len(x.shape)
    size = x.shape[at]
    moved = Tensor((size, x.numel // size if size else 0), x.dtype)
    return rows(moved, index, weight=False)


@model("aten::gather", "aten::take", "aten::take_along_dim", kind=OpKind.GATHER)
def gather(call: OpCall) -> OpWork | None:
    """`aten::gather(self, dim, index)`: one element read and written an index."""
    x = call.tensor(0)
    index = call.tensor(1) if call.name == "aten::take" else call.tensor(2)
    if x is None or index is None:
        return None
    return OpWork(0.0, float(index.bytes + 2 * index.numel * x.item), x.dtype, "vector")


@model("aten::scatter", "aten::scatter_", "aten::scatter_add", "aten::scatter_add_", kind=OpKind.GATHER)
def scatter(call: OpCall) -> OpWork | None:
    """`aten::scatter_(self, dim, index, src)`: index read, src read, as many elements of self written (read as well to add)."""
    x, index, source = call.tensor(0), call.tensor(2), call.tensor(3)
    if x is None or index is None:
        return None
    adds = "add" in call.name
    moved = index.numel * x.item * (2 if adds else 1)
    read = index.numel * source.item if source is not None else 0
    return OpWork(float(index.numel) if adds else 0.0, float(index.bytes + moved + read), x.dtype, "vector")


@model("aten::index_add", "aten::index_add_", "aten::index_copy", "aten::index_copy_", kind=OpKind.GATHER)
def index_add(call: OpCall) -> OpWork | None:
    """`aten::index_add_(self, dim, index, source)`: source read, as many elements written (read as well to add)."""
    x, index, source = call.tensor(0), call.tensor(2), call.tensor(3)
    if x is None or index is None or source is None:
        return None
    adds = "add" in call.name
    moved = source.numel * x.item * (2 if adds else 1)
    return OpWork(
        float(source.numel) if adds else 0.0, float(index.bytes + source.bytes + moved), x.dtype, "vector"
    )


@model("aten::index_put", "aten::index_put_", "aten::_index_put_impl_", kind=OpKind.GATHER)
def index_put(call: OpCall) -> OpWork | None:
    """`aten::index_put_(self, indices, values)`: values read and as many elements written; a single value hides the count."""
    x, values = call.tensor(0), call.tensor(2)
    if x is None or values is None or values.numel <= 1:
        return None
    return OpWork(0.0, float(values.bytes + values.numel * x.item), x.dtype, "vector")


@model("aten::index", kind=OpKind.GATHER)
def index(call: OpCall) -> OpWork | None:
    """`aten::index(self, indices)`: only where the sizes of the list of indices were recorded; one index is taken to pick rows."""
    x, indices = call.tensor(0), call.shapes(1)
    if x is None or len(indices) != 1:
        return None
    return rows(x, Tensor(indices[0], "int64"), weight=False)
