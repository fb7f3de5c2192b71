"""The summary of a report: what DESIGN calls `report --json`, from the public tables.

Rates are sums of work over sums of time, never means of rates, and count only kernels whose work is known; the
share of the time that this is stands beside them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from tracekit.checks import RECORDS_LOST
from tracekit.classify import recorder
from tracekit.report.accounting import NS, ratio, shares, total
from tracekit.report.contract import (
    SCHEMA_VERSION,
    CaptureUsed,
    Coverage,
    DeviceUsed,
    ErrorRow,
    FamilyRow,
    FindingRow,
    PhaseRow,
    ProfilerRow,
    QualityRow,
    RoofRow,
    RoofShares,
    Summary,
)
from tracekit.report.counted import counters_row
from tracekit.report.launching import launch_rows
from tracekit.report.roofs import phase_shares
from tracekit.roofline.apply import mbu, mfu
from tracekit.tables import Bottleneck, Kind, Phase
from tracekit.tables.ceilings import Ceilings, Roof
from tracekit.tables.columns import lanes
from tracekit.tables.text import in_words, matches


def summarise(
    rows: pd.DataFrame,
    steps: pd.DataFrame,
    gaps: pd.DataFrame,
    quality: pd.DataFrame,
    ceilings: Ceilings,
    *,
    device: DeviceUsed,
    captures: Sequence[CaptureUsed] = (),
    findings: Iterable[Any] = (),
    errors: Iterable[Any] = (),
    unprofiled: Mapping[str, float] | None = None,
) -> Summary:
    """The summary of one report.

    Args:
        rows: Kernels as `accounting.accounted` gives them.
        steps: STEPS.
        gaps: GAPS.
        quality: QUALITY.
        ceilings: Those of the device.
        device: Name and match of the device.
        captures: What was read, and what each capture contributed.
        findings: Objects with the fields of `FindingRow`.
        errors: Objects with the fields of `ErrorRow`.
        unprofiled: By phase, the time of a step without a profiler [ns].
    """
    given, launches = unprofiled or {}, launch_rows(rows)
    whole = int(rows["own_ns"].sum())
    return Summary(
        schema_version=SCHEMA_VERSION,
        device=device,
        roofs=dict(_roofs(rows, ceilings)),
        roof_used=roof_used(rows, ceilings),
        captures=list(captures),
        phases=[
            msgspec.structs.replace(
                _phase(phase, rows, steps, gaps, ceilings, whole),
                launches=launches.get(phase),
                profiler=_profiler(steps, gaps, phase, given[phase]) if phase in given else None,
            )
            for phase in _present(rows, steps)
        ],
        families=list(_families(rows, whole)),
        coverage=_coverage(rows),
        findings=[_finding(finding) for finding in findings],
        quality=list(_quality(quality)),
        errors=[msgspec.convert(error, ErrorRow, from_attributes=True) for error in errors],
    )


def _finding(finding: Any) -> FindingRow:
    return FindingRow(
        title=finding.title,
        phase=str(finding.phase),
        kernels=[str(name) for name in finding.kernels],
        recoverable_ns=float(finding.recoverable_ns),
        confidence=float(finding.confidence),
        evidence=finding.evidence,
        next_step=finding.next_step,
    )


def _roofs(rows: pd.DataFrame, ceilings: Ceilings) -> Iterator[tuple[str, RoofRow]]:
    in_force = roofs_in_force(rows, ceilings)
    for word, roof in (*sorted(ceilings.peaks.items()), ("dram", ceilings.dram)):
        if roof.used is not None:
            yield word, RoofRow(roof.measured, roof.spec, roof.source, roof.status, word in in_force)


def roofs_in_force(rows: pd.DataFrame, ceilings: Ceilings) -> dict[str, Roof]:
    """The roofs that kernels of this report were held against, by word; DRAM last."""
    used = sorted(str(word) for word in rows["peak"].dropna().unique()) if "peak" in rows else []
    found = {word: ceilings.peak(word) for word in used} | {"dram": ceilings.dram}
    return {word: roof for word, roof in found.items() if roof.used is not None}


def roof_used(rows: pd.DataFrame, ceilings: Ceilings) -> Any:
    """`measured` where every roof in force is, `spec` where one is not, None where there is none."""
    found = roofs_in_force(rows, ceilings)
    if not found:
        return None
    return "measured" if all(roof.is_measured for roof in found.values()) else "spec"


def _present(rows: pd.DataFrame, steps: pd.DataFrame) -> list[str]:
    """Phases that occur, in the order of the enumeration; steps of no time (an empty one) add none."""
    seen = set(rows["phase"].unique()) | set(steps.loc[steps["n_kernels"] > 0, "phase"].unique())
    return [str(phase) for phase in Phase if str(phase) in seen]


def _phase(
    phase: str, rows: pd.DataFrame, steps: pd.DataFrame, gaps: pd.DataFrame, ceilings: Ceilings, whole: int
) -> PhaseRow:
    part, own_steps = rows[rows["phase"] == phase], steps[steps["phase"] == phase]
    time, known = int(part["own_ns"].sum()), float(part["known_ns"].sum())
    wall, wall_from = _wall(part, own_steps)
    # Without the kernels of its graphs a phase has no figures: what is left is another, smaller piece of work.
    lost = bool(matches(own_steps["flags"], RECORDS_LOST).any())
    flops, traffic = total(part["known_flops"]), total(part["known_traffic"])
    tokens, token_wall = _tokens(own_steps)
    bandwidth = ceilings.dram.used or float("nan")
    used = RoofShares(
        compute=ratio(total(part["compute_ns"]), known),
        dram=ratio(traffic / bandwidth * NS, known),
        mfu=None if lost else mfu(part, wall, ceilings),
        mbu=None if lost else mbu(part, wall, ceilings),
    )
    by_kind = {} if lost else phase_shares(part, used, wall, ceilings)
    return PhaseRow(
        phase=phase,
        time_ns=time,
        wall_ns=wall,
        wall_from=wall_from,
        share=time / whole if whole else 0.0,
        n_steps=len(own_steps),
        n_kernels=len(part),
        work_known=_share_of(part["known_flops"].notna(), part["own_ns"]) or 0.0,
        flops=_or_none(total(part["flops"])),
        dram_bytes=_or_none(total(part["dram_bytes"])),
        dram_bytes_hw=_or_none(total(part["dram_bytes_hw"])),
        flops_per_s=None if lost else ratio(flops * NS, known),
        dram_bytes_per_s=None if lost else ratio(traffic * NS, known),
        arithmetic_intensity=ratio(flops, total(part["known_bytes"])),
        compute_roof_share=used.compute,
        dram_roof_share=used.dram,
        mfu=used.mfu,
        mbu=used.mbu,
        weight_bytes=_or_none(_total_of(part, "weight_bytes")),
        kv_bytes=_or_none(_total_of(part, "kv_bytes")),
        tokens=tokens,
        tokens_per_s=None if lost or tokens is None else ratio(tokens * NS, token_wall),
        idle_ns=_idle(gaps, own_steps),
        bottlenecks=shares(part["bottleneck"], part["own_ns"]),
        bottleneck_confidence=_confidence(part),
        evidence=shares(part["phase_evidence"], part["own_ns"]),
        work_sources=shares(part["flops_source"], part["own_ns"]),
        apportioned=_apportioned(phase, part, time),
        of_measured=by_kind.get("measured"),
        of_spec=by_kind.get("spec"),
        counters=counters_row(part),
    )


def _profiler(
    steps: pd.DataFrame, gaps: pd.DataFrame, phase: str, unprofiled_ns: float
) -> ProfilerRow | None:
    """Steps of a phase under the profiler beside the given time without; None where the phase has no steps."""
    ran = (steps["phase"] == phase) & (steps["n_kernels"] > 0)
    found = recorder(steps[ran.to_numpy(dtype=bool)], gaps, unprofiled_ns)
    if found is None:
        return None
    part = found.of_host_ns
    return ProfilerRow(
        found.profiled_ns, found.unprofiled_ns, found.host_ns, part, ratio(part, found.host_ns)
    )


def _apportioned(phase: str, part: pd.DataFrame, time: int) -> dict[str, float]:
    """Shares of a mixed phase's time that are the prefill's and the decode's, as the phase stage divides kernels."""
    if phase != Phase.MIXED or not time or "context_share" not in part:
        return {}
    share = part["context_share"].to_numpy(dtype=np.float64)
    own = part["own_ns"].to_numpy(dtype=np.float64)
    told = ~np.isnan(share)
    parts = {
        str(Phase.PREFILL): float((own * share)[told].sum()) / time,
        str(Phase.DECODE): float((own * (1 - share))[told].sum()) / time,
        str(Phase.UNKNOWN): float(own[~told].sum()) / time,
    }
    return {word: value for word, value in parts.items() if value > 0}


def _wall(part: pd.DataFrame, own_steps: pd.DataFrame) -> tuple[int, Any]:
    """The time that a phase took [ns] and what it was taken from."""
    if len(own_steps) and (window := int(own_steps["dur_ns"].sum())):
        return window, "steps"
    if part.empty:
        return 0, "span"
    starts = part["ts_ns"].to_numpy(dtype=np.int64)
    ends = starts + part["dur_ns"].to_numpy(dtype=np.int64)
    return sum(int(ends[rows].max() - starts[rows].min()) for rows in lanes(part, "rank", "device")), "span"


def _tokens(steps: pd.DataFrame) -> tuple[int | None, float]:
    """Query tokens of the steps that say theirs, and the wall time of those [ns]."""
    tokens = steps[["context_tokens", "generation_tokens"]].sum(axis=1, min_count=1)
    said = tokens.notna()
    for side in ("context", "generation"):
        # An engine may name its requests and not their tokens: their sum is then not the other side's alone.
        said &= ~(steps[f"{side}_tokens"].isna() & (steps[f"{side}_requests"] > 0).fillna(value=False))
    if not said.any():
        return None, float("nan")
    return int(tokens[said].sum()), float(steps.loc[said, "dur_ns"].sum())


def _idle(gaps: pd.DataFrame, own_steps: pd.DataFrame) -> dict[str, int]:
    rows = gaps.loc[gaps["step_id"].isin(own_steps["step_id"]), ["dur_ns", "cause"]]
    cause = pd.Series(in_words(rows, "cause"), index=rows.index)
    sums = rows["dur_ns"].groupby(cause, observed=True).sum().sort_values(ascending=False)
    return {str(cause): int(value) for cause, value in sums.items() if value > 0}


def _confidence(part: pd.DataFrame) -> dict[str, float]:
    own = part["own_ns"].where(part["own_ns"] > 0).astype("float64")
    frame = pd.DataFrame({"own": own, "sure": own * part["bottleneck_confidence"].astype("float64")})
    sums = frame.groupby(part["bottleneck"], observed=True).sum(min_count=1).dropna()
    return {str(word): float(value) for word, value in sorted((sums["sure"] / sums["own"]).items())}


def _families(rows: pd.DataFrame, whole: int) -> Iterator[FamilyRow]:
    rows = rows[["family", "phase", "own_ns", "flops", "dram_bytes", "bottleneck"]]
    groups = rows.groupby(["family", "phase"], observed=True)
    order = groups["own_ns"].sum().sort_values(ascending=False, kind="stable").index
    members = groups.indices
    for family, phase in order:
        part = rows.iloc[members[family, phase]]
        time = int(part["own_ns"].sum())
        yield FamilyRow(
            family=str(family),
            phase=str(phase),
            time_ns=time,
            share=time / whole if whole else 0.0,
            count=len(part),
            flops=_or_none(total(part["flops"])),
            dram_bytes=_or_none(total(part["dram_bytes"])),
            bottlenecks=shares(part["bottleneck"], part["own_ns"]),
        )


def _coverage(rows: pd.DataFrame) -> Coverage:
    own = rows["own_ns"]
    linked = rows["launch_ts_ns"].notna() | (rows["kind"] == Kind.CPU_OP)
    return Coverage(
        linked=_share_of(linked, own),
        phase_known=_share_of(rows["phase"] != Phase.UNKNOWN, own),
        work_known=_share_of(rows["flops"].notna() | rows["dram_bytes"].notna(), own),
        classified=_share_of(rows["bottleneck"] != Bottleneck.UNKNOWN, own),
    )


def _quality(quality: pd.DataFrame) -> Iterator[QualityRow]:
    columns = (quality[name].astype(object) for name in ("rank", "code", "count", "time_ns", "message"))
    for rank, code, count, time, message in zip(*columns, strict=True):
        yield QualityRow(_int(rank), str(code), int(count), _int(time), str(message))


def _int(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)


def _share_of(chosen: pd.Series, own: pd.Series) -> float | None:
    return ratio(float(own[chosen.to_numpy(dtype=bool)].sum()), float(own.sum()))


def _total_of(part: pd.DataFrame, name: str) -> float:
    return total(part[name].astype("float64")) if name in part else float("nan")


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
