"""Triton kernels of torch.compile, where the launch recorded its pointers' sizes: outer inputs and outputs once each.

Only the aten words in the name are known of the fused body, so the operations are a count of those words.
"""

import math
import re

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

_NAME = re.compile(r"^triton_(poi|red|per|tem|for)_fused_(\w*?)_?\d+$")
# Operations an element by word of the fused name; words of moves and views cost nothing.
_WORDS = {
    **dict.fromkeys(
        (
            "add",
            "sub",
            "mul",
            "div",
            "neg",
            "exp",
            "rsqrt",
            "sqrt",
            "mean",
            "sum",
            "amax",
            "amin",
            "max",
            "min",
            "relu",
            "abs",
            "pow",
            "log",
        ),
        1.0,
    ),
    **dict.fromkeys(("sin", "cos", "tanh", "reciprocal", "erf", "maximum", "minimum", "rsub", "cumsum"), 1.0),
    **dict.fromkeys(("clamp", "var"), 2.0),
    "sigmoid": 3.0,
    "silu": 4.0,
    "softmax": 5.0,
    "gelu": 8.0,
}


def _elements(call: OpCall, tensors: tuple[Tensor, ...], kind: str) -> int | None:
    """Elements that the kernel works over, from the numels that end its arguments; None where they do not fit a tensor."""
    numbers: list[int] = []
    for index in reversed(range(len(call.types))):
        if call.types[index] != "Scalar":
            break
        value = call.integer(index)
        if value is None or value < 0:
            break
        numbers.append(value)
    sizes = {tensor.numel for tensor in tensors}
    one, two = numbers[:1], numbers[:2]
    candidates = [math.prod(two), *one] if kind in {"red", "per"} else [*one, math.prod(two)]
    return next((count for count in candidates if numbers and count in sizes), None)


@model("triton_*_fused_*", kind=OpKind.ELEMENTWISE)
def fused(call: OpCall) -> OpWork | None:
    """`triton_poi_fused_mul_silu_0(in, ..., out, numel)`: Q = every tensor once at storage size, F = words x numel.

    A tensor larger than the kernel's numel is a table that it picks from: no more than numel elements of it count.
    Without a numel that fits a tensor nothing is said. A template (`tem`) is a matrix product: bytes alone.
    """
    match = _NAME.match(call.name)
    tensors = call.tensors()
    if match is None or not tensors:
        return None
    kind, words = match.groups()
    elements = _elements(call, tensors, kind)
    if elements is None:
        return None
    traffic = float(sum(min(tensor.stored, elements) * tensor.item for tensor in tensors))
    dtype = tensors[-1].dtype
    if kind in {"tem", "for"}:
        return OpWork(None, traffic, dtype, None)
    per_element = sum(_WORDS.get(word, 0.0) for word in words.split("_"))
    return OpWork(per_element * elements, traffic, dtype, "vector")
