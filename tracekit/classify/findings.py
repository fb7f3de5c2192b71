"""What could be won, ranked: each finding with its kernels, numbers, confidence and a next step that fits.

`recoverable_ns` is what the steps of a phase can lose: in a host-bound step a faster kernel recovers nothing until
the host's gap is closed, so such kernels count nothing there.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from tracekit.classify import levers
from tracekit.classify.case import HOST_BOUND, Case, Finding, build_case, exposed_ns, said, top_names
from tracekit.classify.collectives import peer_waits
from tracekit.classify.gaps import STACKS
from tracekit.classify.recorder import recorder
from tracekit.classify.signals import Bools
from tracekit.tables import LLM_PHASES, GapCause, Kind, Phase
from tracekit.tables.ceilings import Ceilings
from tracekit.tables.columns import column, is_true
from tracekit.tables.text import in_words, is_word, matches, occurring
from tracekit.tables.words import Bottleneck
from tracekit.units import duration, number_of, percent

WORTH, WORTH_NS = 0.005, 10_000.0
"""A finding under this share of the time, or under this time [ns], is not worth a line."""
_MOSTLY, _NOTABLE = 0.5, 0.1
_OVERLAP = (
    "overlap collectives with compute, use a custom or one-shot all-reduce for small messages, or shard less"
)

_INFLATED = 0.5
_MODEL_TELLS = "give --model PRESET|config.json, or "
# A model's dimensions say nothing of training, or of a step whose tokens nobody knows.
_SHAPES_TELL = "give --donor CAPTURE with shapes of the same kernels, or record with record_shapes"

_NEXT_STEP = {
    Bottleneck.COMPUTE.value: "look at tile shapes, padding and newer kernels for these, or run them in a narrower type",
    Bottleneck.DRAM.value: "read counters (`collect --counters lite`): more traffic than the minimum, or too few bytes in flight",
    Bottleneck.LATENCY.value: "fuse them, or replay them in a graph; each is shorter than a launch",
    Bottleneck.UNKNOWN.value: "read counters (`collect --counters lite`) for these kernels: neither roof explains them",
    Bottleneck.L2.value: "the working set stays in L2: nothing to win at DRAM",
}
_CPU_NEXT_STEP = {
    Bottleneck.COMPUTE.value: "use all cores, a build with this CPU's vector units, or larger tiles",
    Bottleneck.DRAM.value: "move fewer bytes: narrower weights, fused element-wise ops, one NUMA node",
    Bottleneck.LATENCY.value: "fewer, larger ops: compile or batch; each of these is as long as the overhead of an op",
    Bottleneck.UNKNOWN.value: "profile these ops natively: neither roof explains them",
}


def find_findings(
    kernels: pd.DataFrame,
    steps: pd.DataFrame,
    gaps: pd.DataFrame,
    ceilings: Ceilings,
    faster: Mapping[str, float] | None = None,
    unprofiled: Mapping[str, float] | None = None,
) -> tuple[Finding, ...]:
    """Findings of one report, most recoverable time first; what is missing comes last.

    Args:
        kernels: Classified kernels, with the internal columns peak, weight_bytes and kv_bytes.
        steps: STEPS.
        gaps: GAPS.
        ceilings: Those of the device.
        faster: Other devices' DRAM byte/s by name, for the memory lever; empty for none.
        unprofiled: By phase, the time of a step without a profiler [ns], such as a measured TPOT for decode: what
            the profiled steps take beyond it is the recorder's and is not recoverable.
    """
    case = build_case(kernels, steps, gaps, ceilings, faster, unprofiled)
    found = [finding for rule in RULES for finding in rule(case)]
    least = WORTH * (case.total_ns + float(column(gaps, "dur_ns").sum()))
    worth = [finding for finding in found if finding.recoverable_ns >= max(least, WORTH_NS)]
    ranked = sorted(worth, key=lambda finding: -finding.recoverable_ns)
    return (*ranked, *missing(case))


def host_bound(case: Case) -> Iterator[Finding]:
    """Idle time that waits for launches, by phase."""
    for phase in case.stepped():
        steps = case.steps_of(phase)
        idle = _gap_time(case, steps, GapCause.HOST)
        window = float(column(steps, "dur_ns").sum())
        if not idle or not window:
            continue
        inside = case.is_in(phase)
        replayed = float(is_true(case.rows, "from_graph")[inside].mean()) if inside.any() else 0.0
        bound = int((steps["idle_host_ns"] > HOST_BOUND * column(steps, "dur_ns")).sum())
        over = min(idle, _recorder_ns(case, steps, phase))
        told = f"; {duration(over / len(steps))} of it is the recorder's" if over else ""
        stacks = phase not in case.unprofiled and _with_stacks(case, steps)
        told += "; Python stacks were recorded, which inflate it" if stacks else ""
        yield Finding(
            f"{said(phase)} waits for the host for {percent(idle / window)} of its step time",
            phase,
            (),
            idle - over,
            _INFLATED if stacks else 0.8,
            f"{duration(idle / len(steps))} a step idle before late launches{told}; {bound} of {number_of(len(steps), 'step')} host-bound; "
            f"{inside.sum() / len(steps):.0f} kernels and copies a step, {percent(replayed)} of them from graphs",
            _host_step(phase, replayed) + ("; --tpot or --ttft tells the recorder's part" if stacks else ""),
        )


def _recorder_ns(case: Case, steps: pd.DataFrame, phase: str) -> float:
    """What the steps took beyond their time without a profiler; 0 where that is not given."""
    if phase not in case.unprofiled:
        return 0.0
    found = recorder(steps, case.gaps, case.unprofiled[phase])
    return 0.0 if found is None else found.over_ns * len(steps)


def _with_stacks(case: Case, steps: pd.DataFrame) -> bool:
    """Whether the capture recorded Python stacks: its gaps say so."""
    return bool(matches(case.gaps["evidence"], STACKS)[_in(case.gaps, steps)].any())


def _host_step(phase: str, replayed: float) -> str:
    if replayed >= _MOSTLY:
        return "the replays are late: move scheduling, sampling and detokenising off the launching thread"
    if phase == Phase.DECODE:
        return "replay decode from CUDA or HIP graphs; the launches of a step then cost one call"
    return "fuse or compile (fewer launches a step), or give each step more tokens"


def waits(case: Case) -> Iterator[Finding]:
    """Idle time after synchronisation, by phase."""
    for phase in case.stepped():
        steps = case.steps_of(phase)
        idle = _gap_time(case, steps, GapCause.SYNC)
        if idle:
            count = int((is_word(case.gaps, "cause", GapCause.SYNC) & _in(case.gaps, steps)).sum())
            yield Finding(
                f"{said(phase)} drains the device by synchronising",
                phase,
                (),
                idle,
                0.7,
                f"{number_of(count, 'wait')} in {number_of(len(steps), 'step')}, {duration(idle)} idle behind them",
                "keep results on the device, or read the last step's results while the next one runs",
            )


def communication(case: Case) -> Iterator[Finding]:
    """Collectives that no other kernel hides, with the part that waits for peers where other ranks are given."""
    chosen = is_word(case.rows, "bottleneck", Bottleneck.COMMUNICATION)
    chosen &= ~is_word(case.rows, "kind", Kind.CPU_OP)
    waits = peer_waits(case.rows).to_numpy(dtype=np.float64)
    for finding, inside in _exposed(case, chosen, "communication", 0.5):
        known = inside & ~np.isnan(waits)
        spent = float(column(case.rows, "dur_ns")[known].sum())
        waited = float(np.nansum(waits[known]))
        if not spent:
            yield replace(
                finding, next_step=f"{_OVERLAP}; give the other ranks' captures to tell waiting from transfer"
            )
        elif waited > _MOSTLY * spent:
            evidence = f"{finding.evidence}; {percent(waited / spent)} is waiting for peers"
            yield replace(
                finding,
                evidence=evidence,
                next_step="even out the ranks: the late one is not slow in the collective but before it",
            )
        else:
            yield replace(
                finding,
                evidence=f"{finding.evidence}; {percent(waited / spent)} is waiting for peers",
                next_step=_OVERLAP,
            )


def copies(case: Case) -> Iterator[Finding]:
    """Copies over the host or peer link that no kernel hides."""
    chosen = is_word(case.rows, "bottleneck", Bottleneck.COPY)
    pageable = ~matches(case.rows["name"], r"(?i)pinned")
    own = column(case.rows, "own_ns")
    for finding, inside in _exposed(case, chosen, "copies over a link", 0.6):
        pin = "pin the host memory, " if own[inside & pageable].sum() > _NOTABLE * own[inside].sum() else ""
        yield replace(finding, next_step=f"{pin}copy on another stream, or keep the data on the device")


def _exposed(case: Case, chosen: Bools, what: str, confidence: float) -> Iterator[tuple[Finding, Bools]]:
    """A finding without a next step for each phase that has chosen rows, and which rows these are."""
    if not chosen.any():
        return
    for phase in occurring(case.rows, "phase"):
        inside = chosen & case.is_in(phase)
        if not inside.any():
            continue
        total = float(column(case.rows, "dur_ns")[inside].sum())
        open_ns = _alone(case, chosen, inside)
        yield (
            Finding(
                f"{said(phase)}: {duration(open_ns)} of exposed {what}",
                str(phase),
                top_names(case.rows, inside),
                open_ns,
                confidence,
                f"{duration(total)} in all, {percent(open_ns / total) if total else '-'} of it with nothing else running",
                "",
            ),
            inside,
        )


def _alone(case: Case, chosen: Bools, inside: Bools) -> float:
    """Exposed time of the rows `inside`: other work hides it, of whatever phase."""
    return exposed_ns(case.rows, inside, among=~chosen | inside)


def below_roof(case: Case) -> Iterator[Finding]:
    """Kernels far from their achievable roof, by phase and family; the class that loses most gives the next step."""
    next_steps = _CPU_NEXT_STEP if is_word(case.rows, "kind", Kind.CPU_OP).all() else _NEXT_STEP
    over = np.maximum(0.0, column(case.rows, "own_ns") - column(case.rows, "reach_ns"))
    rows = case.rows[["name", "own_ns", "bottleneck_confidence"]].assign(
        lost=np.where(case.rows["held"].to_numpy(dtype=bool), 0.0, over),
        _phase=in_words(case.rows, "phase"),
        _family=in_words(case.rows, "family"),
        _class=in_words(case.rows, "bottleneck"),
    )
    rows = rows[case.rows["reach_ns"].notna() & is_word(case.rows, "bottleneck", *next_steps)]
    for (phase, family), group in rows.groupby(["_phase", "_family"], sort=True, observed=True):
        lost, own = float(group["lost"].sum()), float(group["own_ns"].sum())
        if not lost:
            continue
        by_class = (
            group.groupby("_class", observed=True)["lost"].sum().sort_values(ascending=False, kind="stable")
        )
        confidence = float(np.average(column(group, "bottleneck_confidence"), weights=group["lost"]))
        yield Finding(
            f"{said(phase)}: {family} kernels lose {duration(lost)} to their roof",
            str(phase),
            top_names(group),
            lost,
            round(min(confidence, 0.8), 2),
            f"{number_of(len(group), 'kernel')} {'takes' if len(group) == 1 else 'take'} {duration(own)}, "
            f"{duration(own - lost)} at the achievable roof; "
            + ", ".join(f"{name} {percent(value / lost)}" for name, value in by_class.items() if value),
            next_steps[str(by_class.index[0])],
        )


def missing(case: Case) -> Iterator[Finding]:
    """What the reader must give for more to be said, with the share of time that it concerns."""
    if not case.total_ns:
        return
    if case.ceilings.dram.used is None and not any(roof.used for roof in case.ceilings.peaks.values()):
        yield Finding(
            "No ceiling is known", "", (), 0.0, 1.0, "rates are shown, but no share of a roof",
            "give --device NAME, --peak bf16=... with --dram ..., or run `tracekit calibrate` on the device",
        )  # fmt: skip
    blind = np.isnan(column(case.rows, "flops")) & np.isnan(column(case.rows, "dram_bytes"))
    blind &= ~_needs_no_work(case.rows)
    for phase in occurring(case.rows, "phase"):
        inside = case.is_in(phase)
        own, lost = (
            float(case.rows.loc[inside, "own_ns"].sum()),
            float(case.rows.loc[inside & blind, "own_ns"].sum()),
        )
        if own > _NOTABLE * case.total_ns and lost > _MOSTLY * own:
            yield Finding(
                f"Work is unknown for {percent(lost / own)} of {said(phase)}",
                str(phase),
                top_names(case.rows, inside & blind),
                0.0,
                1.0,
                f"{duration(lost)} of {duration(own)} have neither FLOPs nor bytes",
                _MODEL_TELLS + _SHAPES_TELL if phase in LLM_PHASES else _SHAPES_TELL,
            )


def _needs_no_work(rows: pd.DataFrame) -> Bools:
    return is_word(rows, "bottleneck", Bottleneck.COMMUNICATION, Bottleneck.COPY)


def _gap_time(case: Case, steps: pd.DataFrame, cause: GapCause) -> float:
    chosen = is_word(case.gaps, "cause", cause) & _in(case.gaps, steps)
    return float(column(case.gaps, "dur_ns")[chosen].sum())


def _in(gaps: pd.DataFrame, steps: pd.DataFrame) -> np.ndarray:
    return gaps["step_id"].isin(steps["step_id"]).to_numpy(dtype=bool)


RULES: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    host_bound, waits, communication, copies, below_roof, *levers.RULES,
)  # fmt: skip
