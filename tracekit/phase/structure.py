"""Steps of captures that no text marks: from attention, embedding and sampling ops, else from graph replays."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit.intervals import Ints
from tracekit.phase.grammar import Reading, Rule
from tracekit.phase.hosts import Flags, Spans, per_thread
from tracekit.phase.shapes import ATTENTION
from tracekit.phase.windows import GRAPH_LAUNCH
from tracekit.registry import Row
from tracekit.tables import Capture, Linked

# Ops that a forward pass begins with, and ops that pick the next token.
EMBEDDING = re.compile(r"^aten::embedding$")
SAMPLING = re.compile(r"^aten::(?:argmax|multinomial|exponential_|log_softmax)$|sampl")
LARGE_GRAPH = 30  # kernels of one replay: more than one layer's piece, less than the smallest whole decoder
FOUND = Reading(
    Rule(Row("tracekit", "structure", {}), "structure", None, re.compile(""), None, 0.0, ""), None, 0.0
)


@dataclass(frozen=True, slots=True)
class _Ops:
    start: Ints
    end: Ints
    attention: Flags
    embedding: Flags
    sampling: Flags


def structural_steps(capture: Capture, linked: Linked, kernels: pd.DataFrame) -> tuple[Spans, str]:
    """Steps from the structure of the ops, else of the graph replays; and which of the two it was.

    Between two attention ops of one step lies a layer; where an embedding or a sampling op lies between
    them, a new step has begun. Without attention ops a replay of a whole decoder is a step.
    """
    by_ops = _from_ops(linked.ops)
    if len(by_ops):
        return by_ops, "op_sequence"
    by_graph = _from_graphs(capture, linked.ops, kernels)
    return by_graph, "graph_replay" if len(by_graph) else ""


def _spans(thread: list[int], start: list[int], end: list[int]) -> Spans:
    count = len(start)
    return Spans(
        np.array(thread, np.int64),
        np.array(start, np.int64),
        np.array(end, np.int64),
        np.zeros(count, np.int64),
        np.full(count, "", dtype=object),
        (FOUND,),
    )


def _from_ops(ops: pd.DataFrame) -> Spans:
    names = ops["name"].astype("category").cat
    flags = {
        what: np.array([bool(pattern.search(str(name))) for name in names.categories], dtype=bool)
        for what, pattern in (("attention", ATTENTION), ("embedding", EMBEDDING), ("sampling", SAMPLING))
    }
    codes = names.codes.to_numpy()
    start = ops["ts_ns"].to_numpy(dtype=np.int64)
    end = start + ops["dur_ns"].to_numpy(dtype=np.int64)
    thread = ops["thread"].to_numpy(dtype=np.int64)
    out: tuple[list[int], list[int], list[int]] = ([], [], [])
    for rows in per_thread(thread):
        mine = _Ops(start[rows], end[rows], *(found[codes[rows]] for found in flags.values()))
        for low, high in _cut(mine):
            out[0].append(int(thread[rows[0]]))
            out[1].append(low)
            out[2].append(high)
    return _spans(*out)


def _cut(ops: _Ops) -> list[tuple[int, int]]:
    """The steps of one thread."""
    attention = np.flatnonzero(ops.attention)
    edges = np.flatnonzero(ops.embedding | ops.sampling)
    if not len(attention) or not len(edges):
        return []
    # The attention ops of one step see the same number of edges before them.
    group = np.searchsorted(edges, attention)
    firsts = attention[np.concatenate(([True], np.diff(group) > 0))]
    starts = [
        _begin(ops, int(low), int(first))
        for low, first in zip([-1, *_last_before(attention, firsts)], firsts, strict=True)
    ]
    return list(zip(starts, [*starts[1:], int(ops.end.max()) + 1], strict=True))


def _last_before(attention: Ints, firsts: Ints) -> list[int]:
    """The last attention op before each step but the first."""
    at = np.searchsorted(attention, firsts[1:]) - 1
    return [int(row) for row in attention[at]]


def _begin(ops: _Ops, low: int, first: int) -> int:
    """Start of a step whose first attention op is row `first`; row `low` is the last of the step before."""
    between = np.arange(low + 1, first)
    embeddings = between[ops.embedding[between]]
    if len(embeddings):
        return int(ops.start[embeddings[0]])
    samplings = between[ops.sampling[between]]
    if len(samplings):
        return int(ops.end[samplings[-1]])
    return int(ops.start[0])


def _from_graphs(capture: Capture, ops: pd.DataFrame, kernels: pd.DataFrame) -> Spans:
    calls = capture.runtime_calls
    replay = calls[calls["name"].astype("str").str.contains(GRAPH_LAUNCH, regex=True).to_numpy(dtype=bool)]
    size = kernels.loc[kernels["from_graph"].fillna(value=False).astype(bool), "correlation"].value_counts()
    large = replay[replay["correlation"].map(size).fillna(0).to_numpy() >= LARGE_GRAPH]
    out: tuple[list[int], list[int], list[int]] = ([], [], [])
    for thread, rows in large.groupby("thread", observed=True):
        starts = np.sort(rows["ts_ns"].to_numpy(dtype=np.int64))
        before = ops.loc[ops["thread"] == thread, "ts_ns"].to_numpy(dtype=np.int64)
        starts[0] = min(int(starts[0]), int(before.min(initial=starts[0])))
        last = calls.loc[calls["thread"] == thread, "ts_ns"].to_numpy(dtype=np.int64).max() + 1
        out[0].extend([int(str(thread))] * len(starts))
        out[1].extend(starts.tolist())
        out[2].extend([*starts[1:].tolist(), int(last)])
    return _spans(*out)
