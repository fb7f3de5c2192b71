"""Normalisations: RMS 4, fused add and RMS 5, layer and group norm 8 (6 without scale and shift) operations an element."""

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

RMS = 4.0
FUSED_ADD_RMS = 5.0
LAYER = 8.0
LAYER_PLAIN = 6.0


def norm(
    x: Tensor | None,
    parameters: tuple[Tensor | None, ...],
    per_element: float,
    *,
    out_item: int | None = None,
) -> OpWork | None:
    """Reads and writes x once, each parameter read once: Q = 2·numel·b + parameters."""
    if x is None:
        return None
    weights = float(sum(tensor.bytes for tensor in parameters if tensor is not None))
    traffic = x.bytes + x.numel * (out_item or x.item) + weights
    return OpWork(per_element * x.numel, traffic, x.dtype, "vector", weight_bytes=weights)


def fused_add(x: Tensor | None, weight: Tensor | None, *, out_item: int | None = None) -> OpWork | None:
    """Residual added and kept, sum normalised: Q = 4·numel·b + weight (x and residual read, sum and result written)."""
    if x is None:
        return None
    weights = float(0 if weight is None else weight.bytes)
    traffic = 3.0 * x.bytes + x.numel * (out_item or x.item) + weights
    return OpWork(FUSED_ADD_RMS * x.numel, traffic, x.dtype, "vector", weight_bytes=weights)


# Positions of the input and the weight.
_RMS = {
    "aten::rms_norm": (0, 2),
    "aten::_fused_rms_norm": (0, 2),
    "_C::rms_norm": (1, 2),
    "_C::poly_norm": (1, 2),
    "sgl_kernel::rmsnorm": (1, 2),
    "sgl_kernel::gemma_rmsnorm": (1, 2),
    "flashinfer::rmsnorm": (1, 2),
    "flashinfer::gemma_rmsnorm": (1, 2),
    # FlashInfer 0.2.3 to 0.3 names its ops by the module that it compiles.
    "norm::rmsnorm": (1, 2),
    "norm::gemma_rmsnorm": (1, 2),
    "trtllm::flashinfer_rmsnorm": (0, 1),
    "vllm::rocm_aiter_rms_norm": (0, 1),
    "aiter::rms_norm": (0, 1),
    "aiter::rms_norm_cu": (1, 2),
    "aiter::rmsnorm": (1, 2),
    "aiter::rmsnorm2d_fwd": (0, 1),
    "aiter::rmsnorm2d_fwd_ck": (0, 1),
    "sgl_kernel::rmsnorm_cpu": (0, 1),
    "vllm::rocm_aiter_rmsnorm_fused_dynamic_quant": (0, 1),
    "vllm::rocm_aiter_rmsnorm_fp8_group_quant": (0, 1),
}
_TO_8_BITS = "quant"


@model(*_RMS, kind=OpKind.NORM)
def rms_norm(call: OpCall) -> OpWork | None:
    """`aten::rms_norm(x, weight)`: F = 4·numel (square, mean, scale, weight), Q = 2·numel·b + H·b."""
    x_at, weight_at = _RMS[call.name]
    item = 1 if call.name.endswith(_TO_8_BITS) else None
    return norm(call.tensor(x_at), (call.tensor(weight_at),), RMS, out_item=item)


@model("vllm::fused_mla_dual_rms_norm", kind=OpKind.NORM)
def dual_rms_norm(call: OpCall) -> OpWork | None:
    """`vllm::fused_mla_dual_rms_norm(x[T, a], weight, y[T, b], weight, ...)`: two RMS norms in one kernel."""
    first, second = (norm(call.tensor(at), (call.tensor(at + 1),), RMS) for at in (0, 2))
    if first is None or second is None or first.dram_bytes is None or second.dram_bytes is None:
        return None
    return OpWork(
        (first.flops or 0.0) + (second.flops or 0.0),
        first.dram_bytes + second.dram_bytes,
        first.dtype,
        "vector",
        weight_bytes=first.weight_bytes + second.weight_bytes,
    )


_FUSED = {
    "_C::fused_add_rms_norm": (0, 2),
    "sgl_kernel::fused_add_rmsnorm": (0, 2),
    "sgl_kernel::gemma_fused_add_rmsnorm": (0, 2),
    "sgl_kernel::fused_add_rmsnorm_cpu": (0, 2),
    "flashinfer::fused_add_rmsnorm": (0, 2),
    "flashinfer::gemma_fused_add_rmsnorm": (0, 2),
    "norm::fused_add_rmsnorm": (0, 2),
    "norm::gemma_fused_add_rmsnorm": (0, 2),
    "trtllm::flashinfer_fused_add_rmsnorm": (0, 2),
    "vllm::rocm_aiter_rmsnorm2d_fwd_with_add": (0, 2),
    "aiter::rmsnorm2d_fwd_with_add": (1, 4),
    "aiter::rmsnorm2d_fwd_with_add_ck": (1, 4),
    "aiter::add_rmsnorm": (1, 4),
    "aiter::fused_add_rms_norm_cu": (0, 2),
    "vllm::rocm_aiter_rmsnorm_fused_add_dynamic_quant": (0, 2),
    "vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant": (0, 2),
}


@model(*_FUSED, kind=OpKind.NORM)
def fused_add_rms_norm(call: OpCall) -> OpWork | None:
    """`_C::fused_add_rms_norm(x, residual, weight)`: F = 5·numel, Q = 4·numel·b + H·b, wherever the outputs go."""
    x_at, weight_at = _FUSED[call.name]
    item = 1 if call.name.endswith(_TO_8_BITS) else None
    return fused_add(call.tensor(x_at), call.tensor(weight_at), out_item=item)


@model("_C::rms_norm_static_fp8_quant", "_C::rms_norm_dynamic_per_token_quant", kind=OpKind.NORM)
def rms_norm_quant(call: OpCall) -> OpWork | None:
    """`_C::rms_norm_static_fp8_quant(out, x, weight, scale, ...)`: as rms_norm with an 8-bit result."""
    return norm(call.tensor(1), (call.tensor(2),), RMS, out_item=1)


@model("_C::fused_add_rms_norm_static_fp8_quant", kind=OpKind.NORM)
def fused_add_rms_norm_quant(call: OpCall) -> OpWork | None:
    """`_C::fused_add_rms_norm_static_fp8_quant(out, x, residual, weight, scale, eps)`: as the fused norm with an 8-bit result."""
    return fused_add(call.tensor(1), call.tensor(3), out_item=1)


# Positions of the input, the scale and the shift.
_LAYER = {
    "aten::native_layer_norm": (0, 2, 3),
    "aten::layer_norm": (0, 2, 3),
    "aten::native_group_norm": (0, 1, 2),
    "aten::group_norm": (0, 2, 3),
    "aten::native_batch_norm": (0, 1, 2),
    "aten::batch_norm": (0, 1, 2),
    "aten::cudnn_batch_norm": (0, 1, 2),
    "aten::miopen_batch_norm": (0, 1, 2),
    "aten::_batch_norm_impl_index": (0, 1, 2),
    "aten::_native_batch_norm_legit_no_training": (0, 1, 2),
    "aten::instance_norm": (0, 1, 2),
}


@model(*_LAYER, kind=OpKind.NORM)
def layer_norm(call: OpCall) -> OpWork | None:
    """`aten::layer_norm(x, weight, bias)`: F = 8·numel (6 without scale and shift), Q = 2·numel·b + parameters."""
    x_at, weight_at, bias_at = _LAYER[call.name]
    weight = call.tensor(weight_at)
    per_element = LAYER if weight is not None and weight.numel else LAYER_PLAIN
    return norm(call.tensor(x_at), (weight, call.tensor(bias_at)), per_element)
