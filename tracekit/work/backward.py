"""Backward passes of attention and convolution, for training steps in a capture.

Attention: five products of the size of the forward's two, as the scores are computed again (FlashAttention-2, Dao
2023, section 3.1): F = 2A·h·(3·d_qk + 2·d_v). Convolution: one of the forward's size for each gradient asked for.
"""

from tracekit.work.attention import pairs
from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

_RANK = 4

# Where the heads stand, and the causal flag; a mask type instead of a flag is 0 for none.
_ATTENTION = {
    "aten::_scaled_dot_product_flash_attention_backward": (1, 11),
    "aten::_scaled_dot_product_efficient_attention_backward": (1, 11),
    "aten::_scaled_dot_product_cudnn_attention_backward": (1, 14),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (1, 7),
    "aten::_flash_attention_backward": (2, 11),
    "aten::_efficient_attention_backward": (2, 14),
}


@model(*_ATTENTION, kind=OpKind.ATTENTION)
def attention_backward(call: OpCall) -> OpWork | None:
    """`aten::_scaled_dot_product_flash_attention_backward(grad, q[B, h, Lq, d], k, v, out, ...)`: F = 2·B·A·h·(3·d_qk + 2·d_v).

    Q: the gradient and result, q, k and v read, three gradients written. Ragged batches, whose tensors have three
    sizes, give nothing.
    """
    heads_at, flag_at = _ATTENTION[call.name]
    grad, q, k, v = (call.tensor(index) for index in range(4))
    if (
        grad is None
        or q is None
        or k is None
        or v is None
        or any(len(t.shape) != _RANK for t in (grad, q, k, v))
    ):
        return None
    kind = call.integer(flag_at) if call.name == "aten::_efficient_attention_backward" else None
    causal = call.flag(flag_at) if kind is None else kind > 0
    length_at = 3 - heads_at
    count = None if causal is None else pairs(q.shape[length_at], k.shape[length_at], causal=causal)
    flops = None
    if count is not None:
        flops = 2.0 * q.shape[0] * count * q.shape[heads_at] * (3 * q.shape[3] + 2 * v.shape[3])
    kv = float(k.bytes + v.bytes)
    traffic = 2.0 * grad.bytes + q.bytes + kv + sum(t.numel * t.item for t in (q, k, v))
    return OpWork(flops, traffic, q.dtype, q.dtype, kv_bytes=kv)


@model("aten::convolution_backward", "aten::convolution_backward_overrideable", kind=OpKind.CONV)
def convolution_backward(call: OpCall) -> OpWork | None:
    """`aten::convolution_backward(grad[N, Co, ...], x, w[Co, C/g, ...], bias_sizes, ..., transposed, ..., mask)`: F = 2·N·w.numel·prod(out) a gradient.

    The mask says which of the gradients of x and w are asked for; without it nothing is known. Transposed, the
    spatial sizes are those of x.
    """
    grad, x, w = (call.tensor(index) for index in range(3))
    wanted = _mask(call.text(10))
    if grad is None or x is None or w is None or wanted is None or len(grad.shape) < 3:  # noqa: PLR2004 - N, C and one more
        return None
    spatial = 1
    for size in (x if call.flag(7) else grad).shape[2:]:
        spatial *= size
    asked: list[Tensor] = [tensor for tensor, one in zip((x, w), wanted, strict=True) if one]
    flops = 2.0 * len(asked) * grad.shape[0] * w.numel * spatial
    traffic = grad.bytes + x.bytes + w.bytes + sum(tensor.numel * tensor.item for tensor in asked)
    return OpWork(flops, float(traffic), x.dtype, x.dtype, weight_bytes=float(w.bytes))


def _mask(text: str) -> tuple[bool, bool] | None:
    """The first two of three truth values, as in "[True, True, False]"."""
    words = [word.strip() for word in text.strip("[] ").split(",")]
    if len(words) != 3 or not set(words) <= {"True", "False"}:  # noqa: PLR2004 - x, w, bias
        return None
    return words[0] == "True", words[1] == "True"
