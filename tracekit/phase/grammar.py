"""What engines write into traces: rows of `data/engines`, compiled and applied to distinct names.

Every row has `key`, `kind`, `pattern`, `example` and `source`; the other fields depend on its kind:

- `counts`: an annotation of one step; groups named like `COUNTS` are its counts, the phase follows from them.
  `assume` maps a count that the text lacks to the one that it is taken to equal.
- `mode`: an annotation of one step that names its mode; `modes` maps modes to phases, `detail` and `details`
  read a suffix of key=value counts.
- `span`: an annotation of one step whose text alone is the phase.
- `boundary`, `frame`: an annotation, a Python frame, around one step; the phase is found from what is inside.
- `scope`: an annotation beside steps that states no phase; it names its engine where nothing stronger does.
- `inner`: an annotation inside a step with a phase of its own (draft, verify).
- `phase_frame`, `request`: Python frames inside a step that tell its phase, or count its requests.
- `after`: a Python frame outside its step that belongs to it (sampling).
- `setup`, `setup_frame`: warm-up and graph capture. `training`: backward and optimizer work.
- `file`: a file name; may name rank and phase. `engine`: how an engine is recognised, and how it is recorded.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tracekit.errors import RegistryError
from tracekit.registry import Row, rows
from tracekit.tables import Phase
from tracekit.tables.wanted import WantedFrames

COUNTS = (
    "context_requests",
    "context_tokens",
    "context_sk",
    "context_sqsq",
    "context_sqsk",
    "generation_requests",
    "generation_tokens",
    "generation_sk",
    "generation_sqsq",
    "generation_sqsk",
)
KINDS = frozenset(
    [
        "counts",
        "mode",
        "span",
        "boundary",
        "frame",
        "inner",
        "scope",
        "phase_frame",
        "request",
        "after",
        "setup",
        "setup_frame",
        "training",
        "file",
        "engine",
    ]
)
FRAME_KINDS = frozenset({"frame", "phase_frame", "request", "after", "setup_frame"})
CONFIDENCE = {
    "counts": 0.99,
    "mode": 0.97,
    "setup": 0.95,
    "setup_frame": 0.95,
    "training": 0.95,
    "inner": 0.9,
}
EVIDENCE = {
    "counts": "annotation_counts",
    "mode": "annotation_mode",
    "span": "engine_span",
    "inner": "inner_span",
    "phase_frame": "python_frame",
    "setup": "setup",
    "setup_frame": "setup",
    "training": "training",
    "file": "file_name",
}
LONGEST_NAME = 512  # no engine writes longer step texts; longer ones are not worth matching
LARGEST_COUNT = 2**53  # above it a count is no longer exact in float64, and no batch is that large
SURE_IF_ASSUMED = 0.9  # of a phase whose counts the text gives in part
ASSUMED = "assumed_tokens"
MOST_TOKENS_PER_VERIFY = 17  # a draft of 16 tokens and one more; engines draft fewer


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of `data/engines`, compiled."""

    row: Row
    kind: str
    engine: str | None
    pattern: re.Pattern[str]
    phase: Phase | None
    confidence: float
    evidence: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What one name says.

    Attributes:
        rule: The row that matched.
        phase: The phase it states; None where it states none.
        confidence: How sure, 0 to 1.
        counts: Counts by the names in `COUNTS`; absent where the text does not give them.
        flags: Marks such as `recompute`.
    """

    rule: Rule
    phase: Phase | None
    confidence: float
    counts: Mapping[str, int] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The kind of the row that matched."""
        return self.rule.kind


@cache
def rules(extra: tuple[Path, ...] = ()) -> tuple[Rule, ...]:
    """Every row of `data/engines`, compiled, in matching order.

    Raises:
        RegistryError: A row has an unknown kind, phase or group, or no valid pattern.
    """
    return tuple(_compile(row) for row in rows("engines", extra))


def _compile(row: Row) -> Rule:
    kind = row.text("kind")
    if kind not in KINDS:
        raise RegistryError(row.source, row.key, f"kind {kind!r} is none of {', '.join(sorted(KINDS))}")
    try:
        pattern = re.compile(row.text("pattern"))
        phase = Phase(row.text("phase")) if "phase" in row.values and kind not in {"counts", "mode"} else None
    except (re.error, ValueError) as error:
        raise RegistryError(row.source, row.key, str(error)) from error
    odd = set(pattern.groupindex) - set(COUNTS) if kind == "counts" else set()
    if odd:
        raise RegistryError(row.source, row.key, f"groups {', '.join(sorted(odd))} are no counts")
    sure = row.number("confidence")
    return Rule(
        row,
        kind,
        row.text("engine", "") or None,
        pattern,
        phase,
        CONFIDENCE.get(kind, 0.9) if sure is None else sure,
        row.text("evidence", EVIDENCE.get(kind, "")),
    )


def read_name(name: str, candidates: Iterable[Rule]) -> Reading | None:
    """What the first matching rule reads from a name; None where no rule matches."""
    if len(name) > LONGEST_NAME:
        return None
    for rule in candidates:
        match = rule.pattern.search(name)
        if match is not None:
            return _reading(rule, match)
    return None


def place_of_file(name: str, extra: tuple[Path, ...] = ()) -> dict[str, int]:
    """The places in the job that an engine put into the name of a trace file: rank, dp, pp, tp, dcp, ep.

    Where it names a tensor-parallel place alone, that is the rank. Empty where it names none.
    """
    for rule in rules(extra):
        match = rule.pattern.search(name) if rule.kind == "file" else None
        if match is not None:
            found = {key: int(text) for key, text in match.groupdict().items() if text is not None}
            return found if "rank" in found or "tp" not in found else {"rank": found["tp"], **found}
    return {}


def wanted_frames(extra: tuple[Path, ...] = ()) -> WantedFrames:
    """Which Python frames a rule wants; readers keep no other."""
    return WantedFrames(
        tuple(rule.pattern for rule in rules(extra) if rule.kind in FRAME_KINDS), LONGEST_NAME
    )


def _reading(rule: Rule, match: re.Match[str]) -> Reading | None:
    if rule.kind == "counts":
        return _counted(
            rule, {name: int(text) for name, text in match.groupdict().items() if text is not None}
        )
    if rule.kind == "mode":
        return _moded(rule, match)
    return Reading(rule, rule.phase, rule.confidence)


def _counted(rule: Rule, counts: dict[str, int]) -> Reading | None:
    if max(counts.values(), default=0) > LARGEST_COUNT:
        return None
    phase, sure, flags = phase_of_counts(counts)
    assumed = {
        name: counts[source]
        for name, source in rule.row.values.get("assume", {}).items()
        if name not in counts and counts.get(source)
    }
    if assumed:
        sure, flags = min(sure, SURE_IF_ASSUMED), (*flags, ASSUMED)
    return Reading(rule, phase, min(sure, rule.confidence), {**counts, **assumed}, flags)


def phase_of_counts(counts: Mapping[str, int]) -> tuple[Phase, float, tuple[str, ...]]:
    """The phase that a step's counts state, how sure that is, and flags.

    Generation requests with several tokens each are a verification of drafts where they are few, and a
    recomputed prefill where they are many: schedulers count a preempted request as generation.
    """
    context, generation = counts.get("context_requests", 0), counts.get("generation_requests", 0)
    tokens = counts.get("generation_tokens", generation)
    if context and generation:
        return Phase.MIXED, 1.0, ()
    if context:
        return Phase.PREFILL, 1.0, ()
    if not generation:
        return Phase.OTHER, 1.0, ("empty",)
    if tokens <= generation:
        return Phase.DECODE, 1.0, ()
    if tokens <= MOST_TOKENS_PER_VERIFY * generation:
        return Phase.VERIFY, 0.9, ("tokens_exceed_requests",)
    return (Phase.PREFILL if generation == 1 else Phase.MIXED), 0.7, ("recompute",)


def _moded(rule: Rule, match: re.Match[str]) -> Reading | None:
    values, text = rule.row.values, match.groupdict()
    phase = Phase(values["modes"][text["mode"]])
    found = re.findall(rule.row.text("detail"), text.get("details") or "")
    counts = {values["details"][key]: int(number) for key, number in found if key in values["details"]}
    side = "context" if phase is Phase.PREFILL else "generation"
    if phase not in {Phase.MIXED, Phase.OTHER}:
        for group, name in (("bs", "requests"), ("toks", "tokens")):
            if text.get(group) is not None:
                counts.setdefault(f"{side}_{name}", int(text[group]))
    if max(counts.values(), default=0) > LARGEST_COUNT:
        return None
    if phase is Phase.DECODE and "generation_requests" in counts:
        counts.setdefault("generation_tokens", counts["generation_requests"])
    return Reading(rule, phase, rule.confidence, counts)
