"""Captures to one result: stages for each, then put together."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tracekit.checks import check_ranks, check_steps
from tracekit.classify import find_findings
from tracekit.errors import UsageError
from tracekit.pipeline.asked import key_of
from tracekit.pipeline.kept import load as load_kept
from tracekit.pipeline.kept import store
from tracekit.pipeline.loading import Failure, Loaded, assign_roles, collector_notes, load, with_shapes
from tracekit.pipeline.options import Options
from tracekit.pipeline.stages import Measured, Staged, named, place_after, run_stages
from tracekit.pipeline.steady import steady
from tracekit.readers.kineto.helper import let_go
from tracekit.report.contract import CaptureUsed, DeviceUsed
from tracekit.report.result import Result
from tracekit.roofline import load_devices, other_memories
from tracekit.tables import GAPS, QUALITY, STEPS, QualityNote, Role
from tracekit.tables.ceilings import Ceilings


def analyze(paths: Sequence[str | Path], options: Options | None = None) -> Result:
    """Analyse captures that are parts of one run.

    Args:
        paths: Trace files, folders of them, or folders that `tracekit collect` wrote.
        options: Choices; by default what the captures say.

    Returns:
        The result; captures that could not be read are in its `errors`.

    Raises:
        UsageError: The captures are not parts of one run.
        UnsupportedError: A device or model that was named is not known.
    """
    chosen = options or Options()
    key = None if chosen.cache is None else key_of(paths, chosen)
    if chosen.cache is None or key is None:
        return _analyzed(paths, chosen)
    kept = load_kept(chosen.cache, key)
    if kept is not None:
        for path in paths:
            let_go(Path(path))
        return kept
    result = _analyzed(paths, chosen)
    store(chosen.cache, key, result)
    return result


def _analyzed(paths: Sequence[str | Path], chosen: Options) -> Result:
    loaded, failures = load(paths, chosen)
    parts = assign_roles(loaded)
    donors = [(part.capture, named(part, chosen)) for part in parts if part.role is Role.DONOR]
    measured = _measured(parts, failures, chosen)
    staged = [(part, run_stages(part, chosen, donors, measured)) for part in with_shapes(parts)]
    if chosen.steady:
        staged = [(part, steady(stage)) for part, stage in staged]
    return _together(staged, parts, failures, chosen)


def _measured(parts: list[Loaded], failures: list[Failure], options: Options) -> Measured:
    """The counters of the run.

    Raises:
        UsageError: There are counters and nothing that they could be counters of.
    """
    found = [part for part in parts if part.role is Role.COUNTERS]
    if found and len(found) == len(parts) and not failures:
        raise UsageError(
            "counters alone: their times are the profiler's, and say nothing of a run",
            hint="give the trace of the same workload beside them; `tracekit inspect` shows what they sum up to",
        )
    counters = tuple(part.capture.counters for part in found if part.capture.counters is not None)
    return Measured(counters, failed=bool(options.counters) and not counters)


def _together(
    staged: list[tuple[Loaded, Staged]], parts: list[Loaded], failures: list[Failure], options: Options
) -> Result:
    kernels, steps, gaps, quality = [], [], [], []
    counted = stepped = 0
    for part, stage in staged:
        kernels.append(place_after(stage.kernels, counted, stepped))
        steps.append(place_after(stage.steps, counted, stepped))
        gaps.append(place_after(stage.gaps, counted, stepped))
        notes = (*stage.notes, *check_steps(part.capture, stage.steps, stage.gaps))
        quality.append(_quality(notes, part.capture.info.rank))
        counted += len(stage.kernels)
        stepped += int(stage.steps["step_id"].max()) + 1 if len(stage.steps) else 0
    quality.append(
        _quality([*check_ranks([part.capture.info for part, _ in staged]), *collector_notes(parts)], None)
    )
    ceilings = staged[0][1].ceilings if staged else Ceilings()
    all_kernels, all_steps, all_gaps = _stacked(kernels), _stacked(steps), _stacked(gaps)
    faster = other_memories(ceilings.device, load_devices(options.data))
    findings = (
        find_findings(all_kernels, all_steps, all_gaps, ceilings, faster, options.unprofiled)
        if len(all_kernels)
        else ()
    )
    return Result(
        all_kernels,
        STEPS.check(STEPS.conform(all_steps)),
        GAPS.check(GAPS.conform(all_gaps)),
        QUALITY.check(QUALITY.conform(_stacked(quality))),
        ceilings,
        _device(staged),
        tuple(CaptureUsed(part.capture.info.path, str(part.role), part.evidence) for part in parts),
        tuple(findings),
        tuple(failures),
        options.unprofiled,
    )


def _stacked(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Frames of one kind below each other, text columns as one category each."""
    filled = [frame for frame in frames if len(frame)]
    if len(filled) <= 1:
        return filled[0] if filled else (frames[0] if frames else pd.DataFrame())
    plain = [
        frame.astype({name: object for name in frame if frame[name].dtype == "category"}) for frame in filled
    ]
    out = pd.concat(plain, ignore_index=True)
    return out.astype({name: "category" for name in out if filled[0].dtypes.get(name) == "category"})


def _quality(notes: Sequence[QualityNote], rank: int | None) -> pd.DataFrame:
    rows = [
        {
            "rank": rank,
            "code": note.code,
            "count": note.count,
            "time_ns": note.time_ns,
            "message": note.message,
        }
        for note in notes
    ]
    return QUALITY.conform(pd.DataFrame(rows, columns=QUALITY.names))


def _device(staged: list[tuple[Loaded, Staged]]) -> DeviceUsed:
    if not staged:
        return DeviceUsed()
    part, stage = staged[0]
    listed = (device.name for device in part.capture.info.devices if device.name)
    # A trace of a CPU names no device; the run's own measurement does.
    name = next(listed, stage.ceilings.device if stage.match is None else None)
    match = stage.match
    return DeviceUsed(
        name,
        None if match is None or match.row is None else match.row.name,
        None if match is None else match.how,
    )
