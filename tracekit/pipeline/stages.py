"""The stages in order, for one capture."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from tracekit.checks import check_capture, sane_times
from tracekit.classify import classify, find_gaps
from tracekit.errors import UnsupportedError
from tracekit.formats import MeasuredCeilings
from tracekit.link import is_cpu_only, link
from tracekit.phase import label
from tracekit.pipeline.loading import Loaded
from tracekit.pipeline.options import Options
from tracekit.roofline import (
    apply_roofs,
    device_ceilings,
    find_devices,
    load_devices,
    match_device,
    pick_device,
    step_rates,
    with_given,
    with_measured,
)
from tracekit.roofline.devices import Device, DeviceMatch
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
        *_device_notes(match, ceilings),
    )
    return Staged(kernels, steps, gaps, notes, ceilings, match)


def _without_counters(kernels: pd.DataFrame) -> pd.DataFrame:
    """The kernels as they are where no counters were collected: nothing measured, and said so."""
    status = pd.Categorical([str(HwStatus.NOT_COLLECTED)] * len(kernels), [str(word) for word in HwStatus])
    return kernels.assign(flops_hw=np.nan, dram_bytes_hw=np.nan, hw_status=status)


def find_ceilings(
    loaded: Loaded, kernels: pd.DataFrame, options: Options
) -> tuple[Ceilings, DeviceMatch | None]:
    """Ceilings of the capture's device: the data sheet's, over them the run's measured ones, over them the user's."""
    table = load_devices(options.data)
    match = None if is_cpu_only(loaded.capture) else _match(loaded, kernels, table)
    ceilings = Ceilings() if match is None or match.row is None else device_ceilings(match.row)
    if options.device is not None:
        ceilings = device_ceilings(_named_device(options.device, table))
    if loaded.run is not None:
        ceilings = _measured(ceilings, loaded.run)
    return with_given(ceilings, options.peaks, options.dram), match


def _match(loaded: Loaded, kernels: pd.DataFrame, table: tuple[Device, ...]) -> DeviceMatch:
    used = kernels["device"].dropna().unique()
    index = int(used[0]) if len(used) == 1 else None
    properties = pick_device(loaded.capture.info.devices, index)
    if properties is None:
        return DeviceMatch(None, None, "the capture names no device")
    return match_device(properties, table)


def _named_device(name: str, table: tuple[Device, ...]) -> Device:
    found = find_devices(name, table)
    if len(found) != 1:
        names = ", ".join(device.name for device in found[:6]) or "none"
        raise UnsupportedError(
            f"--device {name!r} names {len(found)} devices",
            hint=f"found: {names}; `tracekit devices` lists all",
        )
    return found[0]


def _measured(base: Ceilings, run: Path) -> Ceilings:
    found = MeasuredCeilings.read(run) if (run / "ceilings.json").is_file() else None
    if found is None:
        return base
    return with_measured(
        base,
        flops_per_s=found.flops_per_s(),
        dram_bytes_per_s=found.dram_bytes_per_s(),
        host_link_bytes_per_s=found.host_link.get("host_to_device_bytes_per_s"),
        launch_floor_ns=found.launch_overhead_ns,
        source="measured in the same run",
    )


def _device_notes(match: DeviceMatch | None, ceilings: Ceilings) -> list[QualityNote]:
    found = []
    if match is not None and match.note:
        found.append(QualityNote("device", 1, match.note))
    if ceilings.dram.used is None:
        found.append(
            QualityNote(
                "no_ceilings",
                1,
                "no ceilings are known for this device: rates are shown without percentages; give --device NAME, or --peak and --dram",
            )
        )
    return found


def place_after(frame: pd.DataFrame, kernels: int, steps: int) -> pd.DataFrame:
    """The frame with its ids moved up, so that captures can be put together."""
    out = frame.copy()
    if "kernel_id" in out:
        out["kernel_id"] = out["kernel_id"] + kernels
    if "step_id" in out:
        out["step_id"] = out["step_id"] + steps
    return out
