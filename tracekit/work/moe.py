"""Mixtures of experts: operations of the experts chosen, weights of the experts touched."""

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

Floats: TypeAlias = npt.NDArray[np.float64]


def experts_touched(experts: float, per_token: float, tokens: float) -> float:
    """Expected distinct experts under uniform routing: E(1 - (1 - k/E)^T).

    Real routing is less even, so this is an upper value of what is read.
    """
    if experts <= 0:
        return 0.0
    missed: float = (1.0 - min(1.0, per_token / experts)) ** tokens
    return experts * (1.0 - missed)


def experts_touched_each(experts: int, per_token: int, tokens: Floats) -> Floats:
    """`experts_touched` for many token counts; 0 without experts."""
    if experts <= 0:
        return np.zeros_like(tokens)
    return experts * (1.0 - (1.0 - min(1.0, per_token / experts)) ** tokens)


def fused(x: Tensor | None, w1: Tensor | None, w2: Tensor | None, per_token: int | None) -> OpWork | None:
    """Both expert layers of x[T, H] with w1[E, 2I, H] and w2[E, H, I], k experts a token.

    F = 2·T·k·(2I·H + H·I) = 6·T·k·H·I; Q = T·H read and written, the touched experts' weights, and nothing for
    the intermediate, which a fused kernel keeps. Packed weights are sized by what is stored.
    """
    if x is None or w1 is None or w2 is None or per_token is None or not x.shape:
        return None
    if len(w1.shape) != 3 or len(w2.shape) != 3 or w1.shape[0] != w2.shape[0]:  # noqa: PLR2004 - a matrix an expert
        return None
    tokens, hidden, up = x.rows, x.shape[-1], w1.shape[1]
    inner = up // 2
    touched = experts_touched(w1.shape[0], per_token, tokens) / max(1, w1.shape[0])
    weights = touched * (w1.bytes + w2.bytes)
    flops = 2.0 * tokens * per_token * hidden * (up + inner)
    traffic = 2 * tokens * hidden * x.item + weights
    dtype = w1.dtype if w1.dtype in {x.dtype, "fp8"} else x.dtype
    return OpWork(flops, float(traffic), dtype, dtype, weight_bytes=float(weights))


@model(
    "vllm::inplace_fused_experts",
    "vllm::outplace_fused_experts",
    "vllm::fused_experts",
    "sglang::inplace_fused_experts",
    "sglang::outplace_fused_experts",
    "sgl_kernel::fused_experts_cpu",
    "vllm::rocm_aiter_fused_moe",
    "aiter::fused_moe",
    kind=OpKind.MOE,
)
def fused_experts(call: OpCall) -> OpWork | None:
    """`vllm::fused_experts(x[T, H], w1[E, 2I, H], w2[E, H, I], topk_weights[T, k], topk_ids[T, k], ...)`: see `fused`."""
    chosen = call.tensor(3)
    per_token = chosen.shape[-1] if chosen is not None and chosen.shape else None
    return fused(call.tensor(0), call.tensor(1), call.tensor(2), per_token)


@model("aten::_grouped_mm", "aten::_scaled_grouped_mm", kind=OpKind.MOE)
def grouped_mm(call: OpCall) -> OpWork | None:
    """`aten::_grouped_mm(x[M, K], w[G, K, N], offsets)`: F = 2MNK; every group's weights up to M groups, as offsets are device data.

    With x[G, M, K] and w[G, K, N] it is a batch; with two matrices the result is [G, M, N] and the contracted
    dimension is split over the groups, so F is 2MNK as well.
    """
    x, w = call.tensor(0), call.tensor(1)
    if x is None or w is None or not x.shape or not w.shape:
        return None
    offsets = next(
        (tensor for tensor in call.tensors()[2:] if len(tensor.shape) == 1 and tensor.dtype == "int32"), None
    )
    sizes = _grouped_sizes(x.shape, w.shape, 0 if offsets is None else offsets.numel)
    if sizes is None:
        return None
    flops, out, read = sizes
    item = max(2, x.item)
    weights = w.bytes * read
    return OpWork(flops, float(x.bytes + weights + out * item), x.dtype, x.dtype, weight_bytes=float(weights))


@model("_C::cutlass_moe_mm", kind=OpKind.MOE)
def cutlass_moe_mm(call: OpCall) -> OpWork | None:
    """`_C::cutlass_moe_mm(out[M, N], a[M, K], b[E, K, N], a_scales, b_scales, ...)`: F = 2MNK; every expert's weights up to M experts."""
    out, a, b = call.tensor(0), call.tensor(1), call.tensor(2)
    if out is None or a is None or b is None or (len(out.shape), len(a.shape), len(b.shape)) != (2, 2, 3):
        return None
    if a.rows != out.rows or b.shape[1:] != (a.shape[1], out.shape[1]):
        return None
    weights = b.bytes * min(b.shape[0], a.rows) / max(1, b.shape[0])
    flops = 2.0 * out.numel * a.shape[1]
    return OpWork(flops, a.bytes + weights + out.bytes, a.dtype, a.dtype, weight_bytes=float(weights))


def _grouped_sizes(x: tuple[int, ...], w: tuple[int, ...], groups: int) -> tuple[float, int, float] | None:
    """FLOPs, elements of the result, and the share of w that is read."""
    match len(x), len(w):
        case 2, 3 if x[1] == w[1]:
            return 2.0 * x[0] * w[1] * w[2], x[0] * w[2], min(w[0], x[0]) / max(1, w[0])
        case 3, 3 if x[0] == w[0] and x[2] == w[1]:
            return 2.0 * math.prod(x) * w[2], x[0] * x[1] * w[2], 1.0
        case 2, 2 if x[1] == w[0]:
            return 2.0 * x[0] * x[1] * w[1], groups * x[0] * w[1], 1.0
        case 3, 2 if x[2] == w[0]:
            return 2.0 * x[1] * x[2] * w[1], x[1] * w[1], 1.0
    return None


@model("_moe_C::topk_softmax", "sgl_kernel::topk_softmax", "aiter::topk_softmax", kind=OpKind.SAMPLING)
def topk_softmax(call: OpCall) -> OpWork | None:
    """`_moe_C::topk_softmax(weights[T, k], ids[T, k], ..., gates[T, E])`: F = 5·T·E, gates read, weights and ids written."""
    tensors = call.tensors()
    if not tensors:
        return None
    gates = max(tensors, key=lambda tensor: tensor.numel)
    written = sum(tensor.bytes for tensor in tensors if tensor is not gates)
    return OpWork(5.0 * gates.numel, float(gates.bytes + written), gates.dtype, "vector")


@model("_moe_C::moe_sum", "sgl_kernel::moe_sum", "sgl_kernel::moe_sum_reduce", kind=OpKind.REDUCTION)
def moe_sum(call: OpCall) -> OpWork | None:
    """`_moe_C::moe_sum(x[T, k, H], out[T, H])`: F = numel(x), Q = x + out."""
    x, out = call.tensor(0), call.tensor(1)
    if x is None or out is None:
        return None
    return OpWork(float(x.numel), float(x.bytes + out.bytes), x.dtype, "vector")


@model("_moe_C::moe_align_block_size", "sgl_kernel::moe_align_block_size", kind=OpKind.GATHER)
def moe_align(call: OpCall) -> OpWork | None:
    """`_moe_C::moe_align_block_size(topk_ids[T, k], experts, block, sorted_ids, expert_ids, count)`: the ids read, the sorted ones written."""
    tensors = call.tensors()
    return OpWork(0.0, float(sum(tensor.bytes for tensor in tensors)), "int32", "vector") if tensors else None


@model("vllm::moe_forward", "vllm::moe_forward_shared", kind=OpKind.MOE)
def moe_forward(_call: OpCall) -> OpWork | None:
    """`vllm::moe_forward(x[T, H], logits[T, E], layer)`: weights and experts a token are not recorded; a model config is needed."""
    return None
