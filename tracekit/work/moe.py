"""Mixtures of experts: operations of the experts chosen, weights of the experts touched."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tracekit.work.dtypes import FLOATS
from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

Floats: TypeAlias = npt.NDArray[np.float64]


def experts_touched(experts: float, per_token: float, tokens: float) -> float:
    """Expected distinct experts under uniform routing: E(1 - (1 - k/E)^T).

    Real routing is less even, so this is an upper value of what is read.
    """
    if experts <= 0:
        return 0.0
    missed: float = (1.0 - min(1.0, max(0.0, per_token / experts))) ** tokens
    return experts * (1.0 - missed)


def experts_touched_each(experts: int, per_token: int, tokens: Floats) -> Floats:
    """`experts_touched` for many token counts; 0 without experts."""
    if experts <= 0:
        return np.zeros_like(tokens)
    return experts * (1.0 - (1.0 - min(1.0, per_token / experts)) ** tokens)


# From this share of the experts on all are taken to be touched, whatever the routing.
NEARLY_ALL = 0.99


def is_expected(share: float, tokens: float) -> bool:
    """Whether the share of experts touched is an expectation: one token touches its k experts, and many touch all."""
    return tokens > 1 and share < NEARLY_ALL


def fused(
    x: Tensor | None, w1: Tensor | None, w2: Tensor | None, per_token: int | None, *, gate: bool = True
) -> OpWork | None:
    """Both expert layers of x[T, H] with w1[E, 2I, H] and w2[E, H, I], k experts a token.

    F = 2·T·k·(2I·H + H·I) = 6·T·k·H·I, or 4·T·k·H·I with a w1[E, I, H] that has no gate; Q = T·H read and written, the touched experts' weights, and nothing for
    the intermediate, which a fused kernel keeps. Packed weights are sized by what is stored.
    """
    if x is None or w1 is None or w2 is None or per_token is None or not x.shape:
        return None
    if len(w1.shape) != 3 or len(w2.shape) != 3 or w1.shape[0] != w2.shape[0]:  # noqa: PLR2004 - a matrix an expert
        return None
    tokens, hidden, up = x.rows, x.shape[-1], w1.shape[1]
    inner = up // 2 if gate else up
    touched = experts_touched(w1.shape[0], per_token, tokens) / max(1, w1.shape[0])
    weights = touched * (w1.bytes + w2.bytes)
    flops = 2.0 * tokens * per_token * hidden * (up + inner)
    traffic = 2 * tokens * hidden * x.item + weights
    dtype = w1.dtype if w1.dtype in {x.dtype, "fp8"} else x.dtype
    expected = float(weights) if is_expected(touched, tokens) else 0.0
    return OpWork(flops, float(traffic), dtype, dtype, weight_bytes=float(weights), expected_bytes=expected)


@model(
    "vllm::inplace_fused_experts",
    "vllm::outplace_fused_experts",
    "vllm::fused_experts",
    "sglang::inplace_fused_experts",
    "sglang::outplace_fused_experts",
    "sgl_kernel::fused_experts_cpu",
    "vllm::rocm_aiter_fused_moe",
    "vllm::rocm_aiter_asm_moe_tkw1",
    "aiter::fused_moe",
    "aiter::fused_moe_",
    kind=OpKind.MOE,
)
def fused_experts(call: OpCall) -> OpWork | None:
    """`vllm::fused_experts(x[T, H], w1[E, 2I, H], w2[E, H, I], topk_weights[T, k], topk_ids[T, k], ...)`: see `fused`."""
    chosen = call.tensor(3)
    per_token = chosen.shape[-1] if chosen is not None and chosen.shape else None
    return fused(call.tensor(0), call.tensor(1), call.tensor(2), per_token)


# Whether the first layer has a gate.
_AITER = {
    "aiter::fmoe": False,
    "aiter::fmoe_int8_g1u0": False,
    "aiter::fmoe_int8_g1u0_a16": False,
    "aiter::fmoe_g1u1": True,
    "aiter::fmoe_g1u1_tkw1": True,
    "aiter::fmoe_g1u1_a16": True,
    "aiter::fmoe_fp8_blockscale_g1u1": True,
}


@model(*_AITER, kind=OpKind.MOE)
def aiter_fmoe(call: OpCall) -> OpWork | None:
    """`aiter::fmoe_g1u1(out[T, H], x[T, H], w1[E, 2I, H], w2[E, H, I], ids, weights, experts, count, k, ...)`: see `fused`."""
    return fused(call.tensor(1), call.tensor(2), call.tensor(3), call.integer(8), gate=_AITER[call.name])


@model("sglang::trtllm_fp8_block_scale_moe_out_wrapper", kind=OpKind.MOE)
def trtllm_block_scale_moe(call: OpCall) -> OpWork | None:
    """`sglang::trtllm_fp8_block_scale_moe_out_wrapper(logits, bias, x[T, H], …, w1[E, 2I, H], …, w2[E, H, I], …, experts, k, ...)`: see `fused`."""
    return fused(call.tensor(2), call.tensor(4), call.tensor(9), call.integer(13))


_TOP_K = (
    "_moe_C::topk_softmax",
    "_moe_C::topk_sigmoid",
    "_moe_C::topk_softplus_sqrt",
    "_moe_C::grouped_topk",
    "sgl_kernel::topk_softmax",
    "sgl_kernel::topk_sigmoid",
    "sgl_kernel::moe_fused_gate",
    "sglang::moe_topk_softmax_out",
    "sglang::moe_topk_sigmoid_out",
    "sglang::fused_topk_deepseek",
    "aiter::topk_softmax",
    "aiter::topk_sigmoid",
    "vllm::rocm_aiter_topk_softmax",
    "vllm::rocm_aiter_topk_sigmoid",
    "vllm::rocm_aiter_grouped_topk",
    "vllm::rocm_aiter_biased_grouped_topk",
)


@model(*_TOP_K, kind=OpKind.SAMPLING)
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


@model(
    "_moe_C::moe_permute",
    "_moe_C::shuffle_rows",
    "sgl_kernel::shuffle_rows",
    "sgl_kernel::apply_shuffle_mul_sum",
    "_moe_C::moe_unpermute",
    "sglang::shuffle_weighted_sum",
    kind=OpKind.GATHER,
)
def permute_rows(call: OpCall) -> OpWork | None:
    """`_moe_C::shuffle_rows(x[T, H], map, out[T·k, H])`: each tensor once; a product and a sum for each of the more rows where they are added up."""
    tensors = call.tensors()
    matrices = [tensor for tensor in tensors if len(tensor.shape) == 2 and tensor.dtype in FLOATS]  # noqa: PLR2004 - rows of H
    if not matrices:
        return None
    summed = any(word in call.name for word in ("unpermute", "sum"))
    flops = 2.0 * max(tensor.numel for tensor in matrices) if summed else 0.0
    traffic = float(sum(tensor.bytes for tensor in tensors))
    return OpWork(flops, traffic, matrices[0].dtype, "vector")


@model("vllm::moe_forward", "vllm::moe_forward_shared", kind=OpKind.MOE)
def moe_forward(_call: OpCall) -> OpWork | None:
    """`vllm::moe_forward(x[T, H], logits[T, E], layer)`: weights and experts a token are not recorded; a model config is needed."""
    return None
