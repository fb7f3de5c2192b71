"""Multi-head latent attention: one cached latent of dc and one rope part of dr a token, for keys, values and all heads.

Absorbed, queries meet the latent: F = 2A·h·(2dc + dr). Expanded, keys of dn + dr and values of dv are made of it
first: F = 2A·h·(dn + dr + dv). Both read (dc + dr) elements of the cache a key token at least (DeepSeek-V2, 2024,
section 2.1). Serving engines absorb where a request has one query token. Argument orders are those of the public
registrations of vLLM 0.32, SGLang 0.5.23, FlashMLA and AITER.
"""

import math

from tracekit.work.attention import attention_flops, ragged
from tracekit.work.kv_cache import write
from tracekit.work.registered import Heads, OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

_RAGGED, _BATCH = 3, 4


def latent_heads(q: Tensor, latent: int, rope: int, kv_item: float | None) -> Heads:
    """Heads of absorbed MLA: keys of dc + dr, values of dc, dc + dr cached elements a token."""
    return Heads(q.shape[-2], 1, latent + rope, latent, q.item, kv_item, cached=latent + rope)


def _absorbed(q: Tensor, heads: Heads) -> OpWork:
    return OpWork(None, None, q.dtype, q.dtype, heads=heads, queries=math.prod(q.shape[:-2]))


@model("vllm::unified_mla_attention_with_output", "vllm::unified_mla_attention", kind=OpKind.LATENT)
def unified_mla(call: OpCall) -> OpWork | None:
    """`vllm::unified_mla_attention_with_output(q[T, h, dn + dr], latent[T, dc], rope[T, 1, dr], out[T, h·dv], ...)`.

    The op projects and attends: its products are ops of their own, and this is the work of its attention kernel.
    Steps of one query token a request are absorbed, others expanded. Without an output dv is not recorded, and
    only the absorbed form is known. The cache's type is not recorded.
    """
    q, latent, rope, out = (call.tensor(index) for index in range(4))
    if q is None or latent is None or rope is None or not rope.shape:
        return None
    if len(q.shape) != _RAGGED or len(latent.shape) != 2:  # noqa: PLR2004 - [T, dc]
        return None
    kept, turned = latent.shape[1], rope.shape[-1]
    absorbed = latent_heads(q, kept, turned, None)
    results = q.shape[0] * q.shape[1]
    if out is None or not results or out.numel % results:
        return OpWork(None, None, q.dtype, q.dtype, absorbed=absorbed)
    value = out.numel // results
    expanded = Heads(q.shape[1], q.shape[1], q.shape[2], value, q.item, None, cached=kept + turned)
    return OpWork(None, None, q.dtype, q.dtype, heads=expanded, absorbed=absorbed)


@model(
    "*flash*::fwd_kvcache_mla*",
    "*flash*::dense_decode_fwd",
    "sgl_kernel::fwd_kvcache_mla*",
    "sgl_kernel::dense_decode_fwd",
    kind=OpKind.ATTENTION,
)
def flash_mla(call: OpCall) -> OpWork | None:
    """`_flashmla_C::fwd_kvcache_mla(q[B, Lq, h, dc + dr], cache[blocks, size, 1, …], [v_cache,] dc, lengths, table, ...)`.

    A row of the cache is its bytes as recorded: 656 of int8 hold 576 elements and scales in the 8-bit form of
    DeepSeek-V3.2. With `indices` [B, Lq, topk] attention is sparse, see `sparse`.
    """
    q, cache = call.tensor(0), call.tensor(1)
    latent = next((size for size in map(call.integer, (2, 3)) if size and size > 0), None)
    if q is None or cache is None or latent is None or {len(q.shape), len(cache.shape)} != {_BATCH}:
        return None
    if latent > q.shape[-1]:
        return None
    chosen = next((tensor for tensor in call.tensors()[2:] if _are_indices(tensor, q)), None)
    if chosen is not None:
        return sparse(q, cache, chosen, latent)
    heads = Heads(q.shape[2], 1, q.shape[3], latent, q.item, float(cache.item), cached=cache.shape[-1])
    return _absorbed(q, heads)


def _are_indices(tensor: Tensor, q: Tensor) -> bool:
    return tensor.dtype == "int32" and len(tensor.shape) == _RAGGED and tensor.shape[:2] == q.shape[:2]


@model(
    "*flash*::sparse_decode_fwd",
    "*flash*::sparse_prefill_fwd",
    "sgl_kernel::sparse_decode_fwd",
    "sgl_kernel::sparse_prefill_fwd",
    "sglang::sparse_mla_q8kv8_prefill*",
    kind=OpKind.ATTENTION,
)
def sparse_mla(call: OpCall) -> OpWork | None:
    """`sgl_kernel::sparse_prefill_fwd(q[T, h, dqk], kv[tokens, 1, dqk], indices[T, 1, topk], scale, dv, ...)`: see `sparse`."""
    q, kv, indices = call.tensor(0), call.tensor(1), call.tensor(2)
    value = call.integer(_value_at(call.name))
    if q is None or kv is None or indices is None or value is None or len(q.shape) not in {_RAGGED, _BATCH}:
        return None
    if not kv.shape or not 0 < value <= q.shape[-1]:
        return None
    return sparse(q, kv, indices, value)


def _value_at(name: str) -> int:
    """Where the size of a value head is told."""
    if name.startswith("sglang::"):
        return {"prefill": 13, "prefill_topk_length": 14, "prefill_full": 15}.get(
            name.partition("q8kv8_")[2], 13
        )
    return 10 if name.endswith("decode_fwd") else 4


def sparse(q: Tensor, cache: Tensor, indices: Tensor, value: int) -> OpWork:
    """Attention over the `topk` keys that an index names for each query: F = 2·T·topk·h·(d_qk + d_v).

    An upper value where a request is shorter than topk, since its spare indices are -1. Bytes are known for one
    query a request alone: those of others share keys.
    """
    heads = q.shape[-2]
    flops = attention_flops(float(indices.numel), heads, q.shape[-1], value)
    if len(q.shape) != _BATCH or q.shape[1] != 1:
        return OpWork(flops, None, q.dtype, q.dtype)
    kv = float(indices.numel * cache.shape[-1] * cache.item)
    traffic = kv + q.bytes + indices.bytes + q.rows * value * q.item
    return OpWork(flops, traffic, q.dtype, q.dtype, kv_bytes=kv)


@model("sgl_kernel::cutlass_mla_decode", "_C::sm100_cutlass_mla_decode", kind=OpKind.ATTENTION)
def cutlass_mla(call: OpCall) -> OpWork | None:
    """`sgl_kernel::cutlass_mla_decode(out, [lse,] q_latent[B, h, dc], q_rope[B, h, dr], cache[blocks, size, dc + dr], ...)`."""
    at = 1 if call.name.startswith("sgl") else 2
    q, rope, cache = (call.tensor(at + index) for index in range(3))
    if q is None or rope is None or cache is None or {len(q.shape), len(rope.shape)} != {_RAGGED}:
        return None
    return _absorbed(q, latent_heads(q, q.shape[2], rope.shape[2], float(cache.item)))


# Where queries, cache and a tensor whose last size is that of a value head stand.
_DECODES = {
    "aiter::mla_decode_stage1_asm_fwd": (0, 1, 14),
    "aiter::mla_prefill_asm_fwd": (0, 1, 8),
    "vllm::rocm_aiter_mla_decode_fwd": (0, 1, 2),
    "vllm::rocm_aiter_mla_decode_fwd_lse": (0, 1, 2),
    "_C::mla_decode_kvcache": (1, 2, 0),
}


@model(*_DECODES, kind=OpKind.ATTENTION)
def decode_mla(call: OpCall) -> OpWork | None:
    """`aiter::mla_decode_stage1_asm_fwd(q[T, h, dc + dr], cache[pages, size, 1, dc + dr], ...)`: dc is the last size of its output."""
    q, cache, out = (call.tensor(index) for index in _DECODES[call.name])
    if q is None or cache is None or out is None or len(q.shape) != _RAGGED:
        return None
    if not out.shape or not cache.shape:
        return None
    value, width = out.shape[-1], q.shape[2]
    if not 0 < value <= width or cache.shape[-1] != width:
        return None
    return _absorbed(q, latent_heads(q, value, width - value, float(cache.item)))


@model("*flash*::dense_prefill_fwd", "sgl_kernel::dense_prefill_fwd", kind=OpKind.ATTENTION)
def dense_prefill(call: OpCall) -> OpWork | None:
    """`_flashmla_C::dense_prefill_fwd(workspace, q[T, h, dn + dr], k, v[…, dv], cu_q, cu_k, out, lse, mask, scale, max_q, max_k, ...)`: mask 1 is causal."""
    inner = OpCall(call.name, call.dims[1:], call.types[1:], call.strides[1:], call.concrete[1:])
    mask = call.integer(8)
    return ragged(inner, 3, 9, causal=None if mask is None else mask == 1)


@model("vllm::unified_mla_kv_cache_update", kind=OpKind.KV_WRITE)
def unified_mla_update(call: OpCall) -> OpWork | None:
    """`vllm::unified_mla_kv_cache_update(latent[T, dc], rope[T, 1, dr], layer, dtype, scale)`: T·(dc + dr) elements, a byte each in fp8."""
    return write(call.tensor(0), call.tensor(1), 1 if "fp8" in call.text(3) else None)


@model("sgl_kernel::concat_mla_k", "vllm::flashinfer_concat_mla_k", kind=OpKind.COPY)
def concat_keys(call: OpCall) -> OpWork | None:
    """`sgl_kernel::concat_mla_k(k[T, h, dn + dr], nope[T, h, dn], rope[T, 1, dr])`: both parts read, k written."""
    k, nope, rope = (call.tensor(index) for index in range(3))
    if k is None or nope is None or rope is None:
        return None
    written = math.prod(k.shape) * k.item
    return OpWork(0.0, float(nope.bytes + rope.bytes + written), k.dtype, "vector")
