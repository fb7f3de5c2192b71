"""The stages in order, for one capture."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from tracekit.checks import check_capture, refuse_lost, sane_times
from tracekit.classify import classify, find_gaps
from tracekit.counters import Joined, join_counters
from tracekit.link import link
from tracekit.models import presets, resolve
from tracekit.phase import Phased, label
from tracekit.pipeline.device import device_notes, find_ceilings
from tracekit.pipeline.loading import Loaded
from tracekit.pipeline.options import Options
from tracekit.roofline import DeviceMatch, apply_roofs, step_rates
from tracekit.tables import Capture, Counters, HwStatus, Linked, QualityNote
from tracekit.tables.ceilings import Ceilings
from tracekit.taxonomy import name_families
from tracekit.work import Worked, find_work

Donor = tuple[Capture, Linked]


@dataclass(frozen=True, slots=True)
class Measured:
    """Hardware counters that were given for a run; `failed` where some were and none could be read."""

    counters: tuple[Counters, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Staged:
    """One capture after all stages.

    Attributes:
        kernels: The kernels table with the internal columns still on it.
        steps: STEPS with work and rates.
        gaps: GAPS.
        notes: What was repaired, dropped, missing or guessed, of all stages.
        ceilings: Those of its device.
        match: Which device it is; None on a CPU-only capture.
    """

    kernels: pd.DataFrame
    steps: pd.DataFrame
    gaps: pd.DataFrame
    notes: tuple[QualityNote, ...]
    ceilings: Ceilings
    match: DeviceMatch | None


def named(loaded: Loaded, options: Options) -> Linked:
    """The capture linked, its kernels with families."""
    linked = link(loaded.capture)
    return Linked(name_families(linked.kernels, options.data), linked.ops, linked.quality)


def run_stages(
    loaded: Loaded, options: Options, donors: Sequence[Donor] = (), measured: Measured | None = None
) -> Staged:
    """Link, name, phase, work, counters, roofline, classify, gaps.

    Raises:
        UnsupportedError: A device or model that was named is not known.
    """
    capture = sane_times(loaded.capture)
    loaded = replace(loaded, capture=capture)
    linked = named(loaded, options)
    phased = label(linked.kernels, capture, linked, options.data)
    ceilings, match = find_ceilings(loaded, linked.kernels, options)
    worked = _work(capture, linked, phased, options, donors)
    counted = _counted(worked.kernels, capture, phased, options, measured or Measured())
    kernels = classify(apply_roofs(counted.kernels, ceilings), ceilings)
    steps = refuse_lost(kernels, step_rates(kernels, phased.steps, ceilings))
    gaps = find_gaps(kernels, steps, capture.runtime_calls, capture.info)
    notes = (
        *capture.quality,
        *linked.quality,
        *check_capture(capture, linked),
        *phased.quality,
        *worked.quality,
        *counted.notes,
        *device_notes(match, ceilings),
    )
    return Staged(kernels, steps, gaps, notes, ceilings, match)


def _work(
    capture: Capture, linked: Linked, phased: Phased, options: Options, donors: Sequence[Donor]
) -> Worked:
    """FLOPs and bytes; a preset is looked for by recorded sizes only where a donor was given to read them from."""
    config = None if options.model is None else resolve(options.model, options.data)
    ranks, notes = _ranks(capture, options) if config is not None else (1, ())
    worked = find_work(
        phased.kernels,
        capture,
        linked,
        phased.steps,
        donors=donors,
        config=None if config is None else config.sharded(ranks),
        candidates=tuple(presets(options.data).values()) if donors else (),
    )
    return replace(worked, quality=(*notes, *worked.quality))


def _ranks(capture: Capture, options: Options) -> tuple[int, tuple[QualityNote, ...]]:
    """Ranks that share the model: as given, else all that the capture says its job has."""
    named_ranks = capture.info.world_size or 1
    if options.ranks is not None or named_ranks == 1:
        return options.ranks or 1, ()
    message = f"the model is taken to be shared by all {named_ranks} ranks of the job (tensor parallel); --tp says otherwise"
    return named_ranks, (QualityNote("tensor_parallel", named_ranks, message),)


def _counted(
    kernels: pd.DataFrame, capture: Capture, phased: Phased, options: Options, measured: Measured
) -> Joined:
    """The kernels with what counters say of them, those in the capture itself first."""
    own = () if capture.counters is None else (capture.counters,)
    status = HwStatus.FAILED if measured.failed else HwStatus.NOT_COLLECTED
    return join_counters(kernels, (*own, *measured.counters), phased.steps, options.data, otherwise=status)


def place_after(frame: pd.DataFrame, kernels: int, steps: int) -> pd.DataFrame:
    """The frame with its ids moved up, so that captures can be put together."""
    after = {"kernel_id": kernels, "step_id": steps}
    return frame.assign(**{name: frame[name] + ids for name, ids in after.items() if ids and name in frame})
