"""Elementwise ops: F = c·numel(out); Q = inputs at storage size, and the result once."""

from tracekit.work.dtypes import FLOATS, promote
from tracekit.work.gemm import broadcast
from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

# Operations an output element, and the functions that take as many.
_UNARY_BY_COST = {
    1.0: "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan tanh sinh cosh asin acos atan erf erfc "
    "erfinv floor ceil round trunc sign sgn relu square positive",
    2.0: "frac hardtanh relu6 clamp clamp_min clamp_max clip threshold dropout native_dropout",
    3.0: "sigmoid leaky_relu elu celu selu",
    4.0: "silu hardswish hardsigmoid logit",
    5.0: "softplus mish",
    8.0: "gelu",
}
_UNARY = {word: cost for cost, words in _UNARY_BY_COST.items() for word in words.split()}
_WIDENING = frozenset(("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "reciprocal"))
_TESTS = "isnan isinf isfinite logical_not isneginf isposinf"
_BITS = "bitwise_not"
_BINARY = (
    "add sub mul div rsub pow true_divide floor_divide remainder fmod maximum minimum fmax fmin atan2 hypot copysign "
    "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ "
    "__iand__ __ior__ __ixor__ float_power xlogy"
)
_COMPARISONS = "eq ne lt le gt ge logical_and logical_or logical_xor isclose"


def _names(words: str) -> list[str]:
    """Op names, each with its in-place form."""
    return [f"aten::{word}{suffix}" for word in words.split() for suffix in ("", "_")]


def pointwise(inputs: tuple[Tensor, ...], per_element: float, dtype: str | None = None) -> OpWork | None:
    """The work of one pass over broadcast inputs.

    Args:
        inputs: Tensor inputs; each is read at storage size.
        per_element: Operations an output element.
        dtype: Type of the result; by promotion where None.
    """
    if not inputs:
        return None
    shape = broadcast(*(tensor.shape for tensor in inputs))
    if shape is None:
        return None
    word = _result(inputs)
    out = Tensor(shape, dtype or word)
    traffic = sum(tensor.bytes for tensor in inputs) + out.numel * out.item
    return OpWork(per_element * out.numel, float(traffic), word, "vector")


def _result(inputs: tuple[Tensor, ...]) -> str:
    """Promotion: a 0-dimensional tensor decides nothing unless it alone is a float."""
    sized = tuple(tensor.dtype for tensor in inputs if tensor.shape)
    scalars = tuple(tensor.dtype for tensor in inputs if not tensor.shape)
    if not sized:
        return promote(scalars)
    word = promote(sized)
    wider = [scalar for scalar in scalars if scalar in FLOATS and word not in FLOATS]
    return "fp32" if wider else word


def _tensors(call: OpCall, count: int) -> tuple[Tensor, ...]:
    found = (call.tensor(index) for index in range(count))
    return tuple(tensor for tensor in found if tensor is not None)


@model(*_names(" ".join(_UNARY)), kind=OpKind.ELEMENTWISE)
def unary(call: OpCall) -> OpWork | None:
    """f(x) elementwise: Q = 2·numel·b; operations by the formula (silu 4: negate, exponential, add, divide; gelu 8). In place is not read twice."""
    word = call.name.removeprefix("aten::")
    x = call.tensor(0)
    if x is None:
        return None
    word = word.removesuffix("_")
    widened = x.dtype not in FLOATS and word in _WIDENING
    return pointwise((x,), _UNARY[word], "fp32" if widened else None)


@model(*_names(_TESTS), kind=OpKind.ELEMENTWISE)
def test(call: OpCall) -> OpWork | None:
    """`aten::isnan(x)` and its like: one operation an element, a boolean written."""
    return pointwise(_tensors(call, 1), 1.0, "bool")


@model(*_names(_BITS), kind=OpKind.ELEMENTWISE)
def bits(call: OpCall) -> OpWork | None:
    """`aten::bitwise_not(x)`: one operation an element."""
    return pointwise(_tensors(call, 1), 1.0)


@model(*_names(_BINARY), kind=OpKind.ELEMENTWISE)
def binary(call: OpCall) -> OpWork | None:
    """Two inputs, x op y: F = numel(out), Q = x + y at storage size + out; a Python scalar costs nothing."""
    inputs = _tensors(call, 2)
    dtype = None
    if call.name in {"aten::div", "aten::true_divide"} and inputs and _result(inputs) not in FLOATS:
        dtype = "fp32"
    return pointwise(inputs, 1.0, dtype)


@model(*_names(_COMPARISONS), kind=OpKind.ELEMENTWISE)
def comparison(call: OpCall) -> OpWork | None:
    """Two inputs, x < y and its like: F = numel(out), a boolean written."""
    return pointwise(_tensors(call, 2), 1.0, "bool")


@model(*_names("addcmul addcdiv lerp"), kind=OpKind.ELEMENTWISE)
def ternary(call: OpCall) -> OpWork | None:
    """Three inputs, self + value·x·y: F = 3·numel(out)."""
    return pointwise(_tensors(call, 3), 3.0)


@model("aten::where", kind=OpKind.ELEMENTWISE)
def where(call: OpCall) -> OpWork | None:
    """`aten::where(condition, x, y)`: a selection, F = numel(out); the result has the type of x and y."""
    inputs = _tensors(call, 3)
    values = inputs[1:]
    if not values:
        return None
    return pointwise(inputs, 1.0, _result(values))


@model(*_names("masked_fill"), kind=OpKind.ELEMENTWISE)
def masked_fill(call: OpCall) -> OpWork | None:
    """`aten::masked_fill(self, mask, value)`: Q = self + mask + out, F = 0."""
    inputs = _tensors(call, 2)
    return pointwise(inputs, 0.0, inputs[0].dtype if inputs else None)


@model("aten::glu", kind=OpKind.ELEMENTWISE)
def glu(call: OpCall) -> OpWork | None:
    """`aten::glu(x[..., 2I])`: F = 4 a result (sigmoid 3, product 1), Q = 3·rows·I·b."""
    return gated(call.tensor(0), 4.0)


def gated(x: Tensor | None, per_result: float, *, out_item: int | None = None) -> OpWork | None:
    """A gate over x[..., 2I]: Q = 2·rows·I·b read, rows·I written."""
    if x is None or not x.shape or x.shape[-1] % 2:
        return None
    half = x.numel // 2
    return OpWork(per_result * half, float(x.bytes + half * (out_item or x.item)), x.dtype, "vector")


SILU_AND_MUL = 5.0
_GELU = 9.0
# Position of the input, and operations a result: the activation's and one product.
_GATES = {
    "_C::silu_and_mul": (1, SILU_AND_MUL),
    "_C::mul_and_silu": (1, SILU_AND_MUL),
    "_C::gelu_and_mul": (1, _GELU),
    "_C::gelu_tanh_and_mul": (1, _GELU),
    "_C::fatrelu_and_mul": (1, 2.0),
    "_C::swigluoai_and_mul": (1, SILU_AND_MUL + 3.0),
    "sgl_kernel::silu_and_mul": (1, SILU_AND_MUL),
    "sgl_kernel::gelu_and_mul": (1, _GELU),
    "sgl_kernel::gelu_tanh_and_mul": (1, _GELU),
    "sgl_kernel::silu_and_mul_cpu": (0, SILU_AND_MUL),
    "flashinfer::silu_and_mul": (1, SILU_AND_MUL),
    "flashinfer::gelu_and_mul": (1, _GELU),
    "flashinfer::gelu_tanh_and_mul": (1, _GELU),
    "silu_and_mul::silu_and_mul": (1, SILU_AND_MUL),
    "gelu_and_mul::gelu_and_mul": (1, _GELU),
    "gelu_tanh_and_mul::gelu_tanh_and_mul": (1, _GELU),
    "aiter::silu_and_mul": (1, SILU_AND_MUL),
    "aiter::gelu_and_mul": (1, _GELU),
    "aiter::gelu_tanh_and_mul": (1, _GELU),
}


@model(*_GATES, kind=OpKind.ELEMENTWISE)
def act_and_mul(call: OpCall) -> OpWork | None:
    """`_C::silu_and_mul(out[T, I], x[T, 2I])`: F = 5·T·I (silu 4, product 1), Q = 3·T·I·b."""
    at, per_result = _GATES[call.name]
    return gated(call.tensor(at), per_result)


@model("_C::silu_and_mul_quant", kind=OpKind.ELEMENTWISE)
def act_and_mul_quant(call: OpCall) -> OpWork | None:
    """`_C::silu_and_mul_quant(out[T, I] 8 bits, x[T, 2I], scale)`: as silu_and_mul with an 8-bit result and one more product."""
    return gated(call.tensor(1), SILU_AND_MUL + 1.0, out_item=1)


@model("_C::gelu_new", "_C::gelu_fast", "_C::gelu_quick", kind=OpKind.ELEMENTWISE)
def gelu_out(call: OpCall) -> OpWork | None:
    """`_C::gelu_fast(out, x)`: F = 8·numel, Q = 2·numel·b."""
    x = call.tensor(1)
    return None if x is None else pointwise((x,), 8.0)
