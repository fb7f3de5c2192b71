"""Roofline: which device it is, what it can do at most, and how far each kernel is from that."""

from tracekit.roofline.apply import apply_roofs, mbu, mfu, step_rates, unknown_peaks
from tracekit.roofline.ceilings import (
    PEAK_WORDS,
    device_ceilings,
    parse_peak,
    parse_rate,
    with_calibration,
    with_given,
    with_measured,
    with_reported,
)
from tracekit.roofline.devices import (
    Device,
    DeviceMatch,
    choose_device,
    find_devices,
    load_devices,
    next_memory,
    other_memories,
)
from tracekit.roofline.matching import match_device, pick_device

__all__ = [
    "PEAK_WORDS",
    "Device",
    "DeviceMatch",
    "apply_roofs",
    "choose_device",
    "device_ceilings",
    "find_devices",
    "load_devices",
    "match_device",
    "mbu",
    "mfu",
    "next_memory",
    "other_memories",
    "parse_peak",
    "parse_rate",
    "pick_device",
    "step_rates",
    "unknown_peaks",
    "with_calibration",
    "with_given",
    "with_measured",
    "with_reported",
]
