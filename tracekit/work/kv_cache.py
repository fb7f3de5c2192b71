"""Writing keys and values to the cache: the new tokens are traffic, the cache's capacity is not."""

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

_SLOT_BYTES = 8


def write(key: Tensor | None, value: Tensor | None, cache_item: int | None) -> OpWork | None:
    """T·hkv·d·(b_in + b_kv) for key and for value, and a slot of 8 B a token; F = 2 an element where the cache is narrower.

    The cache's share of it is KV traffic.
    """
    if key is None or not key.shape:
        return None
    numel = key.numel + (0 if value is None else value.numel)
    item = cache_item or key.item
    read = key.bytes + (0 if value is None else value.bytes)
    traffic = read + numel * item + _SLOT_BYTES * key.shape[0]
    return OpWork(
        2.0 * numel if item < key.item else 0.0,
        float(traffic),
        key.dtype,
        "vector",
        kv_bytes=float(numel * item),
    )


def _item(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.item


@model(
    "_C_cache_ops::reshape_and_cache",
    "_C_cache_ops::reshape_and_cache_flash",
    "sglang::store_cache",
    "_rocm_C::reshape_and_cache",
    "_C::cpu_attn_reshape_and_cache",
    kind=OpKind.KV_WRITE,
)
def reshape_and_cache(call: OpCall) -> OpWork | None:
    """`_C_cache_ops::reshape_and_cache_flash(key[T, hkv, d], value, key_cache, value_cache, slots, ...)`."""
    return write(call.tensor(0), call.tensor(1), _item(call.tensor(2)))


@model("vllm::unified_kv_cache_update", kind=OpKind.KV_WRITE)
def unified_update(call: OpCall) -> OpWork | None:
    """`vllm::unified_kv_cache_update(key[T, hkv, d], value, layer)`: a cache of the key's type is assumed, which is not recorded."""
    return write(call.tensor(0), call.tensor(1), None)


@model("_C_cache_ops::concat_and_cache_mla", kind=OpKind.KV_WRITE)
def concat_and_cache_mla(call: OpCall) -> OpWork | None:
    """`_C_cache_ops::concat_and_cache_mla(latent[T, dc], rope[T, dr], cache, slots, ...)`: T·(dc + dr) elements."""
    return write(call.tensor(0), call.tensor(1), _item(call.tensor(2)))


@model("sglang_profiler::memory_pool__set_kv_buffer*", kind=OpKind.KV_WRITE)
def set_kv_buffer(call: OpCall) -> OpWork | None:
    """`sglang_profiler::set_kv_buffer(key[T, hkv, d], value, key_cache, value_cache, slots)`."""
    return write(call.tensor(0), call.tensor(1), _item(call.tensor(2)))


@model(
    "flashinfer::append_paged_kv_cache",
    "flashinfer::append_paged_mla_kv_cache",
    "page::append_paged_kv_cache",
    "page::append_paged_mla_kv_cache",
    kind=OpKind.KV_WRITE,
)
def append_paged(call: OpCall) -> OpWork | None:
    """`page::append_paged_kv_cache(key[T, hkv, d], value, batch, positions, key_cache, ...)`; of MLA latent and rope part."""
    return write(call.tensor(0), call.tensor(1), _item(call.tensor(4)))
