"""Softmax: F = 5 an element (maximum, subtract, exponential, sum, divide); Q = read and written once."""

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall

PER_ELEMENT = 5.0


@model(
    "aten::_softmax",
    "aten::softmax",
    "aten::_log_softmax",
    "aten::log_softmax",
    "aten::_safe_softmax",
    "aten::_masked_softmax",
    "aten::special_softmax",
    kind=OpKind.SOFTMAX,
)
def softmax(call: OpCall) -> OpWork | None:
    """`aten::softmax(x, dim, half_to_float)`: F = 5·numel, Q = 2·numel·b where a row stays on the chip; a lower bound else."""
    x = call.tensor(0)
    if x is None:
        return None
    out = 4 if call.name.startswith("aten::_") and call.flag(2) else x.item
    return OpWork(PER_ELEMENT * x.numel, float(x.bytes + x.numel * out), x.dtype, "vector")
