"""What recorded dims say of the tokens in a step."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pandas as pd

from tracekit.tables import Capture, Linked
from tracekit.tables.text import matches

# Ops that are the attention of one layer, over packed tokens [T, H, D] or over a batch [B, H, S, D].
PACKED_ATTENTION = re.compile(
    r"unified_(?:mla_)?attention|attention_paged|attention_ragged|cpu_attention|paged_attention"
)
BATCHED_ATTENTION = re.compile(r"scaled_dot_product_\w*attention$|scaled_dot_product_attention$")
ATTENTION = re.compile(
    rf"{PACKED_ATTENTION.pattern}|scaled_dot_product|flash_attn|_flash_attention|_efficient_attention|fmha|\bmha_|pa_decode"
)
EAGER_ATTENTION = re.compile(r"^aten::softmax$")  # of scores [B, H, q, k], where no attention op is called
LINEAR = re.compile(r"^(?:aten::(?:mm|addmm|linear|matmul)|\w+::\w*(?:gemm|_mm)\w*)$")
VOCABULARY = 8192  # an output this wide and much wider than the input is the language-model head
HEAD_RATIO = 4
# Of pictures [N, C, H, W] or films: what diffusion, and the decoder after it, are made of.
IMAGE, _PICTURE = re.compile(r"group_?norm(?:_run)?$|^aten::upsample_nearest\w*$"), 4
SAMPLER = re.compile(r"argmax|multinomial")  # over [rows, words]
SAMPLED_RANK, LEAST_WORDS = 2, 256
BATCHED_RANK = 4
MAX_TEXT = 4096
_SIDES, _WIDEST = 2, 2**26  # of a weight: two sides below this are one number that a float holds exactly


def signature_facts(capture: Capture) -> pd.DataFrame:
    """One row a signature: what its dims say.

    Returns:
        Columns `tokens` (T of packed attention), `query` and `key` (lengths of batched attention),
        `logits` (rows of the language-model head), `column` (n where the first dims are [n, 1]),
        `vector` (n where they are [n]), `weight` (a number for the sides of a linear op's weight); null where they
        say nothing.
    """
    ops = capture.signatures["op"].astype(object).tolist()
    texts = capture.signatures["dims"].astype(object).tolist()
    facts = [_facts(str(op), _parse(text)) for op, text in zip(ops, texts, strict=True)]
    names = ["tokens", "query", "key", "logits", "column", "vector", "weight"]
    return pd.DataFrame(facts, columns=names, index=pd.RangeIndex(len(facts)), dtype="float64")


def makes_images(capture: Capture) -> bool:
    """Whether channels are normalised in groups over pictures, or pictures enlarged; as far as shapes tell."""
    texts = capture.signatures["dims"].astype(object)[matches(capture.signatures["op"], IMAGE)]
    return any(_is_shape(first) and len(first) >= _PICTURE for first, *_ in filter(None, map(_parse, texts)))


def op_facts(capture: Capture, linked: Linked) -> pd.DataFrame:
    """The facts of each op, in the order of the op tree, with its name, thread, times and depth."""
    facts = signature_facts(capture)
    base = linked.ops[["name", "thread", "ts_ns", "dur_ns", "depth", "signature"]]
    return base.merge(facts, left_on="signature", right_index=True, how="left", validate="many_to_one")


def _parse(text: object) -> list[Any]:
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return []
    try:
        dims = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return dims if isinstance(dims, list) else []


def _facts(op: str, dims: list[Any]) -> dict[str, float]:
    shapes = [tuple(shape) for shape in dims if _is_shape(shape)]
    first = shapes[0] if shapes else ()
    return dict(_said(op, shapes, first))


def _said(op: str, shapes: list[tuple[int, ...]], first: tuple[int, ...]) -> Iterator[tuple[str, float]]:
    if PACKED_ATTENTION.search(op) and len(first) > 1:
        yield "tokens", first[0]
    if BATCHED_ATTENTION.search(op) and len(shapes) > 1 and len(first) == len(shapes[1]) == BATCHED_RANK:
        yield "query", first[-2]
        yield "key", shapes[1][-2]
    if EAGER_ATTENTION.match(op) and len(first) == BATCHED_RANK:
        yield "query", first[-2]
        yield "key", first[-1]
    if LINEAR.match(op):
        matrices = [shape for shape in shapes if len(shape) > 1]
        if len(matrices) > 1 and len(matrices[1]) == _SIDES and max(matrices[1]) < _WIDEST:
            yield "weight", min(matrices[1]) * _WIDEST + max(matrices[1])
        if len(matrices) > 1 and max(matrices[1]) >= max(VOCABULARY, HEAD_RATIO * min(matrices[1])):
            yield "logits", _product(matrices[0][:-1])
    if SAMPLER.search(op) and len(first) == SAMPLED_RANK and first[1] >= LEAST_WORDS:
        yield "logits", first[0]
    if len(first) > 1 and first[1:] == (1,):
        yield "column", first[0]
    if len(first) == 1:
        yield "vector", first[0]


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, list)
        and bool(shape)
        and all(type(size) is int and 0 <= size < 2**40 for size in shape)
    )


def _product(sizes: tuple[int, ...]) -> float:
    out = 1.0
    for size in sizes:
        out *= size
    return out
