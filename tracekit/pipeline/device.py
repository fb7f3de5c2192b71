"""Which device a capture is of, and what that device can do at most."""

import pandas as pd

from tracekit.errors import UnsupportedError
from tracekit.formats import CEILINGS, MeasuredCeilings
from tracekit.link import is_cpu_only
from tracekit.pipeline.loading import Loaded
from tracekit.pipeline.options import Options
from tracekit.roofline import (
    Device,
    DeviceMatch,
    device_ceilings,
    find_devices,
    load_devices,
    match_device,
    pick_device,
    with_calibration,
    with_given,
)
from tracekit.tables import QualityNote
from tracekit.tables.ceilings import Ceilings


def find_ceilings(
    loaded: Loaded, kernels: pd.DataFrame, options: Options
) -> tuple[Ceilings, DeviceMatch | None]:
    """Ceilings of the capture's device: the data sheet's, over them the run's measured ones, over them the user's."""
    table = load_devices(options.data)
    match = None if is_cpu_only(loaded.capture) else _match(loaded, kernels, table)
    ceilings = Ceilings() if match is None or match.row is None else device_ceilings(match.row)
    if options.device is not None:
        ceilings = device_ceilings(_named_device(options.device, table))
    if loaded.run is not None and (loaded.run / CEILINGS).is_file():
        ceilings = with_calibration(ceilings, MeasuredCeilings.read(loaded.run))
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


def device_notes(match: DeviceMatch | None, ceilings: Ceilings) -> list[QualityNote]:
    """What a reader must know of the device and its ceilings."""
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
