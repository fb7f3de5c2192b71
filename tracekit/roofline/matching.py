"""Which row of the device table a capture's device is, without ever taking another device for it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tracekit.roofline.devices import HOW, MIG, Device, DeviceMatch, plain_name
from tracekit.tables.capture import DeviceProperties

_TOLERANCE = 0.08
_GIB = 2**30
# What drivers print when they do not know the product: says nothing of which device it is.
_ANONYMOUS = frozenset({"", "radeongraphics", "graphics", "graphicsdevice", "gpu", "hpu", "xpu"})


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
    mig = bool(MIG.search(properties.name or ""))
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
    part = replace(
        row,
        sm_count=sms,
        flops={name: value * sms / whole for name, value in row.flops.items()},
        achievable={name: value * sms / whole for name, value in row.achievable.items()},
    )
    return part if keep_memory else replace(part, dram=None, l2_bytes=None, llc_bytes=None, link=None)


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
