"""TensorRT-LLM's fused attention op: heads from its plain arguments, lengths from step sums.

`trtllm::attention_inplace(q, k?, v?, output, [output_sf,] …, is_fused_qkv, update_kv_cache, predicted_tokens_per_seq,
layer_idx, num_heads, num_kv_heads, head_size, tokens_per_block?, max_num_requests, max_context_length,
attention_window_size, sink_token_length, beam_width, mask_type, quant_mode, …, use_paged_context_fmha,
attention_input_type?, is_mla_enable, …, q_lora_rank?, kv_lora_rank?, qk_nope_head_dim?, qk_rope_head_dim?, v_head_dim?,
…)`, as registered in cpp/tensorrt_llm/thop/attentionOp.cpp of releases 0.20 to 1.1. Tensors before the two flags and
packed lists behind them differ by release, so places are counted from the flags, and a call is taken only where the
width of its queries agrees with its heads. Later releases call the kernels without an op.
"""

from dataclasses import dataclass

from tracekit.work.mla import latent_heads
from tracekit.work.registered import Heads, OpKind, OpWork, model
from tracekit.work.signature import OpCall, Tensor

_FLAGS = frozenset({"True", "False"})
_CAUSAL = frozenset({1, 2})
# Bits of quant_mode: an 8-bit cache (int8, fp8), and one of NVFP4 with a scale of a byte a block of 16.
_CACHE_8, _CACHE_4 = 0b11 << 6, 1 << 13
_NVFP4_ITEM = 0.5 + 1 / 16
# Sizes of MLA behind its flag, all absent in other calls.
_SIZES = 5


@dataclass(frozen=True, slots=True)
class _Plain:
    """The plain arguments that are used.

    Attributes:
        fused: Whether queries, keys and values are one tensor.
        heads: Query heads.
        kv_heads: Key and value heads.
        size: Elements of a head.
        window: Keys that a query sees at most, itself included.
        quant_mode: Bits of how weights, activations and cache are quantised.
        tail: Where the flag of the paged context stands.
    """

    fused: bool
    heads: int
    kv_heads: int
    size: int
    window: int
    quant_mode: int
    tail: int


@model("trtllm::attention", "trtllm::attention_inplace", kind=OpKind.ATTENTION)
def trtllm_attention(call: OpCall) -> OpWork | None:
    """`trtllm::attention_inplace(q[T, (h + 2·hkv)·d], …)`: heads and window complete with step sums; no lengths are recorded.

    Nothing is said of beams, of chunked attention and of masks that are not causal.
    """
    q, plain = call.tensor(0), _plain(call)
    if q is None or plain is None or len(q.shape) != 2:  # noqa: PLR2004 - [T, width]
        return None
    if call.text(plain.tail + 2) == "True":
        heads = _latent(call, q, plain)
    else:
        width = (plain.heads + 2 * plain.kv_heads * plain.fused) * plain.size
        item = _query_item(call, q, plain.heads * plain.size)
        heads = Heads(
            plain.heads,
            plain.kv_heads,
            plain.size,
            plain.size,
            item,
            _cache_item(q, plain),
            window=plain.window,
        )
        heads = heads if q.shape[1] == width and not _chunked(call, plain.tail + 3) else None
    return None if heads is None else OpWork(None, None, q.dtype, q.dtype, heads=heads, queries=q.shape[0])


def _plain(call: OpCall) -> _Plain | None:
    """The plain arguments, counted from the first two flags; None where they do not fit or are of a call without a model."""
    at = _flag_pair(call, 4, 1)
    if at is None:
        return None
    names = ("heads", "kv_heads", "size", "window", "beams", "mask", "quant_mode")
    values = [call.integer(at + place) for place in (4, 5, 6, 10, 12, 13, 14)]
    tail = _flag_pair(call, at + 15, 2)
    if tail is None or any(value is None or value < 0 for value in values):
        return None
    known = {name: value or 0 for name, value in zip(names, values, strict=True)}
    if (
        known["beams"] != 1
        or known["mask"] not in _CAUSAL
        or 0 in (known["heads"], known["kv_heads"], known["size"], known["window"])
    ):
        return None
    return _Plain(
        call.text(at) == "True",
        known["heads"],
        known["kv_heads"],
        known["size"],
        known["window"],
        known["quant_mode"],
        tail,
    )


def _flag_pair(call: OpCall, first: int, apart: int) -> int | None:
    """The first place at or behind `first` where a flag stands, and another one so many places on."""
    places = range(first, len(call.concrete) - apart)
    return next((at for at in places if {call.text(at), call.text(at + apart)} <= _FLAGS), None)


def _cache_item(q: Tensor, plain: _Plain) -> float:
    if plain.quant_mode & _CACHE_4:
        return _NVFP4_ITEM
    return 1.0 if plain.quant_mode & _CACHE_8 else float(q.item)


def _query_item(call: OpCall, q: Tensor, width: int) -> float:
    """Bytes of a query and of a result element, on average; a packed result counts by what is stored."""
    out = call.tensor(3)
    stored = q.item if out is None or not q.shape[0] else out.bytes / (q.shape[0] * width)
    return (q.item + stored) / 2


def _chunked(call: OpCall, first: int) -> bool:
    """Whether one of the plain arguments behind is a number: the size of attention's chunks is the only one."""
    return any(call.integer(at) is not None for at in range(first + _SIZES, len(call.concrete)))


def _latent(call: OpCall, q: Tensor, plain: _Plain) -> Heads | None:
    """MLA: a call of generation is absorbed, one of context is expanded; none serves both."""
    # Some releases have one number more before the sizes.
    for first in (plain.tail + 3, plain.tail + 4):
        latent, nope, rope, value = (call.integer(first + place) for place in (1, 2, 3, 4))
        if (
            latent is None
            or nope is None
            or rope is None
            or value is None
            or min(latent, nope, rope, value) <= 0
        ):
            continue
        match call.integer(plain.tail + 1):
            case 2 if q.shape[1] == plain.heads * (latent + rope):
                shape = q.shape[0], plain.heads, latent + rope
                return latent_heads(Tensor(shape, q.dtype), latent, rope, _cache_item(q, plain))
            case 1 if q.shape[1] in _context_widths(plain.heads, nope + rope, value):
                item = _query_item(call, q, plain.heads * value)
                cached = latent + rope
                return Heads(
                    plain.heads, plain.heads, nope + rope, value, item, _cache_item(q, plain), cached=cached
                )
    return None


def _context_widths(heads: int, key: int, value: int) -> tuple[int, int]:
    """Queries alone, or with expanded keys and values behind them."""
    return heads * key, heads * (2 * key + value)
