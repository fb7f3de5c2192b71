"""Donors for graph replays: a capture that recorded the ops while the graph was captured.

A replayed kernel has a name and no op; a launch under capture has an op and no kernel. Both are in the order of
the graph's nodes, so where their numbers agree the k-th kernel of a replay is the k-th launch of the capture.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.intervals import innermost
from tracekit.tables import Capture, Kind, Linked, WorkSource
from tracekit.tables.columns import is_true
from tracekit.tables.text import is_word
from tracekit.work.attribute import INSTANCE, model_work
from tracekit.work.known import fill_work, unknown_work

Ints = npt.NDArray[np.int64]

# Kernels of one name should come from one op; below this share the two orders are not the same graph's.
MIN_AGREEMENT = 0.9
_LAUNCH = r"(?i)launch\w*kernel|kernel\w*launch"
_BEGIN = r"(?i)stream\w*begincapture"


@dataclass(frozen=True, slots=True)
class GraphDonor:
    """The launches that a capture recorded while it captured graphs.

    Attributes:
        ops: OP_TREE of the donor.
        signatures: SIGNATURES of the donor.
        graphs: For each captured graph, the row of OP_TREE of each kernel launch, -1 where there is none.
    """

    ops: pd.DataFrame
    signatures: pd.DataFrame
    graphs: tuple[Ints, ...]


def graph_donor(capture: Capture, linked: Linked) -> GraphDonor:
    """Find the kernel launches of a capture that ran no kernel: those were captured into a graph.

    Graphs are told apart by the calls that begin a stream's capture; where none was recorded, all are of one.
    """
    calls = capture.runtime_calls.sort_values("ts_ns", kind="stable")
    names = calls["name"].astype(object)
    ran = set(capture.device_events["correlation"].dropna())
    launches = names.str.contains(_LAUNCH, na=False) & ~calls["correlation"].isin(ran)
    graph = names.str.contains(_BEGIN, na=False).cumsum()[launches].to_numpy()
    chosen = calls[launches]
    rows = _op_at(
        linked.ops, chosen["thread"].to_numpy(dtype=np.int64), chosen["ts_ns"].to_numpy(dtype=np.int64)
    )
    graphs = tuple(rows[graph == number] for number in np.unique(graph))
    return GraphDonor(linked.ops, capture.signatures, graphs)


def _op_at(ops: pd.DataFrame, threads: Ints, times: Ints) -> Ints:
    """Row of the innermost op on a thread at an instant; -1 where there is none."""
    found = np.full(len(times), -1, dtype=np.int64)
    if ops.empty:
        return found
    owner = ops["thread"].to_numpy(dtype=np.int64)
    starts = ops["ts_ns"].to_numpy(dtype=np.int64)
    ends = starts + ops["dur_ns"].to_numpy(dtype=np.int64)
    parent = ops["parent"].to_numpy(dtype=np.int64)
    for thread in np.unique(threads):
        asked = np.flatnonzero(threads == thread)
        rows = np.flatnonzero(owner == thread)
        if not len(rows):
            continue
        first = rows[0]
        local = np.where(parent[rows] >= 0, parent[rows] - first, -1)
        at = innermost(starts[rows], ends[rows], local, times[asked])
        found[asked] = np.where(at >= 0, at + first, -1)
    return found


def lend_to_replays(
    kernels: pd.DataFrame, donors: Sequence[GraphDonor], steps: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Fill the unknown work of replayed kernels from the ops under which their graph was captured.

    A replay takes the captured graph that has as many kernels, in which kernels of one name come from one op.
    Where several fit (one graph a batch size), the smallest that holds the step's tokens is taken; where the
    tokens are not known and the graphs differ, none is.

    Args:
        kernels: The output of `model_work`, with `from_graph`, `correlation` and `node_order`.
        donors: Captures of graphs.
        steps: STEPS, for tokens and for sums that complete attention.

    Returns:
        The kernels; what was filled has source `donor`, or `annotation` where step sums completed it.
    """
    replayed = unknown_work(kernels) & is_true(kernels, "from_graph")
    replayed &= is_word(kernels, "kind", Kind.KERNEL)
    if not replayed.any():
        return kernels
    rows = np.flatnonzero(replayed)
    nodes = kernels.iloc[rows][["correlation", "node_order"]].astype("float64").assign(row=rows)
    nodes = nodes.sort_values(["correlation", "node_order"], kind="stable")
    tokens = _tokens(kernels, steps)
    chosen: dict[int, list[tuple[Ints, Ints]]] = {}
    for _correlation, group in nodes.groupby("correlation", sort=False):
        replay = group["row"].to_numpy(dtype=np.int64)
        fit = _fitting(kernels, replay, donors, tokens[replay[0]])
        if fit is not None:
            chosen.setdefault(fit[0], []).append((replay, fit[1]))
    for number, pairs in chosen.items():
        kernels = _modelled(kernels, donors[number], pairs, steps)
    return kernels


def _fitting(
    kernels: pd.DataFrame, replay: Ints, donors: Sequence[GraphDonor], tokens: float
) -> tuple[int, Ints] | None:
    names = kernels["name"].cat.codes.to_numpy()[replay]
    fits = [
        (number, graph)
        for number, donor in enumerate(donors)
        for graph in donor.graphs
        if len(graph) == len(replay)
        and _agreement(names, donor.ops["name"].cat.codes.to_numpy(), graph) >= MIN_AGREEMENT
    ]
    if len(fits) <= 1:
        return fits[0] if fits else None
    sized = sorted(
        ((_rows(donors[number], graph), number, graph) for number, graph in fits), key=lambda fit: fit[:2]
    )
    if np.isnan(tokens):
        return sized[0][1:] if sized[0][0] == sized[-1][0] else None
    return next(((number, graph) for size, number, graph in sized if size >= tokens), None)


def _agreement(names: npt.NDArray[np.integer], op_codes: npt.NDArray[np.integer], graph: Ints) -> float:
    """Share of kernels that come from the op that most kernels of their name come from."""
    ops = np.where(graph >= 0, op_codes[graph], -1)
    counts = pd.Series(ops).groupby([names, ops]).size()
    return float(counts.groupby(level=0).max().sum() / len(graph))


def _rows(donor: GraphDonor, graph: Ints) -> int:
    """Tokens that a captured graph holds: the commonest first size among its ops' first tensors; 0 where none is recorded."""
    rows = donor.ops["signature"].to_numpy(dtype=np.int64)[graph[graph >= 0]]
    dims = donor.signatures["dims"].astype(object).iloc[rows]
    first = dims.str.extract(r"^\s*\[\s*\[\s*(\d{1,9})", expand=False).dropna()
    return int(first.mode().iloc[0]) if len(first) else 0


def _tokens(kernels: pd.DataFrame, steps: pd.DataFrame | None) -> npt.NDArray[np.float64]:
    """Query tokens of each kernel's step; NaN where they are not known."""
    unknown = np.full(len(kernels), np.nan)
    if steps is None or "step_id" not in kernels or "sum_q" not in steps or not len(steps):
        return unknown
    by_step = steps.drop_duplicates("step_id").set_index("step_id")
    counted = by_step["sum_q"].astype("float64")
    if {"context_tokens", "generation_tokens"} <= set(by_step):
        whole = by_step[["context_tokens", "generation_tokens"]].astype("float64").sum(axis=1, min_count=1)
        counted = counted.fillna(whole)
    return np.asarray(counted.reindex(kernels["step_id"].astype("float64")), dtype=np.float64)


def _modelled(
    kernels: pd.DataFrame, donor: GraphDonor, pairs: list[tuple[Ints, Ints]], steps: pd.DataFrame | None
) -> pd.DataFrame:
    """The kernels with the work that the donor's ops give, each replay an instance of its own."""
    rows = np.concatenate([replay for replay, _graph in pairs])
    ops = np.concatenate([graph for _replay, graph in pairs])
    instance = np.repeat(np.arange(len(pairs)), [len(replay) for replay, _graph in pairs])
    order = np.argsort(rows)
    lent = kernels.iloc[rows[order]].assign(
        op_row=pd.arrays.IntegerArray(ops[order], ops[order] < 0), **{INSTANCE: instance[order]}
    )
    work = model_work(lent, donor.ops, donor.signatures, steps, source=WorkSource.DONOR)
    mask = np.zeros(len(kernels), dtype=np.bool_)
    mask[rows] = True
    return fill_work(kernels, mask, work)
