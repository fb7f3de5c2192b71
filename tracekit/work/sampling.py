"""Sampling, sorting and top-k over logits: few operations, one or two passes over [B, V]."""

from tracekit.work.registered import OpKind, OpWork, model
from tracekit.work.signature import OpCall

# A radix sort looks at eight bits a pass.
_BITS_A_PASS = 8


@model("aten::sort", "aten::argsort", "aten::msort", kind=OpKind.SAMPLING)
def sort(call: OpCall) -> OpWork | None:
    """`aten::sort(x)`: radix passes = bits of a key / 8; F = numel·passes, Q = passes·2·numel·(key + 8 B index)."""
    x = call.tensor(0)
    if x is None:
        return None
    passes = 8 * x.item // _BITS_A_PASS
    return OpWork(float(x.numel * passes), 2.0 * passes * x.numel * (x.item + 8), x.dtype, "vector")


@model("aten::topk", "aten::kthvalue", "aten::mode", "aten::median", kind=OpKind.SAMPLING)
def topk(call: OpCall) -> OpWork | None:
    """`aten::topk(x[..., V], k)`: F = numel (a comparison each), Q = x + k values and 8 B indices a row; a lower bound."""
    x, count = call.tensor(0), call.integer(1)
    if x is None:
        return None
    kept = x.rows * max(0, min(count or 0, x.shape[-1] if x.shape else 1))
    return OpWork(float(x.numel), float(x.bytes + kept * (x.item + 8)), x.dtype, "vector")


@model("aten::multinomial", kind=OpKind.SAMPLING)
def multinomial(call: OpCall) -> OpWork | None:
    """`aten::multinomial(p[B, V], n)`: a prefix sum and a search, F = 2·B·V, Q = p + 8 B a sample."""
    x, count = call.tensor(0), call.integer(1)
    if x is None:
        return None
    return OpWork(2.0 * x.numel, float(x.bytes + 8 * x.rows * (count or 1)), x.dtype, "vector")


@model(
    "aten::exponential_",
    "aten::uniform_",
    "aten::normal_",
    "aten::bernoulli_",
    "aten::random_",
    kind=OpKind.SAMPLING,
)
def random(call: OpCall) -> OpWork | None:
    """`aten::exponential_(x)`: F is not counted for random numbers (integer rounds of a generator), Q = x written."""
    x = call.tensor(0)
    return None if x is None else OpWork(0.0, float(x.numel * x.item), x.dtype, "vector")


@model(
    "sgl_kernel::top_k_top_p_sampling_from_probs",
    "sgl_kernel::top_p_sampling_from_probs",
    "sgl_kernel::min_p_sampling_from_probs",
    "sgl_kernel::top_k_renorm_probs",
    "sgl_kernel::top_p_renorm_probs",
    "flashinfer::*sampling_from*",
    kind=OpKind.SAMPLING,
)
def sample(call: OpCall) -> OpWork | None:
    """`sgl_kernel::sampling_from_probs(p[B, V], ...)`: about 5 operations an element, p read once at least."""
    tensors = call.tensors()
    if not tensors:
        return None
    probabilities = max(tensors, key=lambda tensor: tensor.numel)
    return OpWork(5.0 * probabilities.numel, float(probabilities.bytes), probabilities.dtype, "vector")


@model("_C::apply_repetition_penalties_", kind=OpKind.SAMPLING)
def repetition_penalties(call: OpCall) -> OpWork | None:
    """`_C::apply_repetition_penalties_(logits[B, V], prompt_mask, output_mask, penalties)`: F = numel, logits read and written, masks read."""
    logits, masks = call.tensor(0), [call.tensor(1), call.tensor(2)]
    if logits is None:
        return None
    traffic = 2 * logits.bytes + sum(mask.bytes for mask in masks if mask is not None)
    return OpWork(float(logits.numel), float(traffic), logits.dtype, "vector")
