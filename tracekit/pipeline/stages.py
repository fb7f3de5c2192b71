"""The stages in order, for one capture."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tracekit.checks import check_capture, sane_times
from tracekit.classify import classify, find_gaps
from tracekit.link import link
from tracekit.phase import label
from tracekit.pipeline.device import device_notes, find_ceilings
from tracekit.pipeline.loading import Loaded
from tracekit.pipeline.options import Options
from tracekit.roofline import DeviceMatch, apply_roofs, step_rates
from tracekit.tables import HwStatus, Linked, QualityNote
from tracekit.tables.ceilings import Ceilings
from tracekit.taxonomy import name_families
from tracekit.work import model_work


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


def named(loaded: Loaded) -> Linked:
    """The capture linked, its kernels with families."""
    linked = link(loaded.capture)
    return Linked(name_families(linked.kernels), linked.ops, linked.quality)


def run_stages(loaded: Loaded, options: Options) -> Staged:
    """Link, name, phase, work, roofline, classify, gaps."""
    capture = sane_times(loaded.capture)
    loaded = replace(loaded, capture=capture)
    linked = named(loaded)
    phased = label(linked.kernels, capture, linked, options.data)
    ceilings, match = find_ceilings(loaded, linked.kernels, options)
    kernels = model_work(phased.kernels, linked.ops, capture.signatures, phased.steps)
    kernels = _without_counters(kernels)
    kernels = classify(apply_roofs(kernels, ceilings), ceilings)
    steps = step_rates(kernels, phased.steps, ceilings)
    gaps = find_gaps(kernels, steps, capture.runtime_calls, capture.info)
    notes = (
        *capture.quality,
        *linked.quality,
        *check_capture(capture, linked),
        *phased.quality,
        *device_notes(match, ceilings),
    )
    return Staged(kernels, steps, gaps, notes, ceilings, match)


def _without_counters(kernels: pd.DataFrame) -> pd.DataFrame:
    """The kernels as they are where no counters were collected: nothing measured, and said so."""
    status = pd.Categorical([str(HwStatus.NOT_COLLECTED)] * len(kernels), [str(word) for word in HwStatus])
    return kernels.assign(flops_hw=np.nan, dram_bytes_hw=np.nan, hw_status=status)


def place_after(frame: pd.DataFrame, kernels: int, steps: int) -> pd.DataFrame:
    """The frame with its ids moved up, so that captures can be put together."""
    out = frame.copy()
    if "kernel_id" in out:
        out["kernel_id"] = out["kernel_id"] + kernels
    if "step_id" in out:
        out["step_id"] = out["step_id"] + steps
    return out
