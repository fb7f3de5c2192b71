"""Quantising and dequantising: F = 3 an element (scale, round, clamp); Q = input read, codes and scales written."""

import math

from tracekit.work.elementwise import gated
from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

PER_ELEMENT = 3.0

# Positions of the input, the codes and the scales; the scales are written where they are dynamic.
_QUANTISE = {
    "_C::static_scaled_fp8_quant": (1, 0, 2),
    "_C::dynamic_scaled_fp8_quant": (1, 0, 2),
    "_C::dynamic_per_token_scaled_fp8_quant": (1, 0, 2),
    "_C::static_scaled_int8_quant": (1, 0, 2),
    "_C::dynamic_scaled_int8_quant": (1, 0, 2),
    "_C::per_token_group_fp8_quant": (0, 1, 2),
    "_C::per_token_group_quant_int8": (0, 1, 2),
    "sgl_kernel::sgl_per_token_group_quant_8bit": (0, 1, 2),
    "sgl_kernel::sgl_per_token_group_quant_fp8": (0, 1, 2),
    "sgl_kernel::sgl_per_token_group_quant_int8": (0, 1, 2),
    "sgl_kernel::sgl_per_token_quant_fp8": (0, 1, 2),
    "sgl_kernel::sgl_per_tensor_quant_fp8": (0, 1, 2),
    "sglang::per_token_group_quant_8bit_v2": (0, 1, 2),
    "sglang::per_token_quant_fp8": (0, 1, 2),
    "sglang::per_tensor_quant_fp8": (0, 1, 2),
    "aiter::dynamic_per_token_scaled_quant": (1, 0, 2),
    "aiter::dynamic_per_tensor_quant": (1, 0, 2),
    "aiter::static_per_tensor_quant": (1, 0, 2),
}


def quantised(x: Tensor | None, codes: Tensor | None, scales: Tensor | None) -> OpWork | None:
    """Reads x, writes codes, scales read or written: Q = x·b + codes + scales; a second pass for scales is not counted."""
    if x is None or codes is None:
        return None
    traffic = x.bytes + codes.bytes + (0 if scales is None else scales.bytes)
    return OpWork(PER_ELEMENT * x.numel, float(traffic), x.dtype, "vector")


@model(*_QUANTISE, kind=OpKind.QUANT)
def quantise(call: OpCall) -> OpWork | None:
    """`_C::static_scaled_fp8_quant(out, x, scale)`: F = 3·numel, Q = numel·(b + 1) + scales."""
    x_at, codes_at, scales_at = _QUANTISE[call.name]
    return quantised(call.tensor(x_at), call.tensor(codes_at), call.tensor(scales_at))


@model(
    "aten::quantize_per_tensor",
    "aten::quantize_per_channel",
    "aten::quantize_per_tensor_dynamic",
    kind=OpKind.QUANT,
)
def quantise_tensor(call: OpCall) -> OpWork | None:
    """`aten::quantize_per_tensor(x, ...)`: F = 3·numel, one byte an element written."""
    x = call.tensor(0)
    return None if x is None else OpWork(PER_ELEMENT * x.numel, float(x.bytes + x.numel), x.dtype, "vector")


# Bytes of a code, and elements of a scale of how many bytes; 0 for one scale in all.
_BLOCKS = {
    "_C::scaled_fp4_quant": (0.5, 16, 1),
    "sgl_kernel::scaled_fp4_quant": (0.5, 16, 1),
    "vllm::mxfp8_quantize": (1.0, 32, 1),
    "sglang::flashinfer_mxfp8_quantize": (1.0, 32, 1),
    "vllm::rocm_aiter_group_fp8_quant": (1.0, 128, 4),
    "vllm::rocm_aiter_per_token_quant": (1.0, 0, 4),
    "vllm::rocm_aiter_per_tensor_quant": (1.0, 0, 4),
}


@model(*_BLOCKS, kind=OpKind.QUANT)
def quantise_blocks(call: OpCall) -> OpWork | None:
    """`_C::scaled_fp4_quant([codes,] x[T, H], ...)`: F = 3·numel; x read, codes and a scale a block written, padding of scales apart.

    Releases differ in whether codes and scales are arguments or results, so x is the largest float among them.
    """
    floats = [tensor for tensor in call.tensors() if tensor.dtype in {"bf16", "fp16", "fp32"}]
    x = max(floats, key=lambda tensor: tensor.numel, default=None)
    if x is None or len(x.shape) < 2:  # noqa: PLR2004 - tokens and features
        return None
    code, block, scale = _BLOCKS[call.name]
    scales = x.numel / block if block else 1
    return OpWork(PER_ELEMENT * x.numel, float(x.bytes + x.numel * code + scales * scale), x.dtype, "vector")


@model("aten::dequantize", kind=OpKind.QUANT)
def dequantise(call: OpCall) -> OpWork | None:
    """`aten::dequantize(x)`: F = 2·numel (subtract, scale), fp32 written."""
    x = call.tensor(0)
    return None if x is None else OpWork(2.0 * x.numel, float(x.bytes + 4 * x.numel), "fp32", "vector")


@model("_C::awq_dequantize", "sgl_kernel::awq_dequantize", kind=OpKind.QUANT)
def awq_dequantise(call: OpCall) -> OpWork | None:
    """`_C::awq_dequantize(packed[K, N/8], scales[K/g, N], zeros)`: F = 2·K·N, Q = packed + scales + zeros + K·N·b."""
    packed, scales, zeros = call.tensor(0), call.tensor(1), call.tensor(2)
    if packed is None or scales is None or len(scales.shape) != 2 or not packed.shape:  # noqa: PLR2004 - a matrix
        return None
    numel = math.prod((packed.shape[0], scales.shape[1]))
    traffic = packed.bytes + scales.bytes + (0 if zeros is None else zeros.bytes) + numel * scales.item
    return OpWork(
        2.0 * numel, float(traffic), scales.dtype, "vector", weight_bytes=float(packed.bytes + scales.bytes)
    )


@model("_C::silu_and_mul_per_block_quant", "_C::silu_and_mul_nvfp4_quant", kind=OpKind.QUANT)
def act_quant(call: OpCall) -> OpWork | None:
    """`_C::silu_and_mul_nvfp4_quant(out, scales, x[T, 2I], ...)`: gate 5 and quantise 3 a result; half a byte written in fp4."""
    x = next(
        (
            tensor
            for tensor in call.tensors()
            if tensor.dtype in {"bf16", "fp16", "fp32"} and len(tensor.shape) > 1
        ),
        None,
    )
    return gated(x, 8.0, out_item=1)
