"""Attention over a paged cache, whose recorded sizes are its capacity: heads from the call, lengths from step sums.

Argument orders are those of the public registrations of vLLM 0.32, SGLang 0.5.23, flash-attention's forks in both,
AITER and FlashInfer.
"""

import math
from dataclasses import replace

from tracekit.work.attention import flash_dense, heads_of, ragged, window_of
from tracekit.work.registered import Heads, OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

_RAGGED, _PAGED, _SPLIT = 3, 4, 5
_KEYS = (_RAGGED, _PAGED)


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
    if q is None or k is None or v is None or {len(q.shape), len(k.shape), len(v.shape)} != {_RAGGED}:
        return None
    out = call.tensor(3)
    item = q.item if out is None else (q.item + out.item) / 2
    heads = Heads(q.shape[1], k.shape[1], q.shape[2], v.shape[2], item, None)
    return OpWork(None, None, q.dtype, q.dtype, heads=heads)


def _from_heads(q: Tensor, heads: Heads) -> OpWork:
    queries = q.numel // max(1, math.prod(q.shape[-2:]))
    return OpWork(None, None, q.dtype, q.dtype, heads=heads, queries=queries)


# Behind flash-attention 2 the positions of the lengths, the longest query, the causal flag and the left window;
# releases without `leftpad_k` have one argument less before the longest.
_FA2_ARGUMENTS = 21


@model("_vllm_fa2_C::varlen_fwd", "vllm_flash_attn::varlen_fwd", kind=OpKind.ATTENTION)
def flash_2(call: OpCall) -> OpWork | None:
    """`_vllm_fa2_C::varlen_fwd(q[T, h, d], k, v, out, cu_q, cu_k, seqused_k, [leftpad_k,] block_table, alibi, max_q, max_k, p, scale, zero, causal, window_left, ...)`."""
    shift = 0 if len(call.types) >= _FA2_ARGUMENTS else -1
    return _flash(call, 4, 10 + shift, 15 + shift, 16 + shift)


# Behind flash-attention 3 the new keys, cumulative lengths, lengths in the cache and the page table: without them the
# batch is dense.
_CACHED = (3, 7, 11, 14)


@model(
    "_vllm_fa3_C::fwd",
    "sgl_kernel::fwd",
    "_cutlass_fa3_C::fwd",
    "flash_attn_3::fwd",
    "flash_attn_3::_flash_attn_forward",
    kind=OpKind.ATTENTION,
)
def flash_3(call: OpCall) -> OpWork | None:
    """`_vllm_fa3_C::fwd(q, k, v, k_new, v_new, q_v, out, cu_q, cu_k, ..., max_q, max_k, page_table, ..., causal, window_left, ...)`.

    With q_v[T, h, dc] it is absorbed MLA: k is the rope part of dr, v the latent of dc, and queries meet both.
    """
    latent = call.tensor(5)
    if latent is None and all(call.tensor(at) is None for at in _CACHED) and _is_dense(call):
        return flash_dense(call, 24, 25)
    if latent is None:
        return _flash(call, 7, 12, 24, 25)
    q, k, v = call.tensor(0), call.tensor(1), call.tensor(2)
    if q is None or k is None or v is None or min(len(q.shape), len(latent.shape)) < _RAGGED:
        return None
    key, value = q.shape[-1] + latent.shape[-1], latent.shape[-1]
    heads = Heads(q.shape[-2], 1, key, value, q.item, float(k.item), cached=key)
    return _from_heads(q, heads)


def _is_dense(call: OpCall) -> bool:
    """Whether queries and keys are of one batch, [B, L, h, d]."""
    q, k = call.tensor(0), call.tensor(1)
    return q is not None and k is not None and len(q.shape) == _PAGED and q.shape[:1] == k.shape[:1]


def _flash(call: OpCall, lengths_at: int, longest_at: int, causal_at: int, window_at: int) -> OpWork | None:
    """Attention of [T, h, d] or [B, L, h, d] queries over [T, hkv, d] keys, or over a cache [blocks, size, hkv, d].

    A call that is not causal is one part of a split attention, which step sums say nothing of.
    """
    q, k, v = call.tensor(0), call.tensor(1), call.tensor(2)
    if q is None or k is None or v is None or any(len(t.shape) not in _KEYS for t in (q, k, v)):
        return None
    causal = call.flag(causal_at)
    if len(k.shape) == _RAGGED:
        return ragged(call, lengths_at, longest_at, causal=causal)
    if causal is False:
        return OpWork(None, None, q.dtype, q.dtype)
    window = window_of(call.integer(window_at))
    return _from_heads(q, replace(heads_of(q, k, v, float(k.item)), window=window))


@model("aiter::mha_varlen_fwd", "aiter::fmha_v3_varlen_fwd", kind=OpKind.ATTENTION)
def aiter_varlen(call: OpCall) -> OpWork | None:
    """`aiter::mha_varlen_fwd(q[T, h, d], k, v, cu_q, cu_k, max_q, max_k, min_q, p, scale, cap, zero, causal, window_left, ...)`: k of four sizes is a cache."""
    return _flash(call, 3, 5, 12, 13)


@model("aiter::mha_batch_prefill", "aiter::_mha_batch_prefill", kind=OpKind.ATTENTION)
def aiter_batch_prefill(call: OpCall) -> OpWork | None:
    """`aiter::mha_batch_prefill(q[T, h, d], k_cache[blocks, size, hkv, d], v_cache, cu_q, kv_indptr, pages, max_q, max_k, p, scale, cap, zero, causal, window_left, ...)`."""
    k = call.tensor(1)
    if k is not None and len(k.shape) == _SPLIT:
        return _split_keys(call.tensor(0), k)
    return _flash(call, 3, 6, 12, 13) if k is not None and len(k.shape) == _PAGED else None


@model(
    "aiter::pa_fwd_asm",
    "aiter::_pa_fwd_asm",
    "aiter::pa_fwd_naive",
    "aiter::pa_ps_fwd_asm",
    "aiter::_pa_ps_fwd_asm",
    "aiter::pa_persistent_fwd",
    "aiter::pa_decode_bf16_asm",
    "aiter::_pa_decode_bf16_asm",
    kind=OpKind.ATTENTION,
)
def aiter_paged(call: OpCall) -> OpWork | None:
    """`aiter::pa_fwd_asm(q[B, h, d], k_cache[blocks, hkv, d/x, size, x], v_cache, tables, lengths, ...)`."""
    return _split_keys(call.tensor(0), call.tensor(1))


def _split_keys(q: Tensor | None, k: Tensor | None) -> OpWork | None:
    """Heads where the key cache splits the head into parts of 16 bytes: [blocks, hkv, d/x, size, x]."""
    if q is None or k is None or len(q.shape) != _RAGGED or len(k.shape) != _SPLIT:
        return None
    dim = k.shape[2] * k.shape[4]
    if dim != q.shape[2]:
        return None
    return _from_heads(q, Heads(q.shape[1], k.shape[1], dim, dim, q.item, float(k.item)))


# Where the layout of the cache is told: "HND" is [blocks, hkv, size, d], "NHD" [blocks, size, hkv, d].
_LAYOUTS = {"ragged": 13, "v1": 12}


@model(
    "sglang_profiler::attention_paged_attention_ragged*",
    "aiter::paged_attention_ragged*",
    "aiter::paged_attention_v1*",
    kind=OpKind.ATTENTION,
)
def aiter_workspace(call: OpCall) -> OpWork | None:
    """`aiter::paged_attention_ragged(out[B, h, d], workspace, q[B, h, d], k_cache[blocks, size, hkv, d], v_cache, ...)`."""
    q, k, v = call.tensor(2), call.tensor(3), call.tensor(4)
    if (
        q is None
        or k is None
        or v is None
        or len(q.shape) != _RAGGED
        or {len(k.shape), len(v.shape)} != {_PAGED}
    ):
        return None
    layout = call.text(_LAYOUTS["v1" if "_v1" in call.name else "ragged"])
    heads = heads_of(q, k, v, float(k.item))
    return _from_heads(q, replace(heads, kv_heads=k.shape[1]) if "HND" in layout else heads)


@model("_C::cpu_attention_with_kv_cache", kind=OpKind.ATTENTION)
def cpu_attention(call: OpCall) -> OpWork | None:
    """`_C::cpu_attention_with_kv_cache(q[T, h, d], k_cache[blocks, hkv, size, d], v_cache, out, ...)`."""
    q, k = call.tensor(0), call.tensor(1)
    if q is None or k is None or len(q.shape) != _RAGGED or len(k.shape) != _PAGED:
        return None
    return _from_heads(q, Heads(q.shape[1], k.shape[1], q.shape[2], q.shape[2], q.item, float(k.item)))


@model("sgl_kernel::decode_attention_cpu", kind=OpKind.ATTENTION)
def sgl_decode_cpu(call: OpCall) -> OpWork | None:
    """`sgl_kernel::decode_attention_cpu(q[B, h, d], k_cache[slots, hkv, d], v_cache[slots, hkv, dv], ...)`: with one head of wider keys it is absorbed MLA, whose values are part of its keys."""
    q, k, v = (call.tensor(index) for index in range(3))
    if q is None or k is None or v is None or {len(q.shape), len(k.shape), len(v.shape)} != {_RAGGED}:
        return None
    shared = k.shape[2] if k.shape[1] == 1 and v.shape[2] < k.shape[2] else None
    return _from_heads(q, replace(heads_of(q, k, v, float(k.item)), cached=shared))


@model("sgl_kernel::extend_attention_cpu", kind=OpKind.ATTENTION)
def sgl_extend_cpu(call: OpCall) -> OpWork | None:
    """`sgl_kernel::extend_attention_cpu(q[T, h, d], k[T, hkv, d], v, out, k_cache, v_cache, ...)`: new tokens over new and cached keys."""
    q, k, v, cache = (call.tensor(index) for index in (0, 1, 2, 4))
    if q is None or k is None or v is None or {len(q.shape), len(k.shape), len(v.shape)} != {_RAGGED}:
        return None
    return _from_heads(q, heads_of(q, k, v, None if cache is None else float(cache.item)))


@model(
    "_C::paged_attention_v1",
    "_C::paged_attention_v2",
    "_rocm_C::paged_attention",
    "aiter::paged_attention_rocm*",
    kind=OpKind.ATTENTION,
)
def paged_decode(call: OpCall) -> OpWork | None:
    """`_C::paged_attention_v1(out[B, h, d], [exp_sums, max_logits, tmp,] q, k_cache[blocks, hkv, d/x, size, x], ...)`."""
    tensors = call.tensors()
    out = tensors[0] if tensors else None
    same = [
        tensor
        for tensor in tensors[1:]
        if out is not None and tensor.shape == out.shape and tensor.dtype == out.dtype
    ]
    caches = [tensor for tensor in tensors if len(tensor.shape) == _SPLIT]
    if out is None or not same or not caches:
        return None
    return _split_keys(out, caches[0])


# Behind FlashInfer's queries, keys and values: the layout (0 [size, hkv, d], 1 [hkv, size, d]) and the left window.
_FLASHINFER = {"paged_run": (13, 14), "ragged_run": (11, 12), "run": (11, 12)}


@model(
    "flashinfer::batch_*_run",
    "batch_decode_with_kv_cache_*::run",
    "batch_prefill_with_kv_cache_*::paged_run",
    "batch_prefill_with_kv_cache_*::ragged_run",
    kind=OpKind.ATTENTION,
)
def flashinfer_run(call: OpCall) -> OpWork | None:
    """`flashinfer::batch_decode…_run(float_workspace, int_workspace, plan, q[T, h, d], k_cache[blocks, size, hkv, d], v_cache, ...)`.

    Releases 0.2.3 to 0.3 name it by the module that they compile (`batch_decode_with_kv_cache_dtype_q_bf16_…::run`);
    later ones call their kernels without an op. Prefill whose mask is not causal (code 1) is one part of a split
    attention, which step sums say nothing of.
    """
    q, k, v = call.tensor(3), call.tensor(4), call.tensor(5)
    if q is None or k is None or v is None or len(q.shape) != _RAGGED or len(k.shape) not in _KEYS:
        return None
    if len(v.shape) != len(k.shape):
        return None
    layout_at, window_at = next(at for end, at in _FLASHINFER.items() if call.name.endswith(end))
    layout = call.integer(layout_at)
    if layout not in {0, 1}:
        return None
    if "prefill" in call.name and call.integer(layout_at - 1) != 1:
        return OpWork(None, None, q.dtype, q.dtype)
    heads_at = len(k.shape) - (2 if layout == 0 else 3)
    heads = replace(
        heads_of(q, k, v, float(k.item)),
        kv_heads=k.shape[heads_at],
        window=window_of(call.integer(window_at)),
        keys=k.numel // (k.shape[heads_at] * k.shape[-1]) if len(k.shape) == _RAGGED and k.numel else None,
    )
    return _from_heads(q, heads)
