"""Which row of the device table a capture's device is, without ever taking another device for it."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from tracekit.errors import RegistryError, UnsupportedError
from tracekit.registry import Row, rows
from tracekit.tables.capture import DeviceProperties

Status = Literal["checked", "single", "conflict", "unverified"]
STATUSES: tuple[Status, ...] = ("checked", "single", "conflict", "unverified")
HOW = Literal["exact", "alias", "properties"]

DTYPES = ("fp64", "fp64_tensor", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
"""Rates that a row may give, in its `tflops`."""

_TOLERANCE = 0.08
_GIB = 2**30
_VENDOR_WORDS = frozenset(
    {"nvidia", "amd", "intel", "r", "tm", "corporation", "geforce", "tesla", "instinct"}
)
_MIG = re.compile(r"\bMIG\b.*$", re.IGNORECASE)
# What drivers print when they do not know the product: says nothing of which device it is.
_ANONYMOUS = frozenset({"", "radeongraphics", "graphics", "graphicsdevice", "gpu", "hpu", "xpu"})
# The compute capability that ROCm reports for a gfx target.
_HIP_CAPABILITY = {"gfx90a": (9, 0), "gfx942": (9, 4), "gfx950": (9, 5)}


@dataclass(frozen=True, slots=True)
class Device:
    """One device as tracekit knows it; None is not supported or not known.

    Attributes:
        key: Stable key of the row.
        name: Name for people.
        names: Strings that drivers report for it.
        aliases: Other spellings.
        vendor: nvidia, amd or intel.
        arch: Architecture.
        capability: Compute capability (major, minor), of ROCm devices as ROCm reports it.
        target: `9.0` or `gfx942`, as written in the row.
        sm_count: Streaming multiprocessors, compute units or vector engines.
        boost_mhz: Maximum SM clock.
        tensor_mhz: Clock at which the published tensor peak holds, where it is lower.
        memory_gb: Memory in GB as sold.
        memory_bytes: Memory in bytes as the driver reports it, where seen.
        dram: DRAM byte/s.
        l2_bytes: L2 in bytes.
        llc_bytes: A further cache behind L2, in bytes.
        link: Byte/s per direction to a peer.
        link_kind: What that link is.
        tdp_w: Power limit in watts.
        flops: Dense FLOP/s by rate name of `DTYPES`.
        status: Trust in the row's figures.
        status_of: Trust in single figures where it differs.
        sources: Where the figures come from.
        note: What a reader must know.
    """

    key: str
    name: str
    names: tuple[str, ...]
    aliases: tuple[str, ...]
    vendor: str
    arch: str
    capability: tuple[int, int] | None
    target: str
    sm_count: int | None
    boost_mhz: float | None
    tensor_mhz: float | None
    memory_gb: float | None
    memory_bytes: float | None
    dram: float | None
    l2_bytes: float | None
    llc_bytes: float | None
    link: float | None
    link_kind: str
    tdp_w: float | None
    flops: dict[str, float]
    status: str
    status_of: dict[str, str]
    sources: tuple[str, ...]
    note: str

    def trust(self, figure: str) -> str:
        """Trust in one figure: a rate of `DTYPES`, or a field of the row such as `dram_gb_per_s`."""
        return self.status_of.get(figure, self.status)


@dataclass(frozen=True, slots=True)
class DeviceMatch:
    """The row that a capture's device is, scaled where only a part of it is used.

    Attributes:
        row: The device; None where none can be named.
        how: By which evidence; None where there is no row.
        note: What the reader must know of the match.
    """

    row: Device | None
    how: HOW | None
    note: str = ""


def load_devices(extra: Sequence[Path] = ()) -> tuple[Device, ...]:
    """The device table, user rows first; a user's row replaces the shipped one of the same key.

    Args:
        extra: Folders given with `--data`.

    Raises:
        RegistryError: A row lacks a field, has one of a wrong type, or an unknown rate or status.
    """
    out: dict[str, Device] = {}
    for row in rows("devices", tuple(extra)):
        out.setdefault(row.key, _device(row))
    return tuple(out.values())


def _device(row: Row) -> Device:
    flops = _table(
        row,
        "tflops",
        lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0,
    )
    status_of = _table(row, "status_of", lambda value: value in STATUSES)
    if odd := [name for name in flops if name not in DTYPES]:
        raise RegistryError(
            row.source, row.key, f"unknown rate {odd[0]!r} in tflops; known: {', '.join(DTYPES)}"
        )
    if (status := row.text("status")) not in STATUSES:
        raise RegistryError(row.source, row.key, f"status must be one of {', '.join(STATUSES)}")
    target = row.text("compute_capability", row.text("target", ""))
    sms = row.number("sm_count")
    return Device(
        key=row.key,
        name=row.text("device"),
        names=row.texts("names"),
        aliases=row.texts("aliases"),
        vendor=row.text("vendor"),
        arch=row.text("arch"),
        capability=_capability(target),
        target=target,
        sm_count=None if sms is None else int(sms),
        boost_mhz=row.number("boost_mhz"),
        tensor_mhz=row.number("tensor_mhz"),
        memory_gb=row.number("memory_gb"),
        memory_bytes=row.number("memory_bytes"),
        dram=_times(row.number("dram_gb_per_s"), 1e9),
        l2_bytes=_times(row.number("l2_mib"), 2**20),
        llc_bytes=_times(row.number("llc_mib"), 2**20),
        link=_times(row.number("link_gb_per_s"), 1e9),
        link_kind=row.text("link", ""),
        tdp_w=row.number("tdp_w"),
        flops={name: float(round(value * 1e12)) for name, value in flops.items()},
        status=status,
        status_of=status_of,
        sources=row.texts("sources"),
        note=row.text("note", ""),
    )


def _table(row: Row, name: str, fits: Callable[[Any], bool]) -> dict[str, Any]:
    values = row.values.get(name, {})
    if not isinstance(values, dict):
        raise RegistryError(row.source, row.key, f"{name!r} must be a table")
    if odd := [key for key, value in values.items() if not fits(value)]:
        raise RegistryError(row.source, row.key, f"{name}.{odd[0]} has a value that does not fit")
    return dict(values)


def _times(value: float | None, unit: float) -> float | None:
    return None if value is None else value * unit


def _capability(target: str) -> tuple[int, int] | None:
    if target in _HIP_CAPABILITY:
        return _HIP_CAPABILITY[target]
    major, _, minor = target.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def plain_name(name: str) -> str:
    """A name without case, spacing, punctuation, vendor words and MIG suffix: for comparison only."""
    words = re.split(r"[^a-z0-9]+", _MIG.sub("", name).lower())
    return "".join(word for word in words if word and word not in _VENDOR_WORDS)


def pick_device(devices: Sequence[DeviceProperties], index: int | None) -> DeviceProperties | None:
    """The device that events name by `index`.

    Slices list one device and keep the index of the whole machine, so an index that is not listed means the
    listed device where all listed ones are alike.
    """
    for device in devices:
        if device.index == index:
            return device
    alike = {
        (
            d.name,
            d.compute_major,
            d.compute_minor,
            d.sm_count,
            d.memory_bytes // _GIB if d.memory_bytes else None,
        )
        for d in devices
    }
    return devices[0] if len(alike) == 1 else None


def match_device(properties: DeviceProperties, table: Iterable[Device]) -> DeviceMatch:
    """The row of a device: by exact name, then by alias, then by (capability, SM count, memory within 8 %).

    A name that several rows share is decided by those properties. A name that says what the device is and
    that no row has is no match, whatever the properties: another device is never taken for it. Where fewer SMs
    are reported than the row has (a MIG slice, a smaller die), compute is scaled by SMs; bandwidth and cache are
    kept only if the memory is that of the row.
    """
    table = tuple(table)
    name = (properties.name or "").strip()
    named, how = _by_name(name, table)
    if how is not None:
        return _decide(properties, named, how, table)
    if plain_name(name) not in _ANONYMOUS:
        close = _like(properties, table)
        hint = f"; its properties resemble {close[0].name}" if close else ""
        return DeviceMatch(
            None, None, f"no row for {name!r}{hint}; give --device, --data or --peak and --dram"
        )
    return _by_properties(properties, table)


def _by_name(name: str, table: tuple[Device, ...]) -> tuple[tuple[Device, ...], HOW | None]:
    exact = tuple(row for row in table if name and name in row.names)
    if exact:
        return exact, "exact"
    plain = plain_name(name)
    alias = tuple(
        row for row in table if plain and plain in {plain_name(n) for n in (*row.names, *row.aliases)}
    )
    return alias, "alias" if alias else None


def _memory_fits(properties: DeviceProperties, row: Device) -> bool | None:
    if not properties.memory_bytes or not (row.memory_bytes or row.memory_gb):
        return None
    sizes = (
        [row.memory_bytes] if row.memory_bytes else [(row.memory_gb or 0) * 1e9, (row.memory_gb or 0) * _GIB]
    )
    return any(abs(properties.memory_bytes / size - 1) <= _TOLERANCE for size in sizes)


def _fit(properties: DeviceProperties, row: Device) -> int:
    """How many of SM count and memory agree; capability that disagrees rules a row out."""
    capability = (properties.compute_major, properties.compute_minor)
    if None not in capability and row.capability not in (None, capability):
        return -1
    return int(properties.sm_count == row.sm_count) + int(_memory_fits(properties, row) is True)


def _decide(
    properties: DeviceProperties, named: tuple[Device, ...], how: HOW, table: tuple[Device, ...]
) -> DeviceMatch:
    scores = [_fit(properties, row) for row in named]
    best = max(scores)
    if best < 0:
        return DeviceMatch(
            None,
            None,
            f"{properties.name!r} reports compute capability {properties.compute_major}.{properties.compute_minor}, which its row does not have",
        )
    chosen = [row for row, score in zip(named, scores, strict=True) if score == best]
    if len(chosen) > 1:
        return DeviceMatch(
            None,
            None,
            f"{properties.name!r} is the name of {' and of '.join(r.name for r in chosen)}; the properties do not tell them apart: give --device",
        )
    row = chosen[0]
    if _memory_fits(properties, row) is False:
        # The same name on another part (NVIDIA H100 of 80 and 96 GB): its sibling must share the name's start.
        plain = plain_name(properties.name or "")
        kin = [r for r in _like(properties, table) if any(plain_name(n).startswith(plain) for n in r.names)]
        if len(kin) == 1:
            return DeviceMatch(kin[0], "properties", f"{properties.name!r} with this memory is {kin[0].name}")
    return _fitted(properties, row, how)


def _fitted(properties: DeviceProperties, row: Device, how: HOW) -> DeviceMatch:
    mig = bool(_MIG.search(properties.name or ""))
    sms, whole = properties.sm_count, row.sm_count
    if mig and sms is None:
        return DeviceMatch(
            None,
            None,
            f"{properties.name!r} is a slice of {row.name} and the capture does not say of how many SMs: no ceiling",
        )
    memory = _memory_fits(properties, row)
    if sms is not None and whole is not None and sms > whole:
        return DeviceMatch(
            None,
            None,
            f"{properties.name!r} reports {sms} SMs, more than the {whole} of {row.name}: no ceiling",
        )
    if sms is not None and whole is not None and sms < whole:
        return DeviceMatch(
            _scaled(row, sms, whole, keep_memory=memory is True and not mig),
            how,
            _scale_note(row, sms, memory=memory is True and not mig),
        )
    if memory is False:
        size = f"{(properties.memory_bytes or 0) / 1e9:.1f} GB"
        return DeviceMatch(
            replace(row, dram=None),
            how,
            f"{row.name} with {size} is another part than the table's: DRAM bandwidth unknown",
        )
    return DeviceMatch(row, how)


def _scaled(row: Device, sms: int, whole: int, *, keep_memory: bool) -> Device:
    scaled = {name: value * sms / whole for name, value in row.flops.items()}
    if keep_memory:
        return replace(row, sm_count=sms, flops=scaled)
    return replace(row, sm_count=sms, flops=scaled, dram=None, l2_bytes=None, llc_bytes=None, link=None)


def _scale_note(row: Device, sms: int, *, memory: bool) -> str:
    rest = "memory is that of the whole" if memory else "a slice: its DRAM bandwidth and L2 are unknown"
    return f"{sms} of the {row.sm_count} SMs of {row.name}: compute scaled by SMs; {rest}"


def _like(properties: DeviceProperties, table: tuple[Device, ...]) -> list[Device]:
    capability = (properties.compute_major, properties.compute_minor)
    return [
        r
        for r in table
        if r.capability == capability and r.sm_count == properties.sm_count and _memory_fits(properties, r)
    ]


def _by_properties(properties: DeviceProperties, table: tuple[Device, ...]) -> DeviceMatch:
    found = _like(properties, table)
    if not found:
        return DeviceMatch(
            None, None, "the capture does not name its device, and no row has its properties; give --device"
        )
    first = found[0]
    names = " or ".join(row.name for row in found)
    if len(found) == 1:
        return DeviceMatch(
            first, "properties", f"not named; capability, SM count and memory are those of {first.name}"
        )
    if all(row.flops == first.flops and row.dram == first.dram for row in found):
        return DeviceMatch(
            replace(first, link=None),
            "properties",
            f"not named; {names}: same compute and DRAM figures, link unknown",
        )
    return DeviceMatch(None, None, f"not named; could be {names}: give --device")


def find_devices(text: str, table: Iterable[Device]) -> tuple[Device, ...]:
    """The rows that a user means: by key, name or alias; else those whose name holds the text.

    Raises:
        UnsupportedError: No row does; the hint gives near names.
    """
    table = tuple(table)
    plain = plain_name(text)
    spelled = {
        row.key: {plain_name(n) for n in (row.key, row.name, *row.names, *row.aliases)} for row in table
    }
    whole = tuple(row for row in table if text == row.key or plain in spelled[row.key])
    found = whole or tuple(row for row in table if plain and any(plain in n for n in spelled[row.key]))
    if found:
        return found
    near = get_close_matches(plain, [plain_name(row.key) for row in table], n=5, cutoff=0.5)
    keys = [row.key for row in table if plain_name(row.key) in near]
    hint = f"near: {', '.join(keys)}" if keys else "`tracekit devices` lists all"
    raise UnsupportedError(f"no device is named {text!r}", hint=hint)
