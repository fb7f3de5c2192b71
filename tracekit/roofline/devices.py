"""The device table: data-sheet figures with their trust and sources, and finding a row by name."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from tracekit.errors import RegistryError, UnsupportedError
from tracekit.registry import Row, rows

Status = Literal["checked", "single", "conflict", "unverified"]
STATUSES: tuple[Status, ...] = ("checked", "single", "conflict", "unverified")
HOW = Literal["exact", "alias", "properties"]

DTYPES = ("fp64", "fp64_tensor", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
"""Rates that a row may give, in its `tflops`."""

_VENDOR_WORDS = frozenset(
    {"nvidia", "amd", "intel", "r", "tm", "corporation", "geforce", "tesla", "instinct"}
)
_STEP_UP = 1.2
"""Another device's memory is worth naming where it is a fifth faster."""
MIG = re.compile(r"\bMIG\b.*$", re.IGNORECASE)
"""The suffix of a device name that says it is a slice."""

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
        common_for: Short names by which people mean this row, where several rows could be meant.
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
        achievable: FLOP/s that the best known kernels reach, where that was published.
        status: Trust in the row's figures.
        status_of: Trust in single figures where it differs.
        sources: Where the figures come from.
        note: What a reader must know.
    """

    key: str
    name: str
    names: tuple[str, ...]
    aliases: tuple[str, ...]
    common_for: tuple[str, ...]
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
    achievable: dict[str, float]
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
    flops, achievable = _rates(row, "tflops"), _rates(row, "achievable_tflops")
    status_of = _table(row, "status_of", lambda value: value in STATUSES)
    if (status := row.text("status")) not in STATUSES:
        raise RegistryError(row.source, row.key, f"status must be one of {', '.join(STATUSES)}")
    target = row.text("compute_capability", row.text("target", ""))
    sms = row.number("sm_count")
    return Device(
        key=row.key,
        name=row.text("device"),
        names=row.texts("names"),
        aliases=row.texts("aliases"),
        common_for=row.texts("common_for"),
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
        flops=flops,
        achievable=achievable,
        status=status,
        status_of=status_of,
        sources=row.texts("sources"),
        note=row.text("note", ""),
    )


def _rates(row: Row, name: str) -> dict[str, float]:
    """FLOP/s by rate name, from a table in TFLOP/s."""

    def fits(value: object) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0

    found = _table(row, name, fits)
    if odd := [rate for rate in found if rate not in DTYPES]:
        raise RegistryError(
            row.source, row.key, f"unknown rate {odd[0]!r} in {name}; known: {', '.join(DTYPES)}"
        )
    return {rate: float(round(value * 1e12)) for rate, value in found.items()}


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
    words = re.split(r"[^a-z0-9]+", MIG.sub("", name).lower())
    return "".join(word for word in words if word and word not in _VENDOR_WORDS)


def find_devices(text: str, table: Iterable[Device]) -> tuple[Device, ...]:
    """The rows that a user means: by key or by a driver's own string; else by name or alias; else by a part of one.

    A short name that a row is `common_for` means that row first, and all others whose names begin with it: a driver
    may report the same short name for a rarer part.

    Raises:
        UnsupportedError: No row does; the hint gives near names.
    """
    table = tuple(table)
    if exact := tuple(row for row in table if text == row.key or text in row.names):
        return exact
    plain = plain_name(text)
    spelled = {
        row.key: {plain_name(n) for n in (row.key, row.name, *row.names, *row.aliases)} for row in table
    }
    if common := tuple(row for row in table if plain in row.common_for):
        kin = (row for row in table if any(n.startswith(plain) for n in spelled[row.key]))
        return (*common, *(row for row in kin if row not in common))
    whole = tuple(row for row in table if plain in spelled[row.key])
    found = whole or tuple(row for row in table if plain and any(plain in n for n in spelled[row.key]))
    if found:
        return found
    near = get_close_matches(plain, [plain_name(row.key) for row in table], n=5, cutoff=0.5)
    keys = [row.key for row in table if plain_name(row.key) in near]
    hint = f"near: {', '.join(keys)}" if keys else "`tracekit devices` lists all"
    raise UnsupportedError(f"no device is named {text!r}", hint=hint)


def choose_device(text: str, table: Iterable[Device]) -> tuple[Device, str]:
    """The one row that a user means by a name, and a note that lists what else it could mean; empty if nothing.

    Raises:
        UnsupportedError: No row is meant, or several are and none of them is `common_for` the name.
    """
    first, *others = find_devices(text, table)
    if not others:
        return first, ""
    rest = ", ".join(row.key for row in others)
    if plain_name(text) not in first.common_for:
        raise UnsupportedError(
            f"--device {text!r} names {1 + len(others)} devices", hint=f"one of {first.key}, {rest}"
        )
    return first, f"{text!r} is taken to be {first.name}; it could also mean {rest}"


def other_memories(name: str | None, table: Iterable[Device]) -> dict[str, float]:
    """DRAM byte/s of devices that could stand in for one, by name; empty where the one is not in the table.

    Those of its vendor and form (a PCIe card is no advice for an NVLink board) whose 16-bit rate is not lower.
    """
    table = tuple(table)
    own = next((row for row in table if row.name == name), None)
    if own is None:
        return {}
    return {
        row.name: row.dram
        for row in table
        if row.dram is not None
        and (row.vendor, _form(row)) == (own.vendor, _form(own))
        and _wide(row) >= _wide(own)
    }


def next_memory(name: str | None, table: Iterable[Device]) -> Device | None:
    """The device with the least DRAM rate that is a fifth above that of the named one, of those that could stand in."""
    table = tuple(table)
    own = next((row.dram for row in table if row.name == name), None)
    if own is None:
        return None
    faster = {other: rate for other, rate in other_memories(name, table).items() if rate >= _STEP_UP * own}
    nearest = min(faster, key=lambda other: faster[other], default=None)
    return next((row for row in table if row.name == nearest), None)


def _wide(row: Device) -> float:
    """Its dense 16-bit rate [FLOP/s]."""
    return row.flops.get("bf16") or row.flops.get("fp16") or 0.0


def _form(row: Device) -> str:
    """What a board plugs into, by its link: PCIe, NVLink, Infinity Fabric."""
    return re.split(r"[\d ]", row.link_kind, maxsplit=1)[0]
