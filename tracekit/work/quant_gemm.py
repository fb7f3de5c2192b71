"""Matrix products over quantised operands: the math chooses the peak, the storage the bytes."""

import math

from tracekit.work.dtypes import FLOATS, element_size, scalar_type
from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

_MATRIX = 2


@model("aten::_scaled_mm", "trtllm::cublas_scaled_mm", kind=OpKind.GEMM)
def scaled_mm(call: OpCall) -> OpWork | None:
    """`aten::_scaled_mm(a[M, K], b[K, N], scale_a, scale_b, bias, scale_result, out_dtype)`: F = 2MNK at the operands' peak.

    Q = MK + KN + MN + the scales as recorded: 4 B each per tensor, 4(M + N) per row, 1 B a block in mxfp8 and nvfp4.
    A float4 element holds two values, so K is twice what is recorded. Out is bf16 where no type is recorded.
    """
    operands = _operands(call)
    if operands is None:
        return None
    a, b = operands
    out = element_size(scalar_type(call.integer(6)) or scalar_type(call.integer(5)) or "bf16")
    extras = [call.tensor(index) for index in (2, 3, 4)]
    return _quantised(a, b, a.shape[0], b.shape[1], a.shape[1] * (2 if a.dtype == "fp4" else 1), out, extras)


# ScalingType of a block scale of 16 or 32 elements, a byte each; the other recipes have scales of four.
_BYTE_RECIPES = frozenset({2, 3})


@model("aten::_scaled_mm_v2", kind=OpKind.GEMM)
def scaled_mm_v2(call: OpCall) -> OpWork | None:
    """`aten::_scaled_mm_v2(a[M, K], b[K, N], scales_a, recipes_a, swizzles_a, scales_b, recipes_b, swizzles_b, bias, out_dtype, ...)`: as `_scaled_mm`.

    Scales are lists of tensors, whose type is not recorded: a byte each in recipes of blocks of 16 and 32, else 4 B.
    """
    operands = _operands(call)
    if operands is None:
        return None
    a, b = operands
    out = element_size(scalar_type(call.integer(9)) or "bf16")
    k = a.shape[1] * (2 if a.dtype == "fp4" else 1)
    work = _quantised(a, b, a.shape[0], b.shape[1], k, out, [call.tensor(8)])
    scales = sum(_scale_bytes(call, at) for at in (2, 5))
    return OpWork(
        work.flops, (work.dram_bytes or 0.0) + scales, a.dtype, a.dtype, weight_bytes=work.weight_bytes
    )


def _scale_bytes(call: OpCall, at: int) -> float:
    recipes = call.integers(at + 1) or ()
    item = 1 if recipes and recipes[0] in _BYTE_RECIPES else 4
    return float(item * sum(math.prod(shape) for shape in call.shapes(at)))


def _quantised(
    a: Tensor, b: Tensor, m: int, n: int, k: int, out_item: int, extras: list[Tensor | None]
) -> OpWork:
    extra = sum(tensor.bytes for tensor in extras if tensor is not None)
    traffic = a.bytes + b.bytes + m * n * out_item + extra
    return OpWork(2.0 * m * n * k, float(traffic), a.dtype, a.dtype, weight_bytes=float(b.bytes))


def _operands(call: OpCall) -> tuple[Tensor, Tensor] | None:
    """The matrices a[M, K] and b[K, N] that a product begins with; None where they are none."""
    a, b = call.tensor(0), call.tensor(1)
    if a is None or b is None or len(a.shape) != _MATRIX or len(b.shape) != _MATRIX:
        return None
    return (a, b) if a.shape[1] == b.shape[0] else None


@model("aten::_int_mm", kind=OpKind.GEMM)
def int_mm(call: OpCall) -> OpWork | None:
    """`aten::_int_mm(a[M, K] int8, b[K, N] int8)`: F = 2MNK at the int8 peak; out is int32."""
    operands = _operands(call)
    if operands is None:
        return None
    a, b = operands
    return _quantised(a, b, a.shape[0], b.shape[1], a.shape[1], 4, [])


@model("_C::cutlass_scaled_mm", "_C::cutlass_scaled_mm_azp", "_C::cutlass_scaled_sparse_mm", kind=OpKind.GEMM)
def cutlass_scaled_mm(call: OpCall) -> OpWork | None:
    """`_C::cutlass_scaled_mm(out[M, N], a[M, K], b[K, N], a_scales, b_scales, bias)`: F = 2MNK at the peak of a's type."""
    out, a, b = call.tensor(0), call.tensor(1), call.tensor(2)
    if out is None or a is None or b is None or len(a.shape) != _MATRIX or len(out.shape) != _MATRIX:
        return None
    return _quantised(
        a, b, a.shape[0], out.shape[1], a.shape[1], out.item, [call.tensor(i) for i in (3, 4, 5)]
    )


@model("_C::onednn_scaled_mm", kind=OpKind.GEMM)
def onednn_scaled_mm(call: OpCall) -> OpWork | None:
    """`_C::onednn_scaled_mm(out[M, N], a[M, K] int8, a_scales, azp, azp_adj, bias, handler)`: weight [K, N] int8 behind the handler."""
    out, a = call.tensor(0), call.tensor(1)
    if out is None or a is None or len(a.shape) != _MATRIX or len(out.shape) != _MATRIX:
        return None
    weight = Tensor((a.shape[1], out.shape[1]), a.dtype)
    return _quantised(
        a, weight, a.shape[0], out.shape[1], a.shape[1], out.item, [call.tensor(2), call.tensor(5)]
    )


@model("_C::cutlass_scaled_fp4_mm", kind=OpKind.GEMM)
def cutlass_fp4_mm(call: OpCall) -> OpWork | None:
    """`_C::cutlass_scaled_fp4_mm(out[M, N], a[M, K/2], b[N, K/2], a_scales, b_scales, alpha)`: F = 2MNK at the fp4 peak."""
    out, a, b = call.tensor(0), call.tensor(1), call.tensor(2)
    if out is None or a is None or b is None or len(a.shape) != _MATRIX or len(out.shape) != _MATRIX:
        return None
    work = _quantised(
        a, b, a.shape[0], out.shape[1], 2 * a.shape[1], out.item, [call.tensor(3), call.tensor(4)]
    )
    return OpWork(work.flops, work.dram_bytes, "fp4", "fp4", weight_bytes=work.weight_bytes)


@model(
    "sgl_kernel::fp8_scaled_mm",
    "sgl_kernel::int8_scaled_mm",
    "sgl_kernel::fp8_blockwise_scaled_mm",
    kind=OpKind.GEMM,
)
def sgl_scaled_mm(call: OpCall) -> OpWork | None:
    """`sgl_kernel::fp8_scaled_mm(a[M, K], b[K, N], scales_a, scales_b, out_dtype, bias)`: F = 2MNK at the peak of a's type."""
    operands = _operands(call)
    if operands is None:
        return None
    a, b = operands
    out = element_size(scalar_type(call.integer(4)) or "bf16")
    return _quantised(a, b, a.shape[0], b.shape[1], a.shape[1], out, [call.tensor(i) for i in (2, 3, 5)])


@model("vllm::apply_w8a8_block_fp8_linear", "vllm::w8a8_triton_block_scaled_mm_func", kind=OpKind.GEMM)
def block_fp8_linear(call: OpCall) -> OpWork | None:
    """`vllm::apply_w8a8_block_fp8_linear(x[..., K], w[N, K] fp8, block, scale...)`: F = 2MNK at the fp8 peak, x as recorded."""
    x, w = call.tensor(0), call.tensor(1)
    if x is None or w is None or len(w.shape) != _MATRIX or x.shape[-1:] != w.shape[1:]:
        return None
    scales = [tensor for tensor in call.tensors()[2:] if tensor.dtype == "fp32"]
    traffic = x.bytes + w.bytes + x.rows * w.shape[0] * max(2, x.item) + sum(scale.bytes for scale in scales)
    return OpWork(2.0 * x.rows * w.numel, float(traffic), "fp8", "fp8", weight_bytes=float(w.bytes))


def _weight_only(x: Tensor, n: int, packed: Tensor, extras: list[Tensor]) -> OpWork:
    """F = 2MNK at the peak of the activations' type: the weights are widened before they are multiplied."""
    weights = packed.bytes + sum(tensor.bytes for tensor in extras)
    traffic = x.bytes + weights + x.rows * n * x.item
    return OpWork(
        2.0 * x.rows * n * x.shape[-1], float(traffic), x.dtype, x.dtype, weight_bytes=float(weights)
    )


@model("aten::_weight_int4pack_mm", "aten::_weight_int4pack_mm_for_cpu", kind=OpKind.GEMM)
def int4pack_mm(call: OpCall) -> OpWork | None:
    """`aten::_weight_int4pack_mm(x[M, K], packed, group, scales_and_zeros[K/g, N, 2])`: N from the scales, K from x.

    Q = MK + NK/2 (the packed tensor as stored) + the scales + MN.
    """
    x, packed, scales = call.tensor(0), call.tensor(1), call.tensor(3)
    if x is None or packed is None or scales is None or len(scales.shape) != 3 or not x.shape:  # noqa: PLR2004 - [K/g, N, 2]
        return None
    return _weight_only(x, scales.shape[1], packed, [scales])


@model("aten::_weight_int8pack_mm", kind=OpKind.GEMM)
def int8pack_mm(call: OpCall) -> OpWork | None:
    """`aten::_weight_int8pack_mm(x[M, K], w[N, K] int8, scales[N])`: F = 2MNK at the activations' peak."""
    x, w, scales = call.tensor(0), call.tensor(1), call.tensor(2)
    if x is None or w is None or scales is None or len(w.shape) != _MATRIX or x.shape[-1:] != w.shape[1:]:
        return None
    return _weight_only(x, w.shape[0], w, [scales])


@model("aten::_dyn_quant_matmul_4bit", kind=OpKind.GEMM)
def dyn_quant_matmul_4bit(call: OpCall) -> OpWork | None:
    """`aten::_dyn_quant_matmul_4bit(x[M, K], packed, block, K, N)`: activations are quantised to int8 on the way."""
    x, packed, n = call.tensor(0), call.tensor(1), call.integer(4)
    if x is None or packed is None or n is None or n <= 0 or not x.shape:
        return None
    work = _weight_only(x, n, packed, [])
    return OpWork(work.flops, work.dram_bytes, "int8", "int8", weight_bytes=work.weight_bytes)


@model(
    "_C::gptq_marlin_gemm",
    "_C::marlin_gemm",
    "_C::marlin_qqq_gemm",
    "_C::gptq_gemm",
    "_C::awq_gemm",
    "_C::machete_mm",
    "_C::allspark_w8a16_gemm",
    "_C::fp8_marlin_gemm",
    "sgl_kernel::gptq_marlin_gemm",
    "sgl_kernel::awq_gemm",
    "sgl_kernel::gptq_gemm",
    "sglang::unified_apply_gptq_marlin_gemm*",
    "sglang::apply_fp8_marlin_linear",
    "vllm::marlin_gemm",
    "vllm::triton_w4a16_gemm",
    kind=OpKind.GEMM,
)
def packed_gemm(call: OpCall) -> OpWork | None:
    """`_C::gemm(x[M, K], packed int, scales[K/g, N], ...)`: argument order differs by release, so the tensors are told by type.

    The packed weight is the first matrix of integers, its scales the first matrix of floats after it; N is the
    scales' last size, K is x's. Accepted only where the packed tensor holds 1.5 to 8.5 bits a weight.
    """
    tensors = call.tensors()
    if not tensors or tensors[0].dtype not in FLOATS or not tensors[0].shape:
        return None
    x, rest = tensors[0], tensors[1:]
    packed = next(
        (t for t in rest if len(t.shape) == _MATRIX and t.dtype in {"int32", "int8", "int64"}), None
    )
    if packed is None:
        return None
    after = rest[rest.index(packed) + 1 :]
    scales = next((t for t in after if len(t.shape) == _MATRIX and t.dtype in FLOATS), None)
    if scales is None or not scales.shape[1] or not x.shape[-1]:
        return None
    bits = 8 * packed.bytes / (scales.shape[1] * x.shape[-1])
    if not 1.5 <= bits <= 8.5:  # noqa: PLR2004 - two to eight bits, and padding
        return None
    zeros = [
        t
        for t in after
        if len(t.shape) == _MATRIX and t.dtype in {"int32", "int8"} and t.shape[0] == scales.shape[0]
    ]
    return _weight_only(x, scales.shape[1], packed, [scales, *zeros[:1]])


@model("trtllm::nvfp4_gemm", "trtllm::fp4_gemm", kind=OpKind.GEMM)
def trtllm_fp4_gemm(call: OpCall) -> OpWork | None:
    """`trtllm::nvfp4_gemm(a[M, K/2], w[N, K/2], a_scales, w_scales, alpha, ...)`: F = 2MNK at the fp4 peak; out is 16 bits."""
    a, w = call.tensor(0), call.tensor(1)
    if a is None or w is None or len(a.shape) != _MATRIX or len(w.shape) != _MATRIX:
        return None
    k = 2 * a.shape[1] * a.item
    n = w.numel * w.item * 2 // k if k else 0
    scales = sum(t.bytes for t in (call.tensor(2), call.tensor(3)) if t is not None)
    traffic = a.bytes + w.bytes + a.shape[0] * n * 2 + scales
    return OpWork(
        2.0 * math.prod((a.shape[0], n, k)), float(traffic), "fp4", "fp4", weight_bytes=float(w.bytes)
    )
