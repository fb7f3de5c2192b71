"""The order of the evidence: what is written, then what is inferred, then unknown."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit.phase import votes
from tracekit.phase.attribute import Attribution, attribute, device_order, launches
from tracekit.phase.contrast import by_contrast
from tracekit.phase.hosts import Flags, Spans, clear_of, join, locate
from tracekit.phase.shapes import op_facts
from tracekit.phase.steps import Marks, describe, host_steps
from tracekit.phase.structure import device_steps, is_language_model, is_serving, structural_steps
from tracekit.tables import Capture, Linked, Phase, QualityNote

LIKELY = 0.4  # below it a label is a coin toss between phases and stays unknown
DECISIVE = 0.85  # a hint this strong contradicts what an engine says of its step
STATED = ("counts", "mode", "span", "boundary", "frame")


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Steps whose text kernels contradict, and steps whose evidence names two phases."""

    stated: Flags
    inferred: Flags


@dataclass(frozen=True, slots=True)
class Resolved:
    """Steps of a capture, each with a phase, and the step of each kernel.

    Attributes:
        steps: Host ranges, disjoint on each thread.
        table: One row a step: annotation, engine, phase, confidence, evidence, flags, counts.
        found: The step of each kernel.
        training: Kernels of backward or optimizer work, or of a capture that trains.
        origin: `annotation`, or how the steps were found instead; empty where there are none.
        quality: What disagreed.
    """

    steps: Spans
    table: pd.DataFrame
    found: Attribution
    training: Flags
    origin: str
    quality: tuple[QualityNote, ...]


def resolve(kernels: pd.DataFrame, capture: Capture, linked: Linked, marks: Marks) -> Resolved:
    """Find the steps and the phase of each."""
    launched = launches(kernels)
    steps = host_steps(marks)
    origin = "annotation" if any(steps.readings[slot].kind in STATED for slot in steps.reading) else ""
    trains = bool(len(marks.training))
    if not origin and not trains and is_language_model(capture, kernels):
        if launched.known.any():
            more, marked_by = structural_steps(capture, linked, kernels)
            more = clear_of(more, steps)
        else:
            launched = device_order(kernels)
            more, marked_by = device_steps(kernels, launched.thread), "kernel_sequence"
        steps, origin = (join([steps, more]), marked_by) if len(more) else (steps, origin)
    found = attribute(kernels, launched, steps)
    table = describe(steps, marks)
    table, conflicts = _fill(table, kernels, capture, linked, marks, steps, found)
    at, _ = locate(marks.training, launched.thread, launched.time)
    training = at >= 0
    if trains and not origin:
        training = training | (found.step < 0)
    return Resolved(steps, table, found, training, origin, _conflict_notes(conflicts))


def _fill(
    table: pd.DataFrame,
    kernels: pd.DataFrame,
    capture: Capture,
    linked: Linked,
    marks: Marks,
    steps: Spans,
    found: Attribution,
) -> tuple[pd.DataFrame, Conflicts]:
    """Give the steps without a stated phase the one that the evidence names."""
    stated = table["phase"].notna().to_numpy(dtype=bool)
    odd = _contradicted(table, kernels, found)
    table = table.assign(flags=add_flag(table["flags"], odd, "kernel_conflict"))
    if stated.all():
        return table, Conflicts(odd, np.zeros(len(table), dtype=bool))
    facts = op_facts(capture, linked)
    cast = votes.gather(
        [
            votes.by_phase_frames(marks, steps),
            votes.by_request_frames(marks, facts, steps),
            votes.by_attention_lengths(facts, steps),
            votes.by_token_rows(facts, steps),
            votes.by_graph_structure(kernels, found, steps, facts),
            votes.by_decisive_kernels(kernels, found),
            by_contrast(kernels, facts, found, steps, serving=is_serving(linked.ops)),
            votes.by_file_name(capture.info.path, marks.rules, steps),
        ]
    )
    cast = votes.corroborate(cast, votes.by_gemm_tile(kernels, found))
    won = votes.combine(cast[~stated[cast["step"].to_numpy(dtype=np.int64)]])
    won = won[won["confidence"] >= LIKELY].reindex(table.index)
    split = won["conflict"].eq(other=True).to_numpy(dtype=bool)
    table = table.assign(
        phase=table["phase"].where(stated, won["phase"].where(won["phase"].notna(), str(Phase.UNKNOWN))),
        confidence=table["confidence"].where(stated, won["confidence"].fillna(0.0)).astype(float),
        evidence=table["evidence"].where(stated, won["evidence"].where(won["phase"].notna(), "none")),
        flags=add_flag(table["flags"], split, "evidence_conflict"),
    )
    return table, Conflicts(odd, split)


def _contradicted(table: pd.DataFrame, kernels: pd.DataFrame, found: Attribution) -> Flags:
    """Steps stated to be a prefill that ran decode's own kernels, or the reverse."""
    hints = votes.decisive_kernels(kernels, np.where(found.how == "inside", found.step, -1))
    strong = hints[hints["confidence"] >= DECISIVE]
    phase = table["phase"].reindex(strong["step"]).to_numpy(dtype=object)
    opposite = {str(Phase.PREFILL): str(Phase.DECODE), str(Phase.DECODE): str(Phase.PREFILL)}
    against = strong["step"][strong["phase"].map(opposite).to_numpy(dtype=object) == phase]
    return np.isin(table.index, against.unique())


def add_flag(flags: pd.Series, at: Flags, word: str) -> pd.Series:
    """The comma-separated flags with a word added to some rows."""
    added = flags.where(flags == "", flags + ",") + word
    return flags.where(~at, added)


def _conflict_notes(conflicts: Conflicts) -> tuple[QualityNote, ...]:
    notes = []
    if conflicts.stated.any():
        text = "steps ran kernels that only the opposite phase is known to run; the engine's text was kept"
        notes.append(QualityNote("phase_conflict", int(conflicts.stated.sum()), text))
    if conflicts.inferred.any():
        text = "steps have evidence for two phases; the stronger one was taken, with less confidence"
        notes.append(QualityNote("phase_evidence_split", int(conflicts.inferred.sum()), text))
    return tuple(notes)
