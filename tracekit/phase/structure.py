"""Steps of captures that no text marks: from attention, embedding and sampling ops, and from graph replays."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit.intervals import Ints
from tracekit.phase.grammar import Reading, Rule
from tracekit.phase.hosts import Flags, Spans
from tracekit.phase.shapes import ATTENTION, EAGER_ATTENTION, PACKED_ATTENTION, makes_images
from tracekit.phase.windows import GRAPH_LAUNCH
from tracekit.registry import Row
from tracekit.tables import Capture, Linked
from tracekit.tables.columns import is_true
from tracekit.tables.text import matches

# Ops that a forward pass begins with, and ops that pick the next token.
EMBEDDING = re.compile(r"^aten::embedding$")
SAMPLING = re.compile(r"^aten::(?:multinomial|exponential_)$|argmax|(?:^|[:_])sampl(?!er)")
# Kernels that only a language model launches: they write a KV cache, rotate positions, route tokens to experts.
LANGUAGE_FAMILIES = ("kv", "rope", "moe.", "attn.mla", "attn.meta", "ssm")
LARGE_GRAPH = 30  # kernels of one replay: more than one layer's piece, fewer than the smallest whole decoder
FOUND = Reading(
    Rule(Row("tracekit", "structure", {}), "structure", None, re.compile(""), None, 0.0, ""), None, 0.0
)


@dataclass(frozen=True, slots=True)
class _Marks:
    """What marks the steps of one thread: times in order.

    Attributes:
        layer: Starts of attention ops and of large replays.
        replay: Which of them are replays.
        embedding: Starts of embedding ops.
        sampling: Ends of sampling ops.
        serving: Whether a serving engine's attention op is among them: then there is a step even where
            neither embedding nor sampling was recorded.
        first: Start of the thread's first call or op.
        last: End of its last.
    """

    layer: Ints
    replay: Flags
    embedding: Ints
    sampling: Ints
    serving: bool
    first: int
    last: int


def structural_steps(capture: Capture, linked: Linked, kernels: pd.DataFrame) -> tuple[Spans, str]:
    """Steps from the structure of the ops and of the graph replays; and which of the two marked them.

    Between two attention ops of one step lies a layer; where an embedding or a sampling op lies between
    them, a new step has begun. Every replay of a whole decoder is a step.
    """
    steps: list[tuple[int, int, int]] = []
    origin = ""
    for number, marks in _per_thread(capture, linked.ops, kernels).items():
        found = _cut(marks)
        steps += [(number, low, high) for low, high in found]
        if found:
            origin = "graph_replay" if marks.replay.all() else "op_sequence"
    return _as_spans(steps), origin


def device_steps(kernels: pd.DataFrame, lane: Ints) -> Spans:
    """Steps of a capture without any launch record: cut on each stream where a token was sampled, or looked up.

    Args:
        kernels: The kernels, with `family`.
        lane: The stream of each.
    """
    family = kernels["family"].astype(object).astype(str)
    attention = (family.str.startswith("attn") & ~family.isin(["attn.combine", "attn.meta"])).to_numpy(
        dtype=bool
    )
    embedding, sampling = (
        (family == "embed").to_numpy(dtype=bool),
        (family == "sampling").to_numpy(dtype=bool),
    )
    if sampling.any():
        embedding = np.zeros(len(kernels), dtype=bool)  # look-ups occur inside layers too
    start = kernels["ts_ns"].to_numpy(dtype=np.int64)
    end = start + kernels["dur_ns"].to_numpy(dtype=np.int64)
    none = np.empty(0, np.int64)
    found = []
    for number in np.unique(lane[attention]):
        mine = lane == number
        layer = np.sort(start[mine & attention])
        replay = np.zeros(len(layer), dtype=bool)
        edges = (np.sort(start[mine & embedding]) if embedding.any() else none, np.sort(end[mine & sampling]))
        marks = _Marks(
            layer, replay, *edges, serving=False, first=int(start[mine].min()), last=int(end[mine].max()) + 1
        )
        found += [(int(number), low, high) for low, high in _cut(marks)]
    return _as_spans(found)


def _as_spans(found: list[tuple[int, int, int]]) -> Spans:
    thread, start, end = np.array(found, np.int64).reshape(-1, 3).T
    blank = np.full(len(found), "", dtype=object)
    return Spans(thread, start, end, np.zeros(len(found), np.int64), blank, (FOUND,))


def is_language_model(capture: Capture, kernels: pd.DataFrame) -> bool:
    """Whether anything in a capture speaks of tokens: without that, its steps are not prefill or decode.

    A pipeline that makes pictures has tokens too, of its prompt, and none of its steps writes any.
    """
    if makes_images(capture):
        return False
    tokens = (
        matches(capture.ops["name"], EMBEDDING)
        | matches(capture.ops["name"], SAMPLING)
        | matches(capture.ops["name"], PACKED_ATTENTION)
    )
    families = kernels["family"].astype("category").cat.remove_unused_categories().cat.categories
    return bool(tokens.any()) or any(str(family).startswith(LANGUAGE_FAMILIES) for family in families)


def is_serving(ops: pd.DataFrame) -> bool:
    """Whether a serving engine's attention op, over packed requests, was called."""
    return bool(matches(ops["name"], PACKED_ATTENTION).any())


def _per_thread(capture: Capture, ops: pd.DataFrame, kernels: pd.DataFrame) -> dict[int, _Marks]:
    start = ops["ts_ns"].to_numpy(dtype=np.int64)
    end = start + ops["dur_ns"].to_numpy(dtype=np.int64)
    thread = ops["thread"].to_numpy(dtype=np.int64)
    embedding, sampling = matches(ops["name"], EMBEDDING), matches(ops["name"], SAMPLING)
    attention, serving = matches(ops["name"], ATTENTION), matches(ops["name"], PACKED_ATTENTION)
    if not attention.any() and embedding.any():
        attention = matches(ops["name"], EAGER_ATTENTION)
    replays = _large_replays(capture, kernels)
    calls = capture.runtime_calls
    out = {}
    for number in np.unique(np.concatenate((thread[attention], replays["thread"].to_numpy(dtype=np.int64)))):
        mine = thread == number
        launched = replays.loc[replays["thread"] == number, "ts_ns"].to_numpy(dtype=np.int64)
        layer = np.concatenate((start[mine & attention], launched))
        order = np.argsort(layer, kind="stable")
        called = calls.loc[calls["thread"] == number, "ts_ns"].to_numpy(dtype=np.int64)
        out[int(number)] = _Marks(
            layer[order],
            (np.arange(len(layer)) >= int((mine & attention).sum()))[order],
            np.sort(start[mine & embedding]),
            np.sort(end[mine & sampling]),
            bool((mine & serving).any()),
            int(np.concatenate((start[mine], called)).min()),
            int(np.concatenate((end[mine], called)).max()) + 1,
        )
    return out


def _large_replays(capture: Capture, kernels: pd.DataFrame) -> pd.DataFrame:
    calls = capture.runtime_calls
    replay = calls.loc[matches(calls["name"], GRAPH_LAUNCH)]
    from_graph = is_true(kernels, "from_graph")
    size = kernels["correlation"][from_graph].value_counts()
    held = replay["correlation"].map(size).fillna(0).to_numpy(dtype=np.int64)
    return replay.iloc[np.flatnonzero(held >= LARGE_GRAPH)]


def _cut(marks: _Marks) -> list[tuple[int, int]]:
    """The steps of one thread."""
    edges = np.sort(np.concatenate((marks.embedding, marks.sampling)))
    if not (len(edges) or marks.replay.any() or marks.serving):
        return []
    passed = np.searchsorted(edges, marks.layer)
    after_replay = np.concatenate(([True], marks.replay[:-1]))
    fresh = marks.replay | after_replay | (np.diff(passed, prepend=-1) > 0)
    firsts = np.flatnonzero(fresh)
    starts = [_begin(marks, int(first)) for first in firsts]
    return list(zip(starts, [*starts[1:], marks.last], strict=True))


def _begin(marks: _Marks, first: int) -> int:
    """Start of the step whose first mark is `first`: its embedding, else the end of the sampling before it."""
    high = int(marks.layer[first])
    low = int(marks.layer[first - 1]) if first else marks.first
    embedding = marks.embedding[(marks.embedding >= low) & (marks.embedding < high)]
    if len(embedding):
        return int(embedding[0])
    sampling = marks.sampling[(marks.sampling >= low) & (marks.sampling < high)]
    if len(sampling):
        return int(sampling[-1])
    return low if not first else high
