"""TensorRT-LLM's ops beyond plain products: quantising, block-scaled products, experts, collectives.

Argument orders follow the op registrations from memory, unverified on a trace: each model checks the recorded
sizes against one another, so that another order gives no work instead of wrong work.
"""

from tracekit.work.collective import bus_bytes, exchanged, gathered, reduction_flops, scattered
from tracekit.work.elementwise import SILU_AND_MUL, gated
from tracekit.work.moe import fused
from tracekit.work.quant import PER_ELEMENT
from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

_FLOATS = frozenset({"bf16", "fp16", "fp32"})
_BLOCK = 128

# Bytes of a code, and elements that share one scale of how many bytes.
_CODES = {
    "trtllm::fp8_quantize_1x128": (1.0, _BLOCK, 4),
    "trtllm::fp4_quantize": (0.5, 16, 1),
    "trtllm::mxfp8_quantize": (1.0, 32, 1),
}


@model(*_CODES, kind=OpKind.QUANT)
def quantize_with_block_size(call: OpCall) -> OpWork | None:
    """`trtllm::fp4_quantize(x, scale, block, ...)`: F = 3·numel; Q = x read, codes and a scale a block written.

    Blocks are 16 elements in NVFP4 (32 where the recorded block says so), 32 in MXFP8, 128 with an fp32 scale
    in the DeepSeek form. Padding of swizzled scales is not counted.
    """
    x = call.tensor(0)
    if x is None or x.dtype not in _FLOATS | {"fp8"}:
        return None
    code, block, scale = _CODES[call.name]
    if call.name.endswith("fp4_quantize"):
        block = call.integer(2) or block
    if block <= 0:
        return None
    traffic = x.bytes + x.numel * code + x.numel / block * scale
    return OpWork(PER_ELEMENT * x.numel, float(traffic), x.dtype, "vector")


@model(
    "tensorrt_llm::quantize_e4m3_per_tensor",
    "tensorrt_llm::quantize_e4m3_activation",
    "tensorrt_llm::quantize_e4m3_weight",
    "tensorrt_llm::static_quantize_e4m3_per_tensor",
    "tensorrt_llm::static_quantize_e4m3_activation",
    kind=OpKind.QUANT,
)
def quantize_e4m3(call: OpCall) -> OpWork | None:
    """`tensorrt_llm::quantize_e4m3_per_tensor(x)`: F = 3·numel; x read, a byte an element written; scales are not counted."""
    x = call.tensor(0)
    if x is None or x.dtype not in _FLOATS:
        return None
    return OpWork(PER_ELEMENT * x.numel, float(x.bytes + x.numel), x.dtype, "vector")


@model("trtllm::fp8_block_scaling_gemm", kind=OpKind.GEMM)
def block_scaling_gemm(call: OpCall) -> OpWork | None:
    """`trtllm::fp8_block_scaling_gemm(a[M, K], w[N, K], a_scales, w_scales)`: F = 2MNK at the fp8 peak; out is 16 bits."""
    a, w = call.tensor(0), call.tensor(1)
    if a is None or w is None or len(a.shape) != 2 or len(w.shape) != 2 or a.shape[1] != w.shape[1]:  # noqa: PLR2004 - matrices
        return None
    scales = [tensor for tensor in (call.tensor(2), call.tensor(3)) if tensor is not None]
    traffic = a.bytes + w.bytes + a.rows * w.rows * 2 + sum(scale.bytes for scale in scales)
    return OpWork(2.0 * a.numel * w.rows, float(traffic), "fp8", "fp8", weight_bytes=float(w.bytes))


@model("trtllm::fused_moe", kind=OpKind.MOE)
def fused_moe(call: OpCall) -> OpWork | None:
    """`trtllm::fused_moe(x[T, H], experts[T, k], scales[T, k], fc1[E, 2I, H], [bias,] fc2[E, H, I], ...)`: see `moe.fused`.

    Releases differ in where biases stand, so the two weights are told as the first tensors of three sizes.
    """
    x, chosen = call.tensor(0), call.tensor(1)
    weights = [tensor for tensor in call.tensors()[2:] if len(tensor.shape) == 3][:2]  # noqa: PLR2004 - a matrix an expert
    if x is None or chosen is None or len(weights) < 2 or len(chosen.shape) != 2:  # noqa: PLR2004 - both weights; [T, k]
        return None
    if not x.shape or chosen.shape[0] != x.rows or weights[1].shape[1] != x.shape[-1]:
        return None
    return fused(x, weights[0], weights[1], chosen.shape[1])


@model("trtllm::silu_and_mul", "trtllm::flashinfer_silu_and_mul", kind=OpKind.ELEMENTWISE)
def silu_and_mul(call: OpCall) -> OpWork | None:
    """`trtllm::silu_and_mul(x[T, 2I], ...)`: 5 a result, 3·T·I elements where the result keeps x's type."""
    return gated(call.tensor(0), SILU_AND_MUL)


def _ranks(call: OpCall, at: int) -> int | None:
    """Ranks in the group that a call records as a list; None where it records none."""
    group = call.integers(at)
    return len(set(group)) if group else None


@model("trtllm::allreduce", kind=OpKind.COLLECTIVE)
def allreduce(call: OpCall) -> OpWork | None:
    """`trtllm::allreduce(x, residual, norm, scale, bias, workspace, group, ...)`: Q = 2·x; F = S(n - 1)/n, 2S(n - 1)/n on the link.

    The residual is read and written where there is one; operations of a fused norm or quantisation are not counted.
    """
    x, residual, ranks = call.tensor(0), call.tensor(1), _ranks(call, 6)
    if x is None:
        return None
    more = 0 if residual is None else 2 * residual.bytes
    if ranks is None:
        return exchanged(x, x.bytes + more, flops=None)
    flops, bus = reduction_flops(x.numel, ranks), bus_bytes("all_reduce", ranks, x.bytes)
    return exchanged(x, x.bytes + more, flops=flops, bus=bus)


@model("trtllm::allgather", kind=OpKind.COLLECTIVE)
def allgather(call: OpCall) -> OpWork | None:
    """`trtllm::allgather(x, sizes, group)`: x read, n·x written, (n - 1)·x on the link; none where sizes differ by rank."""
    return gathered(*_even(call))


@model("trtllm::reducescatter", kind=OpKind.COLLECTIVE)
def reducescatter(call: OpCall) -> OpWork | None:
    """`trtllm::reducescatter(x, sizes, group)`: x read, x/n written; F = numel(x)·(n - 1)/n; none where sizes differ by rank."""
    return scattered(*_even(call))


def _even(call: OpCall) -> tuple[Tensor | None, int | None]:
    return (None, None) if call.integers(1) else (call.tensor(0), _ranks(call, 2))
