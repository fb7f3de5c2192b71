"""Rotary embedding: 6 operations a pair, 3 an element; queries and keys read and written, cos and sin rows read."""

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

PER_ELEMENT = 3.0


def rotary(
    tensors: tuple[Tensor | None, ...], tokens: int, table: Tensor | None, head_size: int | None
) -> OpWork | None:
    """F = 3·T(h + hkv)·r and Q = 2·T(h + hkv)·r·b + T·r·b_table, r being the rotated part of a head.

    The table holds cosines and sines of half of r each; where it is narrower than a head only that part moves.
    """
    present = [tensor for tensor in tensors if tensor is not None]
    if not present or not tokens:
        return None
    share = 1.0
    if table is not None and head_size and table.shape and 0 < table.shape[-1] <= head_size:
        share = table.shape[-1] / head_size
    numel = sum(tensor.numel for tensor in present) * share
    traffic = 2 * sum(tensor.bytes for tensor in present) * share
    rows = 0 if table is None or not table.shape else tokens * table.shape[-1] * table.item
    return OpWork(PER_ELEMENT * numel, float(traffic + rows), present[0].dtype, "vector")


@model(
    "_C::rotary_embedding",
    "sgl_kernel::rotary_embedding",
    "vllm::rotary_embedding",
    "sgl_kernel::rotary_embedding_cpu",
    "sglang::rotary_embedding_with_key",
    "vllm::rocm_aiter_triton_rotary_embedding",
    "vllm::flashinfer_rotary_embedding",
    kind=OpKind.ROPE,
)
def rotary_embedding(call: OpCall) -> OpWork | None:
    """`_C::rotary_embedding(positions[T], q[T, h·d], k[T, hkv·d], d, table[max, r], neox)`."""
    positions = call.tensor(0)
    if positions is None or not positions.shape:
        return None
    return rotary(
        (call.tensor(1), call.tensor(2)),
        positions.shape[-1] * positions.rows,
        call.tensor(4),
        call.integer(3),
    )


@model(
    "sgl_kernel::apply_rope_pos_ids_cos_sin_cache",
    "flashinfer::apply_rope_pos_ids_cos_sin_cache",
    "rope::apply_rope_pos_ids_cos_sin_cache",
    kind=OpKind.ROPE,
)
def apply_rope(call: OpCall) -> OpWork | None:
    """`sgl_kernel::apply_rope(q[T, h, d], k[T, hkv, d], q_out, k_out, table[max, r], positions, ...)`."""
    q = call.tensor(0)
    if q is None or len(q.shape) != 3:  # noqa: PLR2004 - [T, h, d]
        return None
    return rotary((q, call.tensor(1)), q.shape[0], call.tensor(4), q.shape[2])


@model("_C::fused_qk_norm_rope", "vllm::fused_qk_norm_rope", "trtllm::fused_qk_norm_rope", kind=OpKind.ROPE)
def fused_qk_norm_rope(call: OpCall) -> OpWork | None:
    """`_C::fused_qk_norm_rope(qkv[T, (h + 2·hkv)·d], h, hkv, hkv, d, eps, ...)`: RMS 4 and rotation 3 an element of q and k."""
    qkv, heads, keys, dim = call.tensor(0), call.integer(1), call.integer(2), call.integer(4)
    if qkv is None or not qkv.shape or heads is None or keys is None or dim is None:
        return None
    numel = qkv.shape[0] * (heads + keys) * dim
    return OpWork(7.0 * numel, 2.0 * numel * qkv.item, qkv.dtype, "vector")
