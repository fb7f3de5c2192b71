"""The phase stage: from linked kernels to steps, and to a phase for each kernel."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tracekit.intervals import Ints
from tracekit.phase.apportion import COLUMN, apportion, context_shares
from tracekit.phase.attribute import (
    HOW,
    OTHER_THREAD_CONFIDENCE,
    POST_STEP_CONFIDENCE,
    STREAM_ORDER_CONFIDENCE,
    launches,
)
from tracekit.phase.engine import how_to_record, recognise
from tracekit.phase.grammar import ASSUMED, COUNTS, rules
from tracekit.phase.hosts import Flags, locate
from tracekit.phase.resolve import Resolved, add_flag, resolve
from tracekit.phase.steps import Marks, inner_spans, read_marks
from tracekit.phase.sums import SIDES, complete, request_sums, to_integers
from tracekit.phase.windows import cut_off, graph_launches, windows
from tracekit.tables import STEPS, Capture, Linked, Phase, QualityNote
from tracekit.tables.text import numbered, with_flag

_NUMBER: dict[str, int] = {phase: number for number, phase in enumerate(Phase)}
TRAINING_CONFIDENCE = 0.95
TRIED = "step annotations, engine spans, Python frames, attention and sampling ops, graph replays"
CEILING = {
    "post_step": POST_STEP_CONFIDENCE,
    "other_thread": OTHER_THREAD_CONFIDENCE,
    "stream_order": STREAM_ORDER_CONFIDENCE,
}
FILLED = tuple(
    name
    for name in STEPS.names
    if name not in {"flops", "dram_bytes", "weight_bytes", "kv_bytes", "mfu", "mbu"}
)


@dataclass(frozen=True, slots=True)
class Phased:
    """The output of the phase stage.

    Attributes:
        kernels: The kernels given, with step_id, phase, phase_confidence, phase_evidence, flags, and the internal
            column context_share: the prefill's part of a kernel in a mixed step.
        steps: STEPS, as far as this stage can know it: work and rates are null.
        quality: What could not be told, and where evidence disagreed.
    """

    kernels: pd.DataFrame
    steps: pd.DataFrame
    quality: tuple[QualityNote, ...] = ()


def label(kernels: pd.DataFrame, capture: Capture, linked: Linked, extra: tuple[Path, ...] = ()) -> Phased:
    """Find the engine steps of one capture and give each kernel the phase of the step that launched it.

    Args:
        kernels: LINKED rows with the taxonomy's columns `family`, `phase_hint`, `phase_hint_weight`.
        capture: The capture they come from.
        linked: Its link result, for the ops.
        extra: Folders given with `--data`.

    Raises:
        RegistryError: A row of `data/engines` is malformed.
        TableError: The steps found break the contract of STEPS.
    """
    known = rules(extra)
    marks = read_marks(capture, known)
    engine = recognise(capture, kernels, known)
    resolved = resolve(kernels, capture, linked, marks)
    order = np.argsort(resolved.steps.start, kind="stable")
    steps = _steps_table(kernels, capture, resolved, engine)
    labelled = _label_kernels(kernels, marks, resolved, np.argsort(order))
    labelled[COLUMN] = apportion(
        labelled, resolved.found.step, context_shares(complete(resolved.table[list(COUNTS)]))
    )
    steps = steps.iloc[order].reset_index(drop=True).assign(step_id=np.arange(len(order), dtype=np.int64))
    notes = (
        *resolved.quality,
        *_notes(labelled, resolved, how_to_record(known, engine, capture.info.format)),
    )
    return Phased(labelled, STEPS.check(STEPS.conform(steps), FILLED), notes)


def _steps_table(
    kernels: pd.DataFrame, capture: Capture, resolved: Resolved, engine: str | None
) -> pd.DataFrame:
    table, steps = resolved.table, resolved.steps
    window = windows(kernels, resolved.found, steps)
    counts = complete(table[list(COUNTS)])
    idle = (window["n_kernels"] == 0) & (table["phase"] == str(Phase.UNKNOWN))
    whole = pd.concat([table.drop(columns=list(COUNTS)), window, request_sums(counts)], axis=1).assign(
        step_id=np.arange(len(steps), dtype=np.int64),
        rank=pd.array([capture.info.rank] * len(steps), dtype="Int32"),
        engine=table["engine"] if engine is None else engine,
        phase=table["phase"].where(~idle, str(Phase.OTHER)),
        flags=_step_flags(table["flags"], window, cut_off(capture, steps)),
        n_graph_launches=graph_launches(capture, steps),
    )
    for side in SIDES:
        for what in ("requests", "tokens"):
            whole[f"{side}_{what}"] = to_integers(counts[f"{side}_{what}"])
    return whole


def _step_flags(flags: pd.Series, window: pd.DataFrame, partial: Flags) -> pd.Series:
    bare = ((window["n_kernels"] == 0) & ~flags.str.contains("empty")).to_numpy(dtype=bool)
    full = add_flag(add_flag(flags, bare, "no_kernels"), partial & ~bare, "partial")
    return full.where(full != "", None)


class _Labels:
    """Phase, confidence and evidence of each kernel while they are told; words are numbers of the few that there are."""

    def __init__(self, rows: int) -> None:
        self.phase = np.full(rows, _NUMBER[Phase.UNKNOWN])
        self.sure = np.zeros(rows)
        self.word = np.zeros(rows, np.int64)
        self.texts: list[str | None] = ["none"]

    def put(self, rows: Flags, at: Ints, of: Iterable[tuple[str, float, str | None]]) -> None:
        """Give rows their place's phase, confidence and evidence among some."""
        phases, sures, words = zip(*of, strict=True) if rows.any() else ((), (), ())
        self.phase[rows] = np.array([_NUMBER[phase] for phase in phases], np.int64)[at]
        self.sure[rows] = np.array(sures, np.float64)[at]
        self.say(rows, at, words)

    def say(self, rows: Flags, at: Ints, words: Sequence[str | None]) -> None:
        """Give rows their place's evidence among some."""
        self.word[rows] = at + len(self.texts)
        self.texts += words


def _label_kernels(kernels: pd.DataFrame, marks: Marks, resolved: Resolved, rank: Ints) -> pd.DataFrame:
    """The kernels with step, phase, confidence, evidence and flags."""
    found, table = resolved.found, resolved.table
    has = found.step >= 0
    labels = _Labels(len(kernels))
    labels.put(has, found.step[has], zip(table["phase"], table["confidence"], table["evidence"], strict=True))
    ceiling = np.array([*(CEILING.get(how, 1.0) for how in HOW), 1.0])
    labels.sure = np.minimum(labels.sure, ceiling[found.how.codes])
    indirect = has & (found.how != "inside") & (labels.phase != _NUMBER[Phase.UNKNOWN])
    labels.say(indirect, found.how.codes[indirect].astype(np.int64), HOW)
    _apply_inner(labels, kernels, marks, resolved)
    trained = resolved.training
    first = np.zeros(int(trained.sum()), np.int64)
    labels.put(trained, first, [(Phase.OTHER, TRAINING_CONFIDENCE, "training")])
    early = found.before_window & ~trained
    labels.say(early, np.zeros(int(early.sum()), np.int64), ["before_window"])
    return kernels.assign(
        step_id=pd.arrays.IntegerArray(
            np.where(has, rank[found.step] if len(rank) else -1, 0).astype(np.int64), ~has
        ),
        phase=pd.Categorical.from_codes(labels.phase, pd.Index([str(each) for each in Phase])),
        phase_confidence=labels.sure,
        phase_evidence=numbered(labels.word, labels.texts),
        flags=with_flag(kernels["flags"], found.before_window, "before_window"),
    )


def _apply_inner(labels: _Labels, kernels: pd.DataFrame, marks: Marks, resolved: Resolved) -> None:
    """Overwrite the labels of kernels launched inside a draft or verification of a step."""
    spans = inner_spans(marks, resolved.steps)
    launched = launches(kernels)
    at, _ = locate(spans, launched.thread, launched.time)
    hit = (at >= 0) & (resolved.found.how == "inside")
    said = ((str(one.phase or Phase.UNKNOWN), one.confidence, one.rule.evidence) for one in spans.readings)
    labels.put(hit, spans.reading[at[hit]], said)


def _notes(kernels: pd.DataFrame, resolved: Resolved, hint: str) -> list[QualityNote]:
    notes = []
    table = resolved.table
    to_record = f"To record with annotations: {hint}"
    if not (len(table) or resolved.training.any()):
        notes.append(QualityNote("no_steps", 0, f"0 steps found; tried {TRIED}. {to_record}"))
    elif resolved.origin not in {"", "annotation"}:
        text = f"steps carry no annotation: they were found from {resolved.origin}. {to_record}"
        notes.append(QualityNote("steps_inferred", len(table), text))
    nameless = int((table["phase"] == str(Phase.UNKNOWN)).sum())
    if nameless:
        notes.append(
            QualityNote(
                "step_phase_unknown", nameless, f"steps have no phase that anything tells. {to_record}"
            )
        )
    assumed = int(table["flags"].str.contains(ASSUMED).sum())
    if assumed:
        text = "steps do not say how many tokens their generating requests have: one each is assumed, which speculative decoding exceeds"
        notes.append(QualityNote("tokens_assumed", assumed, text))
    unknown = (kernels["phase"] == str(Phase.UNKNOWN)).to_numpy(dtype=bool)
    for code, rows, text in (
        (
            "before_window",
            resolved.found.before_window,
            "kernels were launched before the window: their phase is unknown",
        ),
        ("phase_unknown", unknown & ~resolved.found.before_window, "kernels have no phase: nothing tells it"),
    ):
        if rows.any():
            notes.append(QualityNote(code, int(rows.sum()), text, int(kernels.loc[rows, "dur_ns"].sum())))
    if resolved.training.any():
        time = int(kernels.loc[resolved.training, "dur_ns"].sum())
        notes.append(
            QualityNote(
                "training",
                int(resolved.training.sum()),
                "kernels of training work have the phase other",
                time,
            )
        )
    return notes
