"""Steps on the host: which ranges are one engine iteration each, and what their texts say."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit.phase.grammar import COUNTS, EVIDENCE, FRAME_KINDS, Reading, Rule
from tracekit.phase.hosts import Spans, clear_of, join, locate, match_ranges, outermost
from tracekit.tables import Capture, Phase

# Ranges of an earlier tier win: a later one that overlaps them on its thread is no step.
TIERS: tuple[tuple[str, ...], ...] = (
    ("setup",),
    ("counts", "mode"),
    ("span",),
    ("setup_frame",),
    ("boundary",),
    ("frame",),
)


@dataclass(frozen=True, slots=True)
class Marks:
    """Everything in a capture that a rule of `data/engines` matched.

    Attributes:
        annotations: Annotations that mark steps, scopes inside them, set-up or training.
        frames: Python frames.
        training: Backward and optimizer work, from annotations and ops.
        rules: The rules in force.
    """

    annotations: Spans
    frames: Spans
    training: Spans
    rules: tuple[Rule, ...]


def read_marks(capture: Capture, rules: tuple[Rule, ...]) -> Marks:
    """Match the names of a capture's annotations, frames and ops."""
    said = {"counts", "mode", "span", "boundary", "inner", "setup", "training"}
    annotations = match_ranges(capture.annotations, [rule for rule in rules if rule.kind in said])
    frames = match_ranges(capture.frames, [rule for rule in rules if rule.kind in FRAME_KINDS])
    ops = match_ranges(capture.ops, [rule for rule in rules if rule.kind == "training"])
    training = outermost(join([annotations.kinds("training"), ops]))
    return Marks(annotations, frames, training, rules)


def host_steps(marks: Marks) -> Spans:
    """One range a step, disjoint on each thread: the outermost annotation, else span, else frame."""
    everything = join([marks.annotations, marks.frames])
    taken = everything.where(np.zeros(len(everything), dtype=bool))
    for kinds in TIERS:
        taken = taken.plus(clear_of(outermost(everything.kinds(*kinds)), taken))
    return taken


def inner_spans(marks: Marks, steps: Spans) -> Spans:
    """Ranges inside a step that have a phase of their own: drafts, and the verification of drafts."""
    own = {Phase.VERIFY, Phase.DRAFT}
    spans = marks.annotations.of(lambda reading: reading.phase in own)
    at, _ = locate(steps, spans.thread, spans.start)
    same = (at >= 0) & (steps.start[at] == spans.start) & (steps.end[at] == spans.end)
    return outermost(spans.where(~same))


def describe(steps: Spans, marks: Marks) -> pd.DataFrame:
    """What the texts of each step say.

    Annotations nested in a step complete its counts; the outermost text wins where both speak, except
    that a step which holds a verification is one.

    Returns:
        One row a step: annotation, engine, phase, confidence, evidence, flags, and `COUNTS` (null where unknown).
    """
    readings = [steps.readings[at] for at in steps.reading]
    table = pd.DataFrame(
        {
            "annotation": [_text(reading, name) for reading, name in zip(readings, steps.name, strict=True)],
            "engine": [reading.rule.engine for reading in readings],
            "phase": [None if reading.phase is None else str(reading.phase) for reading in readings],
            "confidence": [0.0 if reading.phase is None else reading.confidence for reading in readings],
            "evidence": [_evidence(reading) for reading in readings],
            "flags": [",".join(reading.flags) for reading in readings],
        },
        dtype=object,
    )
    counts = _counts(readings)
    nested = marks.annotations.kinds("counts", "mode")
    at, _ = locate(steps, nested.thread, nested.start)
    nested, at = nested.where(at >= 0), at[at >= 0]
    inner = _counts([nested.readings[slot] for slot in nested.reading]).groupby(at).first()
    counts = counts.fillna(inner.reindex(counts.index)) if len(inner) else counts
    verifying = np.array([nested.readings[slot].phase is Phase.VERIFY for slot in nested.reading], dtype=bool)
    holds = np.isin(np.arange(len(table)), at[verifying]) & (table["phase"] == str(Phase.DECODE)).to_numpy(
        dtype=bool
    )
    table["phase"] = table["phase"].where(~holds, str(Phase.VERIFY))
    return pd.concat([table, counts], axis=1)


def _counts(readings: list[Reading]) -> pd.DataFrame:
    known = {name: [reading.counts.get(name, np.nan) for reading in readings] for name in COUNTS}
    return pd.DataFrame(known, index=pd.RangeIndex(len(readings)), dtype="float64")


def _text(reading: Reading, name: str) -> str | None:
    return None if reading.kind in FRAME_KINDS or not name else name


def _evidence(reading: Reading) -> str:
    return "" if reading.phase is None else reading.rule.evidence or EVIDENCE[reading.kind]
