"""Evidence from comparing the steps of one capture: they run the same layers, so what differs is the batch.

One long step alone says nothing. Where the matrix products of some steps take several times as long as
those of the others, which are as many, a prompt was read in the former and one token written in the latter;
kernels that only one of the two groups runs, and long steps each followed by several short ones, confirm it.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.intervals import Ints
from tracekit.phase.attribute import Attribution
from tracekit.phase.hosts import Flags, Spans, locate
from tracekit.phase.votes import gather, no_votes, vote
from tracekit.tables import Phase
from tracekit.tables.text import where

MATRIX = ("gemm", "gemv", "moe.gemm")
RATIO = 4.0  # prefill's products over decode's: weights are read once in both, so a short prompt shows no contrast
FEWEST_SHORT = 3
ALIKE = 2.0  # steps of one layer stack have the same number of products, within this factor
SAME_WEIGHTS = 0.5  # of the short steps' products: two models that take turns share few
OWN_SHARE = 0.05  # a group has kernels of its own where they hold this share of its time
SURE = {"duration_contrast": 0.5, "kernel_contrast": 0.35, "step_order": 0.25}
MIXED = 0.35  # a serving engine's long step may hold decodes too

Floats = npt.NDArray[np.float64]


def by_contrast(
    kernels: pd.DataFrame, facts: pd.DataFrame, found: Attribution, steps: Spans, *, serving: bool
) -> pd.DataFrame:
    """Votes for the long and the short steps of a capture, where they fall into two groups of one layer stack.

    Args:
        kernels: The kernels, with `family`.
        facts: As `shapes.op_facts` gives them.
        found: The step of each kernel.
        steps: The steps.
        serving: Whether a serving engine ran them, which mixes prefill and decode in one step.
    """
    count = len(steps)
    inside = found.how == "inside"
    matrix = inside & where(kernels["family"], lambda family: family.startswith(MATRIX))
    step = found.step[matrix]
    time = np.bincount(step, kernels["dur_ns"].to_numpy(dtype=float)[matrix], count).astype(np.float64)
    number = np.bincount(step, minlength=count)
    long, short = _groups(time, number)
    if not (long.any() and short.any() and _one_stack(facts, steps, long, short)):
        return no_votes()
    words = ["duration_contrast"]
    if _own_kernels(kernels, np.where(inside, found.step, -1), long, short):
        words.append("kernel_contrast")
    if _ordered(long, short):
        words.append("step_order")
    votes = [vote(np.flatnonzero(long), Phase.PREFILL, SURE[word], word) for word in words]
    votes += [vote(np.flatnonzero(short), Phase.DECODE, SURE[word], word) for word in words]
    if serving:
        votes.append(vote(np.flatnonzero(long), Phase.MIXED, MIXED, "duration_contrast"))
    return gather(votes)


def _groups(time: Floats, number: Ints) -> tuple[Flags, Flags]:
    """Steps above and below the widest gap of their matrix time, where the gap is wide and the stack the same."""
    none = np.zeros(len(time), dtype=bool)
    busy = time > 0
    if busy.sum() <= FEWEST_SHORT:
        return none, none
    usual = np.median(number[busy])
    alike = busy & (number <= usual * ALIKE) & (number * ALIKE >= usual)
    ordered = np.sort(time[alike])
    if len(ordered) <= FEWEST_SHORT:
        return none, none
    jumps = ordered[1:] / ordered[:-1]
    at = int(np.argmax(jumps))
    long, short = alike & (time > ordered[at]), alike & (time <= ordered[at])
    if short.sum() < FEWEST_SHORT or not long.any():
        return none, none
    return (long, short) if np.median(time[long]) >= RATIO * np.median(time[short]) else (none, none)


def _one_stack(facts: pd.DataFrame, steps: Spans, long: Flags, short: Flags) -> bool:
    """Whether the long steps multiply by the weights of the short ones too, as far as recorded shapes tell.

    They may have more of their own: the prompt of a model that sees passes through a vision tower first.
    """
    known = facts[facts["weight"].notna()]
    thread, start = (known[name].to_numpy(dtype=np.int64) for name in ("thread", "ts_ns"))
    at, _ = locate(steps, thread, start)
    weight = known["weight"].to_numpy(dtype=np.float64)
    of_long, of_short = (weight[(at >= 0) & group[at]] for group in (long, short))
    shared = np.isin(of_short, of_long).sum()
    return not len(of_long) or bool(shared >= SAME_WEIGHTS * len(of_short))


def _own_kernels(kernels: pd.DataFrame, step: Ints, long: Flags, short: Flags) -> bool:
    """Whether kernels that only one group runs hold much of that group's time."""
    kept = np.flatnonzero(step >= 0)
    group = np.where(long[step[kept]], 1, np.where(short[step[kept]], 0, -1))
    rows = pd.DataFrame(
        {
            "name": kernels["name"].astype("category").cat.codes.to_numpy()[kept],
            "group": group,
            "time": kernels["dur_ns"].to_numpy(dtype=float)[kept],
        }
    )
    spent = rows[rows["group"] >= 0].pivot_table(
        index="name", columns="group", values="time", aggfunc="sum", fill_value=0.0
    )
    both = spent.reindex(columns=[0, 1], fill_value=0.0)
    own = both[(both > 0).sum(axis=1) == 1].sum()
    return bool((own >= OWN_SHARE * both.sum()).any())


def _ordered(long: Flags, short: Flags) -> bool:
    """Whether every long step is followed by at least as many short ones as make a group."""
    ends = np.append(np.flatnonzero(long), len(long))
    runs = np.array([short[low + 1 : high].sum() for low, high in pairwise(ends.tolist())])
    return bool((runs >= FEWEST_SHORT).all())
