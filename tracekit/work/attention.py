"""Attention: F = 2A·h·(d_qk + d_v) over the A query-key pairs that the mask leaves; K and V at key-value heads.

Causal pairs are exact and aligned at the bottom right: the last query sees every key.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tracekit.work.registered import Heads, OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

Floats: TypeAlias = npt.NDArray[np.float64]

_RANK = 4


def pairs(queries: float, keys: float, *, causal: bool) -> float:
    """Query-key pairs of one request: LqLk, or under a bottom-right causal mask LqLk - Lq(Lq - 1)/2 for Lq <= Lk.

    With more queries than keys the first Lq - Lk queries see none, which leaves Lk(Lk + 1)/2.
    """
    if not causal:
        return queries * keys
    seeing = min(queries, keys)
    return seeing * keys - seeing * (seeing - 1) / 2


def window_pairs(queries: int, keys: int, window: int) -> float:
    """Causal pairs where each query sees at most `window` keys, itself included: sum of min(i + past + 1, W)."""
    past = keys - queries
    short = max(0, min(queries, window - past))
    return short * past + short * (short + 1) / 2 + (queries - short) * min(window, keys)


def attention_flops(pair_count: float, heads: float, head_dim: float, value_dim: float) -> float:
    """2A·h·(d_qk + d_v): one product with the keys, one with the values [FLOP]."""
    return 2.0 * pair_count * heads * (head_dim + value_dim)


def dense(
    q: Tensor | None,
    k: Tensor | None,
    v: Tensor | None,
    *,
    heads_at: int,
    causal: bool,
    window: int | None = None,
    mask: Tensor | None = None,
) -> OpWork | None:
    """Attention over dense batches.

    Args:
        q: Queries, [B, h, Lq, d] or [B, Lq, h, d].
        k: Keys, of the same order, at key-value heads.
        v: Values.
        heads_at: Dimension of the heads: 1 for BHSD, 2 for BSHD.
        causal: Whether a bottom-right causal mask applies.
        window: Keys that a query sees at most, itself included, under a causal mask.
        mask: An explicit mask, read at storage size.
    """
    if q is None or k is None or v is None or {len(q.shape), len(k.shape), len(v.shape)} != {_RANK}:
        return None
    length_at = 3 - heads_at
    batch, heads, lq, lk = q.shape[0], q.shape[heads_at], q.shape[length_at], k.shape[length_at]
    seen = lk
    if causal and window is not None and lq <= lk:
        count, seen = window_pairs(lq, lk, window), min(lk, lq + window - 1)
    else:
        count = pairs(lq, lk, causal=causal)
    kv = (k.bytes + v.bytes) * (seen / lk if lk else 1.0)
    out = batch * heads * lq * v.shape[3] * q.item
    traffic = q.bytes + kv + out + (0 if mask is None else mask.bytes)
    flops = attention_flops(batch * count, heads, q.shape[3], v.shape[3])
    return OpWork(flops, float(traffic), q.dtype, q.dtype, kv_bytes=float(kv))


# Where each SDPA back end has its causal flag and its mask; dims are BHSD in all of them.
_SDPA = {
    "aten::scaled_dot_product_attention": (5, 3),
    "aten::_scaled_dot_product_flash_attention": (4, None),
    "aten::_scaled_dot_product_flash_attention_for_cpu": (4, 5),
    "aten::_scaled_dot_product_efficient_attention": (6, 3),
    "aten::_scaled_dot_product_cudnn_attention": (6, 3),
    "aten::_scaled_dot_product_fused_attention_overrideable": (5, 3),
    "aten::_scaled_dot_product_attention_math": (5, 3),
    "aten::_scaled_dot_product_attention_math_for_mps": (5, 3),
}


@model(*_SDPA, kind=OpKind.ATTENTION)
def sdpa(call: OpCall) -> OpWork | None:
    """`aten::scaled_dot_product_attention(q[B, h, Lq, d], k[B, hkv, Lk, d], v, ...)`: F = 4·B·h·d·A, Q = B(2·Lq·h + 2·Lk·hkv)·d.

    A flag that was not recorded leaves the operations unknown where it would change them.
    """
    flag_at, mask_at = _SDPA[call.name]
    causal = call.flag(flag_at)
    work = dense(
        call.tensor(0),
        call.tensor(1),
        call.tensor(2),
        heads_at=1,
        causal=causal or False,
        mask=None if mask_at is None else call.tensor(mask_at),
    )
    return _unless_unknown(call, work, causal=causal, queries_at=2)


def _unless_unknown(
    call: OpCall, work: OpWork | None, *, causal: bool | None, queries_at: int
) -> OpWork | None:
    q = call.tensor(0)
    if work is None or causal is not None or q is None or q.shape[queries_at] == 1:
        return work
    return OpWork(None, work.dram_bytes, work.dtype, work.peak, kv_bytes=work.kv_bytes)


@model("aten::_flash_attention_forward", kind=OpKind.ATTENTION)
def flash_forward(call: OpCall) -> OpWork | None:
    """`aten::_flash_attention_forward(q[B, L, h, d], k, v, cum_q, cum_k, max_q, max_k, dropout, causal, ..., window_left, ...)`.

    With cumulative lengths the batch is ragged ([total, h, d]); see `ragged`.
    """
    causal = call.flag(8)
    if call.tensor(3) is not None:
        return ragged(call, 3, 5, causal=causal)
    window = _window(call.integer(11))
    work = dense(
        call.tensor(0), call.tensor(1), call.tensor(2), heads_at=2, causal=causal or False, window=window
    )
    return _unless_unknown(call, work, causal=causal, queries_at=1)


def _window(left: int | None) -> int | None:
    """Keys that a query sees, from a left window of keys before it; None for no window."""
    return None if left is None or left < 0 else left + 1


@model("aten::_efficient_attention_forward", kind=OpKind.ATTENTION)
def efficient_forward(call: OpCall) -> OpWork | None:
    """`aten::_efficient_attention_forward(q[B, L, h, d], k, v, bias, cu_q, cu_k, max_q, max_k, dropout, mask_type)`: 0 none, 1 and 2 causal."""
    kind = call.integer(9)
    causal = None if kind is None else kind > 0
    if call.tensor(4) is not None:
        return ragged(call, 4, 6, causal=causal)
    work = dense(
        call.tensor(0),
        call.tensor(1),
        call.tensor(2),
        heads_at=2,
        causal=causal or False,
        mask=call.tensor(3),
    )
    return _unless_unknown(call, work, causal=causal, queries_at=1)


@model("flash_attn::_flash_attn_forward", kind=OpKind.ATTENTION)
def flash_attn_forward(call: OpCall) -> OpWork | None:
    """`flash_attn::_flash_attn_forward(q[B, L, h, d], k, v, dropout, scale, causal, window_left, window_right, ...)`: BSHD."""
    causal = call.flag(5)
    work = dense(
        call.tensor(0),
        call.tensor(1),
        call.tensor(2),
        heads_at=2,
        causal=causal or False,
        window=_window(call.integer(6)),
    )
    return _unless_unknown(call, work, causal=causal, queries_at=1)


@model("flash_attn::_flash_attn_varlen_forward", kind=OpKind.ATTENTION)
def flash_attn_varlen(call: OpCall) -> OpWork | None:
    """`flash_attn::_flash_attn_varlen_forward(q[T, h, d], k, v, cu_q, cu_k, max_q, max_k, dropout, scale, causal, ...)`: see `ragged`."""
    return ragged(call, 3, 5, causal=call.flag(9))


def ragged(call: OpCall, lengths_at: int, longest_at: int, *, causal: bool | None) -> OpWork | None:
    """Attention over [total, h, d] with cumulative lengths, which are device data.

    The pairs are known where every request is as long as the longest (totals = B x longest); else only bytes
    are, and step sums may complete the operations.
    """
    q, k, v, lengths = call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(lengths_at)
    if (
        q is None
        or k is None
        or v is None
        or lengths is None
        or {len(q.shape), len(k.shape), len(v.shape)} != {3}
    ):
        return None
    batch = lengths.numel - 1
    kv = float(k.bytes + v.bytes)
    traffic = q.bytes + kv + q.rows * v.shape[2] * q.item
    longest_q, longest_k = call.integer(longest_at), call.integer(longest_at + 1)
    flops = None
    even = (
        longest_q is not None
        and longest_k is not None
        and batch * longest_q == q.shape[0]
        and batch * longest_k == k.shape[0]
    )
    if even and causal is not None:
        count = batch * pairs(longest_q or 0, longest_k or 0, causal=causal)
        flops = attention_flops(count, q.shape[1], q.shape[2], v.shape[2])
    return OpWork(flops, traffic, q.dtype, q.dtype, kv_bytes=kv, heads=_heads(q, k, v, k.item))


def _heads(q: Tensor, k: Tensor, v: Tensor, kv_item: float | None) -> Heads:
    return Heads(q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1], q.item, kv_item)


@model(
    "vllm::unified_attention_with_output",
    "vllm::unified_attention",
    "sglang::unified_attention_with_output",
    "vllm::unified_attention_with_output_kv_update",
    kind=OpKind.ATTENTION,
)
def unified(call: OpCall) -> OpWork | None:
    """`vllm::unified_attention_with_output(q[T, h, d], k[T, hkv, d], v, out[T, h, d], ...)`: key lengths are device data.

    The heads complete with step sums; the type of the cache is not recorded.
    """
    q, k, v = call.tensor(0), call.tensor(1), call.tensor(2)
    if q is None or k is None or v is None or {len(q.shape), len(k.shape), len(v.shape)} != {3}:
        return None
    out = call.tensor(3)
    heads = Heads(
        q.shape[1],
        k.shape[1],
        q.shape[2],
        v.shape[2],
        ((q.item + out.item) / 2) if out is not None else q.item,
        None,
    )
    return OpWork(None, None, q.dtype, q.dtype, heads=heads)


@model(
    "_vllm_fa2_C::varlen_fwd",
    "_vllm_fa3_C::fwd",
    "vllm_flash_attn::varlen_fwd",
    "sgl_kernel::fwd",
    kind=OpKind.ATTENTION,
)
def paged(call: OpCall) -> OpWork | None:
    """`_vllm_fa2_C::varlen_fwd(q[T, h, d], k_cache[blocks, size, hkv, d], v_cache, ...)`: the cache's sizes are its capacity, no traffic."""
    q, k, v = call.tensor(0), call.tensor(1), call.tensor(2)
    if q is None or k is None or v is None or len(q.shape) != 3 or len(k.shape) not in {3, 4}:  # noqa: PLR2004 - as above
        return None
    return OpWork(None, None, q.dtype, q.dtype, heads=_heads(q, k, v, k.item))


@model(
    "sglang_profiler::attention_paged_attention_ragged*",
    "aiter::paged_attention_ragged*",
    kind=OpKind.ATTENTION,
)
def paged_ragged(call: OpCall) -> OpWork | None:
    """`sglang_profiler::paged_attention_ragged(out[B, h, d], workspace, q[B, h, d], k_cache[blocks, 1, hkv, d], v_cache, ...)`."""
    q, k, v = call.tensor(2), call.tensor(3), call.tensor(4)
    if q is None or k is None or v is None or len(q.shape) != 3 or len(k.shape) != _RANK:  # noqa: PLR2004 - [B, h, d]
        return None
    return OpWork(None, None, q.dtype, q.dtype, heads=_heads(q, k, v, k.item))


@model("_C::cpu_attention_with_kv_cache", kind=OpKind.ATTENTION)
def cpu_attention(call: OpCall) -> OpWork | None:
    """`_C::cpu_attention_with_kv_cache(q[T, h, d], k_cache[blocks, hkv, size, d], v_cache, out, ...)`."""
    q, k = call.tensor(0), call.tensor(1)
    if q is None or k is None or len(q.shape) != 3 or len(k.shape) != _RANK:  # noqa: PLR2004 - [T, h, d]
        return None
    heads = Heads(q.shape[1], k.shape[1], q.shape[2], q.shape[2], q.item, k.item)
    return OpWork(None, None, q.dtype, q.dtype, heads=heads)


@model("_C::paged_attention_v1", "_C::paged_attention_v2", "_rocm_C::paged_attention", kind=OpKind.ATTENTION)
def paged_decode(call: OpCall) -> OpWork | None:
    """`_C::paged_attention_v1(out[B, h, d], [exp_sums, max_logits, tmp,] q, k_cache[blocks, hkv, d/x, size, x], ...)`."""
    tensors = call.tensors()
    out = tensors[0] if tensors else None
    same = [
        tensor
        for tensor in tensors[1:]
        if out is not None and tensor.shape == out.shape and tensor.dtype == out.dtype
    ]
    caches = [tensor for tensor in tensors if len(tensor.shape) == 5]  # noqa: PLR2004 - the key cache alone has five sizes
    if out is None or not same or not caches or len(out.shape) != 3:  # noqa: PLR2004 - [B, h, d]
        return None
    heads, dim = out.shape[1], out.shape[2]
    return OpWork(
        None,
        None,
        out.dtype,
        out.dtype,
        heads=Heads(heads, caches[0].shape[1], dim, dim, out.item, caches[0].item),
    )


@model("trtllm::attention", "trtllm::attention_inplace", kind=OpKind.ATTENTION)
def trtllm_attention(_call: OpCall) -> OpWork | None:
    """The fused call hides heads and lengths in plain arguments that differ by release: no model from sizes."""
    return None


def step_attention(
    heads: Heads,
    sum_q: Floats,
    sum_k: Floats,
    sum_qq: Floats,
    sum_qk: Floats,
    *,
    kv_item: float | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Attention of one layer over a step's requests, from sums over them.

    A = sum(LqLk) - (sum(Lq^2) - sum(Lq))/2, causal and bottom-right for each request; decode has Lq = 1 and A = sum(Lk).

    Args:
        heads: The layer's heads.
        sum_q: Query tokens, by step.
        sum_k: Key tokens.
        sum_qq: Squared query tokens.
        sum_qk: Query tokens times key tokens.
        kv_item: Bytes of a cached element; the heads' own where None, and a query element's where that is unknown.

    Returns:
        FLOPs, DRAM bytes, and the K and V bytes among them, by step.
    """
    count = sum_qk - (sum_qq - sum_q) / 2
    item = kv_item or heads.kv_item or heads.query_item
    sizes = heads.head_dim + heads.value_dim
    kv = sum_k * (heads.kv_heads * sizes * item)
    queries = sum_q * (heads.heads * sizes * heads.query_item)
    return count * (2.0 * heads.heads * sizes), kv + queries, kv


def mla_absorbed(heads: int, sum_k: float, latent: int, rope: int, item: float) -> tuple[float, float]:
    """Absorbed MLA decode of one layer: F = 2h·sum(Lk)·(2·dc + dr), K and V bytes (dc + dr)·sum(Lk)·item.

    Source: DeepSeek-V2 (2024), section 2.1: queries meet the latent of dc and the shared rope part of dr.
    """
    return 2.0 * heads * sum_k * (2 * latent + rope), (latent + rope) * sum_k * item


def combine(batch: float, heads: float, splits: float, head_dim: float) -> tuple[float, float]:
    """Combining split keys: F = 3·B·h·S·d, bytes = B·h·S·(d + 1)·4·2 (fp32 partial results written and read)."""
    return 3.0 * batch * heads * splits * head_dim, batch * heads * splits * (head_dim + 1) * 8.0
