"""Calibrations of devices, kept for the user and found again by what device a capture is of."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError
from tracekit.formats import CEILINGS, MeasuredCeilings

_MEMORY_WITHIN = 0.01
"""Drivers of one card differ by so much in the memory that they report."""


def calibrations_folder() -> Path:
    """Where calibrations are kept: the user's configuration folder."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "tracekit" / "calibrations"


def folder_for(device: Mapping[str, Any]) -> Path:
    """The folder of a device's calibration, named by its identity.

    Args:
        device: `name`, `cores` (SMs of a GPU) and `memory_bytes`, as `MeasuredCeilings.device` has them.
    """
    parts = (device.get("name"), device.get("cores"), device.get("memory_bytes"))
    words = [re.sub(r"[^A-Za-z0-9]+", "-", str(part)).strip("-").lower() for part in parts]
    return calibrations_folder() / "_".join(words)


def find_calibration(
    name: str | None, cores: int | None, memory_bytes: int | None, *, is_cpu: bool
) -> MeasuredCeilings | None:
    """The kept calibration of a device; None where there is none, or where it cannot be told to be the same.

    Args:
        name: The device's name.
        cores: Its SMs, or the threads that a run used on a CPU.
        memory_bytes: Its memory; of no matter on a CPU.
        is_cpu: Whether it is a CPU.
    """
    if name is None or cores is None or (memory_bytes is None and not is_cpu):
        return None
    for path in sorted(calibrations_folder().glob(f"*/{CEILINGS}")):
        try:
            found = MeasuredCeilings.read(path)
        except TracekitError:
            # A file that broke since must not keep a report from being made.
            continue
        if _is_same(found.device, name, cores, None if is_cpu else memory_bytes):
            return found
    return None


def _is_same(kept: Mapping[str, Any], name: str, cores: int, memory_bytes: int | None) -> bool:
    if kept.get("name") != name or kept.get("cores") != cores:
        return False
    if memory_bytes is None:
        return kept.get("kind") == "cpu"
    known = kept.get("memory_bytes")
    return isinstance(known, int) and abs(known - memory_bytes) <= _MEMORY_WITHIN * memory_bytes
