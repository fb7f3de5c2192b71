"""Which device a capture is of, and what that device can do at most."""

from dataclasses import replace

import pandas as pd

from tracekit.formats import CEILINGS, RUN, MeasuredCeilings, RunManifest
from tracekit.link import is_cpu_only
from tracekit.pipeline.calibration import find_calibration
from tracekit.pipeline.loading import Loaded
from tracekit.pipeline.options import Options
from tracekit.roofline import (
    Device,
    DeviceMatch,
    choose_device,
    device_ceilings,
    load_devices,
    match_device,
    pick_device,
    with_calibration,
    with_given,
    with_reported,
)
from tracekit.tables import DeviceProperties, QualityNote
from tracekit.tables.ceilings import Ceilings


def find_ceilings(
    loaded: Loaded, kernels: pd.DataFrame, options: Options
) -> tuple[Ceilings, DeviceMatch | None]:
    """Ceilings of the capture's device.

    The data sheet's, or what the capture reports of its GPU; over them what the run measured, or else the user's calibration of the same device; over all
    what the user gave.
    """
    table = load_devices(options.data)
    match = None if is_cpu_only(loaded.capture) else _match(loaded, kernels, table)
    ceilings = Ceilings() if match is None or match.row is None else device_ceilings(match.row)
    if options.device is not None:
        row, note = choose_device(options.device, table)
        ceilings = replace(device_ceilings(row), notes=(note,) if note else ())
    elif match is not None:
        ceilings = with_reported(ceilings, _properties(loaded, kernels))
    if loaded.run is not None and (loaded.run / CEILINGS).is_file():
        ceilings = with_calibration(ceilings, MeasuredCeilings.read(loaded.run))
    elif options.device is None and (kept := _kept(loaded, kernels)) is not None:
        ceilings = with_calibration(ceilings, kept)
    return with_given(ceilings, options.peaks, options.dram), match


def _kept(loaded: Loaded, kernels: pd.DataFrame) -> MeasuredCeilings | None:
    """The user's calibration of the capture's device: on a CPU by the run's own description of it."""
    if is_cpu_only(loaded.capture):
        if loaded.run is None or not (loaded.run / RUN).is_file():
            return None
        device = RunManifest.read(loaded.run).device
        return find_calibration(device.get("name"), device.get("cores"), None, is_cpu=True)
    properties = _properties(loaded, kernels)
    if properties is None:
        return None
    return find_calibration(properties.name, properties.sm_count, properties.memory_bytes, is_cpu=False)


def _properties(loaded: Loaded, kernels: pd.DataFrame) -> DeviceProperties | None:
    used = kernels["device"].dropna().unique()
    return pick_device(loaded.capture.info.devices, int(used[0]) if len(used) == 1 else None)


def _match(loaded: Loaded, kernels: pd.DataFrame, table: tuple[Device, ...]) -> DeviceMatch:
    properties = _properties(loaded, kernels)
    if properties is None:
        return DeviceMatch(None, None, "the capture names no device")
    return match_device(properties, table)


def device_notes(match: DeviceMatch | None, ceilings: Ceilings) -> list[QualityNote]:
    """What a reader must know of the device and its ceilings."""
    found = []
    if match is not None and match.note:
        found.append(QualityNote("device", 1, match.note))
    found += [QualityNote("device", 1, note) for note in ceilings.notes]
    if ceilings.dram.used is None:
        found.append(
            QualityNote(
                "no_ceilings",
                1,
                "no ceilings are known for this device: rates are shown without percentages; give --device NAME, or --peak and --dram",
            )
        )
    return found
