"""Reductions and scans: F = numel(in); Q = input read, result written."""

import math

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

# Position of the list (or number) of dimensions, and operations an input element.
_REDUCTIONS = {
    **dict.fromkeys(
        (
            "sum",
            "mean",
            "amax",
            "amin",
            "max",
            "min",
            "prod",
            "any",
            "all",
            "nansum",
            "count_nonzero",
            "nanmean",
        ),
        (1, 1.0),
    ),
    "logsumexp": (1, 3.0),
    "linalg_vector_norm": (2, 2.0),
    "norm": (2, 2.0),
    **dict.fromkeys(("var", "std", "var_mean", "std_mean"), (1, 3.0)),
    **dict.fromkeys(("argmax", "argmin"), (1, 1.0)),
}
_INDEX_RESULT = frozenset({"argmax", "argmin"})
_BOOL_RESULT = frozenset({"any", "all"})


def kept(x: Tensor, dims: tuple[int, ...] | None) -> int:
    """Elements left when dims are reduced; 1 where all are, by an empty list or none."""
    if not dims or not x.shape:
        return 1
    gone = {dim % len(x.shape) for dim in dims}
    return math.prod(size for at, size in enumerate(x.shape) if at not in gone)


@model(*(f"aten::{name}" for name in _REDUCTIONS), kind=OpKind.REDUCTION)
def reduction(call: OpCall) -> OpWork | None:
    """`aten::sum(x, dims)`: F = numel(x) (variance 3, vector norm 2), Q = x + result."""
    word = call.name.removeprefix("aten::")
    x = call.tensor(0)
    if x is None:
        return None
    at, per_element = _REDUCTIONS[word]
    if word in {"max", "min"} and call.tensor(1) is not None:
        return OpWork(
            float(x.numel), float(x.bytes + (call.tensor(1) or x).bytes + x.numel * x.item), x.dtype, "vector"
        )
    single = call.integer(at)
    left = kept(x, (single,) if single is not None else call.integers(at))
    item = 8 if word in _INDEX_RESULT else 1 if word in _BOOL_RESULT else x.item
    indices = 8 * left if word in {"max", "min"} and single is not None else 0
    return OpWork(per_element * x.numel, float(x.bytes + left * item + indices), x.dtype, "vector")


@model(
    "aten::cumsum",
    "aten::cumsum_",
    "aten::cumprod",
    "aten::cummax",
    "aten::cummin",
    "aten::logcumsumexp",
    kind=OpKind.REDUCTION,
)
def scan(call: OpCall) -> OpWork | None:
    """`aten::cumsum(x, dim)`: F = numel(x), Q = x + a result of the same size; sums of integers are int64."""
    x = call.tensor(0)
    if x is None:
        return None
    item = (
        8
        if x.dtype in {"bool", "int8", "int16", "int32"} and call.name.startswith("aten::cumsum")
        else x.item
    )
    return OpWork(float(x.numel), float(x.bytes + x.numel * item), x.dtype, "vector")
