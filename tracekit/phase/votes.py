"""Evidence for the phase of a step that no text states; each rule is one function.

A rule returns votes: rows of (step, phase, confidence, word). `combine` weighs them: rules that agree
strengthen each other, rules that disagree weaken the winner and are counted as a conflict.
"""

from collections.abc import Iterable
from pathlib import PurePath

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.intervals import Ints
from tracekit.phase.attribute import Attribution
from tracekit.phase.grammar import Rule, read_name
from tracekit.phase.hosts import Flags, Spans, locate
from tracekit.phase.steps import Marks
from tracekit.tables import Kind, Phase
from tracekit.tables.columns import is_true
from tracekit.tables.text import is_word

SUREST = 0.95  # what is inferred is never as sure as what is written
CONFLICT = 0.6  # a losing phase at least this sure is a conflict
SMALL_HINT = 0.7  # hints weaker than this speak only where their kernels hold much of the step
SMALL_HINT_SHARE = 0.2
HINT_SHARE = 0.002
STRONG_HINT = 0.8  # hints at least this strong, for both phases, make a step mixed
FEW_TOKENS = 32  # a tile side above it serves prefills too: one of 888 tokens was seen to run 64
TILE_SHARE = 0.5  # of a step's matrix time: the head and the router have few rows in a prefill too
PRODUCTS = ("gemm", "gemm.quant", "gemv")  # not experts, whose tokens are few in a prefill too
WHOLE_REPLAYS, WHOLE_SHARE = 2, 0.8  # a decode replays one graph, or two, that hold nearly all of its kernels
PIECES = 4  # more replays than this are the pieces between eager attention
PAUSE_NS = 500_000  # an engine that waits for its scheduler; ops of one iteration follow within microseconds
VIEWS = ("aten::slice", "aten::select", "aten::view", "aten::as_strided")
Floats = npt.NDArray[np.float64]
VOTES = {"step": "int64", "phase": "object", "confidence": "float64", "word": "object"}


def no_votes() -> pd.DataFrame:
    """A table of votes without a row."""
    return pd.DataFrame({name: pd.Series([], dtype=kind) for name, kind in VOTES.items()})


def vote(steps: Iterable[int] | Ints, phase: Phase, sure: object, word: str) -> pd.DataFrame:
    """The same vote for several steps."""
    at = np.asarray(steps, dtype=np.int64)
    return pd.DataFrame(
        {
            "step": at,
            "phase": str(phase),
            "confidence": np.broadcast_to(np.asarray(sure, float), at.shape),
            "word": word,
        }
    )


def gather(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """All votes of several rules."""
    some = [part for part in parts if len(part)]
    return pd.concat(some, ignore_index=True) if some else no_votes()


def by_phase_frames(marks: Marks, steps: Spans) -> pd.DataFrame:
    """Python frames that only one phase runs; both kinds in one step make it mixed."""
    frames = marks.frames.kinds("phase_frame")
    at, _ = locate(steps, frames.thread, frames.start)
    said = pd.DataFrame(
        {
            "step": at,
            "phase": [str(frames.readings[slot].phase) for slot in frames.reading],
            "confidence": [frames.readings[slot].confidence for slot in frames.reading],
        }
    )
    best = said[said["step"] >= 0].groupby(["step", "phase"], as_index=False)["confidence"].max()
    both = best["step"].duplicated(keep=False)
    mixed = vote(best.loc[both, "step"].unique(), Phase.MIXED, 0.8, "python_frame")
    return gather([best[~both].assign(word="python_frame"), mixed])


def by_request_frames(marks: Marks, facts: pd.DataFrame, steps: Spans) -> pd.DataFrame:
    """Python frames called once for each request that joins the batch, is scheduled, or leaves it.

    New requests alone are a prefill, new ones among others a mixed step. None new is a decode, or the
    later chunk of a prefill: hence the lower confidence. Where nothing is called for a scheduled request,
    the rows of the head count them, else those that have joined and not left since the window opened.
    """
    frames = marks.frames.kinds("request")
    if not len(frames):
        return no_votes()
    at, _ = locate(steps, frames.thread, frames.start)
    role = np.array([frames.readings[slot].rule.row.text("request") for slot in frames.reading], dtype=object)
    new, done = _tally(at[role == "new"], len(steps)), _tally(at[role == "done"], len(steps))
    called = _tally(at[role == "any"], len(steps)).astype(float)
    rows = _of_steps(facts, "logits", steps, after=True)
    running = np.maximum(np.cumsum(new) - np.cumsum(done), new)
    scheduled = np.where(called > 0, called, np.where(np.isnan(rows), running, rows))
    return gather(
        [
            vote(np.flatnonzero((new > 0) & (scheduled > new)), Phase.MIXED, 0.85, "request_frames"),
            vote(np.flatnonzero((new > 0) & (scheduled <= new)), Phase.PREFILL, 0.85, "request_frames"),
            vote(np.flatnonzero((new == 0) & (scheduled > 0)), Phase.DECODE, 0.65, "request_frames"),
        ]
    )


def by_attention_lengths(facts: pd.DataFrame, steps: Spans) -> pd.DataFrame:
    """Query and key lengths of batched attention: one query token is decode, as many as keys is prefill."""
    known = facts[facts["query"].notna()]
    at, _ = locate(steps, known["thread"].to_numpy(np.int64), known["ts_ns"].to_numpy(np.int64))
    lengths = known.assign(step=at)[at >= 0].groupby("step")[["query", "key"]].median()
    query, key = lengths["query"], lengths["key"]
    return gather(
        [
            vote(lengths.index[(query == 1) & (key > 1)], Phase.DECODE, 0.9, "attention_shapes"),
            vote(lengths.index[(query > 1) & (query == key)], Phase.PREFILL, 0.85, "attention_shapes"),
            vote(lengths.index[(query > 1) & (query < key)], Phase.PREFILL, 0.6, "attention_shapes"),
        ]
    )


def by_token_rows(facts: pd.DataFrame, steps: Spans) -> pd.DataFrame:
    """Tokens in the layers against rows of the language-model head, one a request.

    As many tokens as rows is a decode; more tokens for one request is a prefill. With several requests
    the tokens sampled in the last step, which an asynchronous engine copies in, tell prefill from mixed; where
    none are copied, a step right after another is likely mixed, since a scheduler goes on with what runs.
    """
    tokens = _of_steps(facts, "tokens", steps)
    rows = _of_steps(facts, "logits", steps, after=True)
    carried = _carried(facts, steps)
    more, several = tokens > rows, rows > 1
    carrying = np.nan_to_num(carried) > 0
    open_ = more & several & ~carrying
    follows = _follows(facts, steps)
    votes = [
        (tokens == rows, Phase.DECODE, 0.9),
        (more & (rows == 1), Phase.PREFILL, 0.85),
        (more & several & carrying & (carried < rows), Phase.MIXED, 0.85),
        (more & several & carrying & (carried == rows), Phase.VERIFY, 0.5),
        (open_ & follows, Phase.MIXED, 0.65),
        (open_ & ~follows, Phase.PREFILL, 0.65),
        (np.isnan(tokens) & carrying & (carried == rows), Phase.DECODE, 0.75),
    ]
    return gather(vote(np.flatnonzero(at), phase, sure, "token_shapes") for at, phase, sure in votes)


def _follows(facts: pd.DataFrame, steps: Spans) -> Flags:
    """Steps that go on from another on their thread: the scheduler had not run out of requests.

    An engine that runs out makes one more iteration to drop the last request: a burst of views alone,
    apart from all other ops.
    """
    same = np.zeros(len(steps), dtype=bool)
    same[1:] = steps.thread[1:] == steps.thread[:-1]
    top = facts[facts["depth"] == 0]
    start, thread = top["ts_ns"].to_numpy(np.int64), top["thread"].to_numpy(np.int64)
    pause = np.diff(start, prepend=0) - np.roll(top["dur_ns"].to_numpy(np.int64), 1) >= PAUSE_NS
    fresh = pause | (np.diff(thread, prepend=-1) != 0)
    burst = np.cumsum(fresh)
    views = top["name"].isin(VIEWS).groupby(burst).all().to_numpy(dtype=bool)
    ends = start[fresh][views]
    known = facts[facts["tokens"].notna()]
    layer, at = (
        known["ts_ns"].to_numpy(np.int64),
        locate(steps, known["thread"].to_numpy(np.int64), known["ts_ns"].to_numpy(np.int64))[0],
    )
    after = np.searchsorted(layer, ends) if (np.diff(layer) >= 0).all() else np.full(len(ends), len(layer))
    drained = np.unique(at[after[after < len(layer)]])
    same[drained[drained >= 0]] = False
    return same


def _of_steps(facts: pd.DataFrame, name: str, steps: Spans, *, after: bool = False) -> Floats:
    """The largest value of a fact in each step, or also after it; NaN where it has none."""
    known = facts[facts[name].notna()]
    inside, before = locate(steps, known["thread"].to_numpy(np.int64), known["ts_ns"].to_numpy(np.int64))
    at = before if after else inside
    largest = known.assign(step=at)[at >= 0].groupby("step")[name].max()
    return largest.reindex(range(len(steps))).to_numpy(dtype=float)


def _carried(facts: pd.DataFrame, steps: Spans) -> Floats:
    """Tokens copied from the last step's samples: a column [n, 1] selected, then copied as [n]."""
    top = facts[(facts["depth"] == 0) & facts["name"].isin(["aten::select", "aten::copy_"])]
    follows = (
        (top["name"] == "aten::copy_")
        & (top["vector"] == top["column"].shift())
        & (top["thread"] == top["thread"].shift())
    )
    return _of_steps(top[follows], "vector", steps)


def by_graph_structure(
    kernels: pd.DataFrame, found: Attribution, steps: Spans, facts: pd.DataFrame
) -> pd.DataFrame:
    """One replay that holds nearly all kernels of a step is a decode; many replays around eager attention are not."""
    inside = found.how == "inside"
    work = inside & is_word(kernels, "kind", Kind.KERNEL)
    graph = work & is_true(kernels, "from_graph")
    total, replayed = _tally(found.step[work], len(steps)), _tally(found.step[graph], len(steps))
    replays = pd.Series(kernels["correlation"].to_numpy()[graph]).groupby(found.step[graph]).nunique()
    count = replays.reindex(range(len(steps)), fill_value=0).to_numpy()
    eager = ~np.isnan(_of_steps(facts, "tokens", steps))
    share = replayed / np.maximum(total, 1)
    whole = (count <= WHOLE_REPLAYS) & (count > 0) & (share >= WHOLE_SHARE) & ~eager
    pieces = (count > PIECES) & eager
    return gather(
        [
            vote(np.flatnonzero(whole), Phase.DECODE, 0.6, "one_graph_replay"),
            vote(np.flatnonzero(pieces), Phase.PREFILL, 0.4, "piecewise_replays"),
            vote(np.flatnonzero(pieces), Phase.MIXED, 0.3, "piecewise_replays"),
        ]
    )


def by_decisive_kernels(kernels: pd.DataFrame, found: Attribution) -> pd.DataFrame:
    """Kernels that only one phase runs, spread to their step; weak hints only where they hold much of its time."""
    hints = decisive_kernels(kernels, found.step)
    sure = hints.groupby(["step", "phase"], as_index=False)["confidence"].max()
    strong = sure[
        (sure["confidence"] >= STRONG_HINT) & sure["phase"].isin([str(Phase.PREFILL), str(Phase.DECODE)])
    ]
    both = strong["step"][strong["step"].duplicated()].unique()
    mixed = vote(both, Phase.MIXED, 0.75, "decisive_kernels")
    return gather([sure[~sure["step"].isin(both)].assign(word="decisive_kernels"), mixed])


def decisive_kernels(kernels: pd.DataFrame, step: Ints) -> pd.DataFrame:
    """Votes (step, phase, confidence) of the kernels whose names decide a phase."""
    time = kernels["dur_ns"].to_numpy(dtype=float)
    whole = np.bincount(step[step >= 0], time[step >= 0])
    hinted = np.flatnonzero((step >= 0) & kernels["phase_hint"].notna().to_numpy(dtype=bool))
    hints = pd.DataFrame(
        {
            "step": step[hinted],
            "phase": kernels["phase_hint"].iloc[hinted].astype(object).to_numpy(),
            "confidence": kernels["phase_hint_weight"].to_numpy(dtype=float)[hinted],
            "time": time[hinted],
            "whole": whole[step[hinted]],
        }
    )
    held = hints.groupby(["step", "phase", "confidence"], as_index=False).agg(
        time=("time", "sum"), whole=("whole", "first")
    )
    share = held["time"] / held["whole"].clip(lower=1.0)
    return held[share >= np.where(held["confidence"] < SMALL_HINT, SMALL_HINT_SHARE, HINT_SHARE)][
        ["step", "phase", "confidence"]
    ]


def by_gemm_tile(kernels: pd.DataFrame, found: Attribution) -> pd.DataFrame:
    """Matrix tiles made for few tokens, where they hold most of a step's matrix time.

    They say decode; a large tile says nothing, since a large batch of decodes runs it too. A small product of
    any other model runs small tiles as well, so the rule speaks only beside others: `corroborate`.
    """
    if "tile_tokens" not in kernels:
        return no_votes()
    product = (found.how == "inside") & is_word(kernels, "family", *PRODUCTS)
    time = kernels["dur_ns"].to_numpy(dtype=float)[product]
    small = kernels["tile_tokens"].to_numpy(dtype=float)[product] <= FEW_TOKENS
    held = pd.DataFrame({"all": time, "small": time * small}).groupby(found.step[product]).sum()
    return vote(held.index[held["small"] > TILE_SHARE * held["all"]], Phase.DECODE, 0.55, "gemm_tile")


def corroborate(votes: pd.DataFrame, weak: pd.DataFrame) -> pd.DataFrame:
    """The votes, and the weak ones for steps of which others say something."""
    return gather([votes, weak[weak["step"].isin(votes["step"])]])


def by_file_name(path: str, rules: tuple[Rule, ...], steps: Spans) -> pd.DataFrame:
    """The stage or the worker's role in the name of the file, whatever else it names."""
    reading = read_name(PurePath(path).name, [rule for rule in rules if rule.kind == "file" and rule.phase])
    if reading is None or reading.phase is None:
        return no_votes()
    return vote(np.arange(len(steps)), reading.phase, reading.confidence, "file_name")


def combine(votes: pd.DataFrame) -> pd.DataFrame:
    """The phase of each step that has votes.

    Different words for one phase are taken as independent: 1 - prod(1 - c), at most `SUREST`. The winner
    loses half of the second's confidence.

    Returns:
        phase, confidence, evidence (words joined by +) and conflict, by step.
    """
    if not len(votes):
        return pd.DataFrame(
            {"phase": [], "confidence": [], "evidence": [], "conflict": []}, index=pd.Index([], dtype="int64")
        )
    strongest = votes.sort_values("confidence", kind="stable").drop_duplicates(
        ["step", "phase", "word"], keep="last"
    )
    doubt = (1.0 - strongest["confidence"]).groupby([strongest["step"], strongest["phase"]]).prod()
    words = strongest.sort_values("word").groupby(["step", "phase"])["word"].agg("+".join)
    scored = pd.DataFrame({"confidence": (1.0 - doubt).clip(upper=SUREST), "evidence": words}).reset_index()
    ranked = scored.sort_values(["step", "confidence"], ascending=[True, False], kind="stable")
    second = ranked.groupby("step")["confidence"].shift(-1).fillna(0.0)
    first = ~ranked["step"].duplicated()
    top = ranked[first].assign(
        confidence=(ranked["confidence"] - second / 2)[first], conflict=(second >= CONFLICT)[first]
    )
    return top.set_index("step")[["phase", "confidence", "evidence", "conflict"]]


def _tally(steps: Ints, count: int) -> Ints:
    return np.bincount(steps[steps >= 0], minlength=count).astype(np.int64)
