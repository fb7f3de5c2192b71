"""The comparison of two sides, from their tables."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from tracekit.compare.contract import (
    SCHEMA_VERSION,
    Comparison,
    FamilyChange,
    KernelChange,
    Pair,
    PhaseChange,
    Verdicts,
)
from tracekit.compare.kernels import kernel_changes
from tracekit.compare.layers import place_changes
from tracekit.compare.matching import match_kernels
from tracekit.compare.phases import phase_change
from tracekit.compare.prepare import Prepared
from tracekit.compare.sides import Side
from tracekit.compare.statistics import Change, decide, measure
from tracekit.compare.steps import Matched, by_run, match_steps
from tracekit.tables import Phase


def compare(base: Side, new: Side) -> Comparison:
    """Compare two sides: what got slower or faster, where, and whether it is real.

    Args:
        base: Runs of what was.
        new: Runs of what is.

    Returns:
        The comparison. Times are a step of each phase, or a capture where a phase has no steps.
    """
    sides = [Prepared.of(side) for side in (base, new)]
    steps = match_steps(sides[0].steps, sides[1].steps)
    groups = match_kernels(sides[0].groups, sides[1].groups)
    present = [str(phase) for phase in Phase if any(side.has(str(phase)) for side in sides)]
    changes = {phase: _of_phase(steps, phase) for phase in present}
    kernels = kernel_changes(sides, groups, steps, present)
    units = [{phase: side.units(phase) for phase in present} for side in sides]
    places, layers = place_changes([side.rows for side in sides], units, present)
    phases = [phase_change(phase, sides, groups, _verdicts(changes[phase])) for phase in present]
    return Comparison(
        SCHEMA_VERSION,
        [run.label for run in base.runs],
        [run.label for run in new.runs],
        [_device(side) for side in (base, new)],
        [_roofs(side) for side in (base, new)],
        _overall(phases),
        phases,
        [*_families(kernels)],
        places,
        layers,
        kernels,
        [*_notes(sides, steps, phases)],
    )


def _of_phase(steps: Matched, phase: str) -> Change:
    return measure(*(by_run(side[side["phase"] == phase]) for side in (steps.base, steps.new)))


def _verdicts(change: Change) -> Verdicts:
    n = [change.n_base, change.n_new]
    return Verdicts(
        change.verdict, change.ratio, change.ci_low, change.ci_high, change.floor, n, change.drift_covered
    )


def _overall(phases: Sequence[PhaseChange]) -> Verdicts:
    """Phases together, each by base's share of the time; as if their errors went together, which is the wider."""
    told = [phase for phase in phases if phase.result.ci_low is not None and phase.wall_ns.base]
    n = [sum(phase.result.n[side] for phase in phases) for side in (0, 1)]
    if not told:
        ratio = _only_ratio(phases)
        return Verdicts("insufficient", ratio, None, None, 0.02, n, drift_covered=False)
    weights = np.array([(phase.wall_ns.base or 0.0) * phase.result.n[0] for phase in told])
    weights = weights / weights.sum()
    ratio, low, high, floor = (
        float(np.dot(weights, [getattr(phase.result, name) for phase in told]))
        for name in ("ratio", "ci_low", "ci_high", "floor")
    )
    verdict = decide(float(np.log(ratio)), float(np.log(low)), float(np.log(high)), floor)
    covered = all(phase.result.drift_covered for phase in told)
    return Verdicts(verdict, ratio, low, high, floor, n, drift_covered=covered)


def _only_ratio(phases: Sequence[PhaseChange]) -> float | None:
    """New over base of the wall time of phases that both sides have, those with steps first; without statistics."""
    stepped = [phase for phase in phases if phase.parts is not None] or phases
    both = [phase.wall_ns for phase in stepped if phase.wall_ns.base and phase.wall_ns.new]
    base = sum(pair.base or 0.0 for pair in both)
    return sum(pair.new or 0.0 for pair in both) / base if base else None


def _families(kernels: Sequence[KernelChange]) -> Iterator[FamilyChange]:
    rows = [(k.phase, k.family, k.time_ns.base or 0.0, k.time_ns.new or 0.0) for k in kernels]
    frame = pd.DataFrame(rows, columns=["phase", "family", "base", "new"])
    sums = frame.groupby(["phase", "family"], sort=False)[["base", "new"]].sum().reset_index()
    sums["delta"] = sums["new"] - sums["base"]
    order = sums["delta"].abs().sort_values(ascending=False, kind="stable").index
    for row in sums.loc[order].to_dict("records"):
        yield FamilyChange(
            row["phase"], row["family"], Pair(float(row["base"]), float(row["new"])), float(row["delta"])
        )


def _device(side: Side) -> str | None:
    device = side.runs[0].summary.device
    return device.matched or device.name


def _roofs(side: Side) -> dict[str, float]:
    rows = side.runs[0].summary.roofs.items()
    found = {word: row.spec if row.measured is None else row.measured for word, row in rows if row.in_force}
    return {word: rate for word, rate in found.items() if rate is not None}


def _notes(sides: Sequence[Prepared], steps: Matched, phases: Sequence[PhaseChange]) -> Iterator[str]:
    devices = {_device(side.side) for side in sides}
    if len(devices) > 1:
        yield "The devices differ: kernels are matched by what they do, and shares of a roof are of each side's own."
    if any(not len(side.groups) for side in sides):
        yield "A side has a summary alone: its kernels and steps cannot be compared. Give its whole report folder."
    if phases and all(phase.result.verdict == "insufficient" for phase in phases):
        yield "Fewer than ten comparable steps a side: figures are compared without statistics, and chance is not ruled out."
    elif not all(phase.result.drift_covered for phase in phases if phase.result.verdict != "insufficient"):
        yield "One capture a side: drift between runs is not covered. Give more with --base and --new."
    if steps.left_out:
        yield f"{steps.left_out} steps are not in the verdict: cut off by the window, or no step of the other side has their tokens and KV length."
    moved = [phase for phase in phases if _shifted(phase)]
    if moved:
        names = ", ".join(phase.phase for phase in moved)
        yield f"Time a call moved alike in all kernel families of {names}: a change of clocks is likelier than one of code."


_CLOCK_SPREAD = 0.25
_LEAST_SHIFT = 0.02


def _shifted(phase: PhaseChange) -> bool:
    """Whether all of the change is time a call: the mark of another clock."""
    base, parts = phase.busy_ns.base, phase.parts
    if parts is None or not base or abs(parts.per_call) < _LEAST_SHIFT * base:
        return False
    others = abs(parts.count) + abs(parts.mix)
    return (
        phase.per_call_spread is not None
        and others < _LEAST_SHIFT * base
        and phase.per_call_spread < (_CLOCK_SPREAD * abs(parts.per_call) / base)
    )
