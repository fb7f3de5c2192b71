"""Copies, casts, concatenations and fills: F = 0; every byte read once and written once."""

import math

from tracekit.work.dtypes import scalar_type
from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor


def moved(read: float, written: float, dtype: str) -> OpWork:
    """Work of a pure move [byte]."""
    return OpWork(0.0, float(read + written), dtype, "vector")


@model("aten::copy_", "aten::_copy_from", "aten::copy", kind=OpKind.COPY)
def copy(call: OpCall) -> OpWork | None:
    """`aten::copy_(self, src)`: Q = src at storage size + self written; a cast has two element sizes."""
    target, source = call.tensor(0), call.tensor(1)
    if target is None or source is None:
        return None
    return moved(source.bytes, target.numel * target.item, target.dtype)


@model("aten::clone", "aten::contiguous", "aten::repeat_interleave", kind=OpKind.COPY)
def clone(call: OpCall) -> OpWork | None:
    """`aten::clone(self)`: Q = self at storage size + a full copy written."""
    x = call.tensor(0)
    if x is None or call.name == "aten::repeat_interleave":
        return None
    return moved(x.bytes, x.numel * x.item, x.dtype)


@model("aten::to", "aten::_to_copy", "aten::type_as", kind=OpKind.COPY)
def to(call: OpCall) -> OpWork | None:
    """`aten::_to_copy(self, dtype, ...)`: Q = self read + the result written in the type asked for.

    `aten::to` without an inner copy returned its argument: it costs nothing of its own.
    """
    x = call.tensor(0)
    if x is None:
        return None
    if call.name != "aten::_to_copy":
        return moved(0, 0, x.dtype)
    word = scalar_type(call.integer(1)) or x.dtype
    return moved(x.bytes, Tensor(x.shape, word).bytes, word)


@model(
    "aten::cat",
    "aten::concat",
    "aten::concatenate",
    "aten::stack",
    "aten::hstack",
    "aten::vstack",
    "aten::_cat",
    kind=OpKind.COPY,
)
def cat(call: OpCall) -> OpWork | None:
    """`aten::cat(tensors, dim)`: all read and written once; a list's element type is `OpCall.list_type`."""
    return _list_copy(call)


@model("aten::_foreach_copy_", kind=OpKind.COPY)
def foreach_copy(call: OpCall) -> OpWork | None:
    """`aten::_foreach_copy_(targets, sources)`: as cat, by the sizes of the targets."""
    return _list_copy(call)


def _list_copy(call: OpCall) -> OpWork | None:
    shapes = call.shapes(0)
    if not shapes or call.list_type is None:
        return None
    size = Tensor((sum(math.prod(shape) for shape in shapes),), call.list_type).bytes
    return moved(size, size, call.list_type)


@model(
    "aten::roll",
    "aten::flip",
    "aten::tril",
    "aten::triu",
    "aten::tril_",
    "aten::triu_",
    "aten::rot90",
    kind=OpKind.COPY,
)
def permuted(call: OpCall) -> OpWork | None:
    """`aten::flip(self)`: Q = 2·numel·b."""
    x = call.tensor(0)
    return None if x is None else moved(x.bytes, x.numel * x.item, x.dtype)


@model("aten::constant_pad_nd", "aten::pad", kind=OpKind.COPY)
def pad(call: OpCall) -> OpWork | None:
    """`aten::constant_pad_nd(self, pad, value)`: self read, the padded result written."""
    x, sides = call.tensor(0), call.integers(1)
    if x is None or sides is None or len(sides) % 2 or len(sides) > 2 * len(x.shape):
        return None
    shape = list(x.shape)
    for pair in range(len(sides) // 2):
        shape[-1 - pair] += sides[2 * pair] + sides[2 * pair + 1]
    return moved(x.bytes, math.prod(shape) * x.item, x.dtype) if min(shape, default=1) >= 0 else None


@model("aten::repeat", kind=OpKind.COPY)
def repeat(call: OpCall) -> OpWork | None:
    """`aten::repeat(self, repeats)`: self read, its multiple written."""
    x, repeats = call.tensor(0), call.integers(1)
    if x is None or repeats is None or any(count < 0 for count in repeats):
        return None
    return moved(x.bytes, x.numel * math.prod(repeats) * x.item, x.dtype)


@model(
    "aten::fill_",
    "aten::zero_",
    "aten::zeros_like",
    "aten::ones_like",
    "aten::full_like",
    "aten::new_zeros",
    "aten::new_ones",
    "aten::new_full",
    kind=OpKind.FILL,
)
def fill(call: OpCall) -> OpWork | None:
    """`aten::fill_(self, value)`: Q = self written; `new_*` sizes are a recorded list."""
    x = call.tensor(0)
    if x is None:
        return None
    numel = x.numel
    if call.name.startswith("aten::new_"):
        shape = call.integers(1)
        if shape is None:
            return None
        numel = math.prod(shape)
    return moved(0, numel * x.item, x.dtype)


@model("aten::zeros", "aten::ones", "aten::full", kind=OpKind.FILL)
def filled(call: OpCall) -> OpWork | None:
    """`aten::zeros(size, dtype)`: Q = the result written; the work is an inner `fill_`'s where there is one."""
    shape = call.integers(0)
    word = scalar_type(call.integer(2 if call.name == "aten::full" else 1)) or "fp32"
    return None if shape is None else moved(0, math.prod(shape) * Tensor((), word).item, word)


@model("aten::arange", kind=OpKind.FILL)
def arange(call: OpCall) -> OpWork | None:
    """`aten::arange(start, end, step)`: Q = the result written; int64 unless a type is recorded."""
    numbers = [call.number(index) for index in range(3)]
    start, end, step = numbers
    if start is None:
        return None
    if end is None:
        start, end, step = 0.0, start, 1.0
    count = max(0.0, -(-(end - start) // (step or 1.0)))
    return moved(0, count * 8, "int64") if count < 1 << 40 else None
