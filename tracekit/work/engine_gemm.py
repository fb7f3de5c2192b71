"""Linear layers under the names that engines give them: told by the recorded sizes, whichever way the weight lies.

Argument orders are those of the public registrations of vLLM 0.32, SGLang 0.5.23 and AITER.
"""

from dataclasses import dataclass

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

_MATRIX = 2
_WIDE = frozenset({"bf16", "fp16", "fp32"})


@dataclass(frozen=True, slots=True)
class Form:
    """Where the tensors of a linear layer stand.

    Attributes:
        x: Activations [..., K].
        w: Weight [N, K] or [K, N].
        extras: Scales and bias.
        out: The result where it is an argument.
        values: Values that a stored element of activations and weight holds: 2 for packed 4-bit ones.
        math: Type of the math, where it is not that of the activations.
    """

    x: int = 0
    w: int = 1
    extras: tuple[int, ...] = ()
    out: int | None = None
    values: tuple[int, int] = (1, 1)
    math: str | None = None


_PLAIN, _BIAS, _SCALES = Form(), Form(extras=(2,)), Form(extras=(2, 3, 4))
_FP4 = Form(extras=(2, 3), values=(2, 2), math="fp4")
# Activations of 16 bits that the kernel itself quantises to the weight's type.
_FP8_INSIDE = Form(extras=(2,), math="fp8")
_FORMS = {
    "vllm::rocm_aiter_w8a8_gemm": _SCALES,
    "vllm::_rocm_aiter_preshuffled_per_token_w8a8_gemm": _SCALES,
    "vllm::rocm_aiter_hipb_mm_fp8": _SCALES,
    "vllm::rocm_aiter_gemm_a8w8_blockscale": _SCALES,
    "vllm::rocm_aiter_gemm_a8w8_blockscale_bpreshuffle": _SCALES,
    "vllm::rocm_aiter_triton_gemm_a8w8_blockscale": _SCALES,
    "vllm::rocm_per_tensor_float_w8a8_scaled_mm_impl": Form(extras=(3, 4, 5)),
    "vllm::fp8_gemm_nt_op": Form(w=2, extras=(1, 3), out=4),
    "vllm::rocm_mxfp8_block32_gemm": Form(w=2, extras=(1, 3)),
    "vllm::flashinfer_fp8_blockscale_gemm": _FP8_INSIDE,
    "vllm::dynamic_flashinfer_deepgemm_blockscale_gemm": _FP8_INSIDE,
    "vllm::gemm_with_dynamic_quant": Form(extras=(2, 5), values=(1, 2), math="fp4"),
    "vllm::rocm_aiter_gemm_a8wfp4": Form(extras=(2, 3), values=(1, 2), math="fp8"),
    "vllm::matmul_mxf4_bf16": _FP4,
    "vllm::matmul_nvf4_bf16": _FP4,
    "vllm::fp32_router_gemm_dispatch": _PLAIN,
    "vllm::bf16x3_router_gemm": _PLAIN,
    "vllm::min_latency_fused_qkv_a_proj": _PLAIN,
    "vllm::cuda_flashinfer_bf16_gemm": _BIAS,
    "sglang::bf16_gemm_dispatch": _BIAS,
    "sglang::cutedsl_tgv_bf16_gemm": _BIAS,
    "sglang::tiny_gemm_bf16": Form(out=2),
    "sglang::jit_dsv3_fused_a_gemm": _PLAIN,
    "sglang::cutedsl_dsv3_fused_a_gemm": _PLAIN,
    "sglang::deep_gemm_fp8_fp8_bf16_nt": Form(w=2, extras=(1, 3), out=4),
    "sglang::deep_gemm_mxfp8_fp8_bf16_nt": Form(w=2, extras=(1, 3), out=4),
    "sglang::fp8_blockwise_scaled_mm": Form(x=1, w=2, extras=(3, 4), out=0),
    "sglang::flashinfer_gemm_fp8_nt_groupwise": Form(extras=(2, 3)),
    "sglang::flashinfer_bmm_fp8": Form(extras=(2, 3)),
    "sglang::flashinfer_mm_mxfp8": Form(extras=(2, 3)),
    "sglang::fp4_gemm": _FP4,
    "sglang::aiter_gemm_a4w4": _FP4,
    "sglang::aiter_gemm_afp4wfp4": Form(extras=(2, 3), out=4, values=(2, 2), math="fp4"),
    "sgl_kernel::dsv3_fused_a_gemm": Form(x=1, w=2, out=0),
    "sgl_kernel::dsv3_router_gemm": Form(x=1, w=2, out=0),
    "sgl_kernel::cutlass_scaled_fp4_mm": Form(x=1, w=2, extras=(3, 4), out=0, values=(2, 2), math="fp4"),
    "_moe_C::dsv3_router_gemm": Form(x=1, w=2, out=0),
    "aiter::gemm_a8w8*": Form(extras=(2, 3)),
}


@model(*_FORMS, kind=OpKind.GEMM)
def engine_linear(call: OpCall) -> OpWork | None:
    """`vllm::rocm_aiter_w8a8_gemm(x[..., K], w[N, K], scales...)`: F = 2MNK at the peak of x's type, scales and bias as recorded; out is 16 bits where it is no argument."""
    form = _FORMS.get(call.name) or _FORMS["aiter::gemm_a8w8*"]
    x, w = call.tensor(form.x), call.tensor(form.w)
    if x is None or w is None or len(w.shape) != _MATRIX or not x.shape:
        return None
    out = None if form.out is None else call.tensor(form.out)
    # Activations of 16 bits are not packed: the weights are widened for them.
    values = 1 if x.dtype in _WIDE else form.values[0]
    inner = x.shape[-1] * values
    width = _width(w, inner // form.values[1], form.values[1])
    if width is None or (out is not None and out.numel != x.rows * width):
        return None
    extras = [tensor for tensor in map(call.tensor, form.extras) if tensor is not None]
    written = x.rows * width * (max(2, x.item) if out is None else out.item)
    traffic = x.bytes + w.bytes + written + sum(tensor.bytes for tensor in extras)
    math = form.math if form.math and values == form.values[0] else x.dtype
    return OpWork(2.0 * x.rows * width * inner, float(traffic), math, math, weight_bytes=float(w.bytes))


def _width(w: Tensor, stored: int, values: int) -> int | None:
    """N of a weight that holds `stored` elements along K, packed along it; None where neither side fits."""
    if w.shape[1] == stored:
        return w.shape[0]
    if w.shape[0] == stored:
        return w.shape[1]
    # Packed the other way round: two values along N.
    if values != 1 and w.shape[0] == stored * values:
        return w.shape[1] * values
    return None
