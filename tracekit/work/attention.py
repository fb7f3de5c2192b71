"""Attention: F = 2A·h·(d_qk + d_v) over the A query-key pairs that the mask leaves; K and V at key-value heads.

Causal pairs are exact and aligned at the bottom right: the last query sees every key.
"""

from dataclasses import replace
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
    window = window_of(call.integer(11))
    work = dense(
        call.tensor(0), call.tensor(1), call.tensor(2), heads_at=2, causal=causal or False, window=window
    )
    return _unless_unknown(call, work, causal=causal, queries_at=1)


def window_of(left: int | None) -> int | None:
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


@model("flash_attn::_flash_attn_forward", "aiter::mha_fwd", "aiter::fmha_v3_fwd", kind=OpKind.ATTENTION)
def flash_attn_forward(call: OpCall) -> OpWork | None:
    """`flash_attn::_flash_attn_forward(q[B, L, h, d], k, v, dropout, scale, causal, window_left, window_right, ...)`: BSHD."""
    return flash_dense(call, 5, 6)


def flash_dense(call: OpCall, causal_at: int, window_at: int) -> OpWork | None:
    """Attention of [B, L, h, d] over dense keys; a causal flag that was not recorded leaves its operations unknown."""
    causal = call.flag(causal_at)
    work = dense(
        call.tensor(0),
        call.tensor(1),
        call.tensor(2),
        heads_at=2,
        causal=causal or False,
        window=window_of(call.integer(window_at)),
    )
    return _unless_unknown(call, work, causal=causal, queries_at=1)


@model("flash_attn::_flash_attn_varlen_forward", kind=OpKind.ATTENTION)
def flash_attn_varlen(call: OpCall) -> OpWork | None:
    """`flash_attn::_flash_attn_varlen_forward(q[T, h, d], k, v, cu_q, cu_k, max_q, max_k, dropout, scale, causal, ...)`: see `ragged`."""
    return ragged(call, 3, 5, causal=call.flag(9))


def ragged(call: OpCall, lengths_at: int, longest_at: int, *, causal: bool | None) -> OpWork | None:
    """Attention over [total, h, d] with cumulative lengths, which are device data.

    The pairs are known where every request is as long as the longest (totals = B x longest); else only bytes
    are, and step sums over as many keys may complete the operations of a causal call.
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
    heads = None if causal is False else replace(heads_of(q, k, v, k.item), keys=k.shape[0])
    return OpWork(flops, traffic, q.dtype, q.dtype, kv_bytes=kv, heads=heads, queries=q.shape[0])


def heads_of(q: Tensor, k: Tensor, v: Tensor, kv_item: float | None) -> Heads:
    """Heads of [..., h, d] queries and [..., hkv, d] keys and values."""
    return Heads(q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1], q.item, kv_item)


def step_attention(
    heads: Heads,
    sum_q: Floats,
    sum_k: Floats,
    sum_qq: Floats,
    sum_qk: Floats,
    *,
    kv_item: float | None = None,
    requests: Floats | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Attention of one layer over a step's requests, from sums over them.

    A = sum(LqLk) - (sum(Lq^2) - sum(Lq))/2, causal and bottom-right for each request; decode has Lq = 1 and A = sum(Lk).
    Under a window of W keys A is at most W·sum(Lq), and a request reads at most Lq + W - 1 keys: upper values,
    since sums do not say which request is longer than the window.

    Args:
        heads: The layer's heads.
        sum_q: Query tokens, by step.
        sum_k: Key tokens.
        sum_qq: Squared query tokens.
        sum_qk: Query tokens times key tokens.
        kv_item: Bytes of a cached element; the heads' own where None, and a query element's where that is unknown.
        requests: Requests, by step, for windowed heads; NaN and None leave their keys unbounded.

    Returns:
        FLOPs, DRAM bytes, and the K and V bytes among them, by step.
    """
    count, keys = sum_qk - (sum_qq - sum_q) / 2, sum_k
    if heads.window is not None:
        count = np.minimum(count, heads.window * sum_q)
        if requests is not None:
            keys = np.fmin(keys, sum_q + requests * (heads.window - 1))
    item = kv_item or heads.kv_item or heads.query_item
    sizes = heads.head_dim + heads.value_dim
    kv = keys * ((heads.kv_heads * sizes if heads.cached is None else heads.cached) * item)
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
