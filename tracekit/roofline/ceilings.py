"""Ceilings from a device row, from a calibration, and from the command line; the later wins over the earlier."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tracekit.errors import CaptureError, UsageError
from tracekit.formats import MeasuredCeilings
from tracekit.roofline.devices import Device
from tracekit.tables import DeviceProperties
from tracekit.tables.ceilings import UNKNOWN_ROOF, Ceilings, Roof

PEAK_WORDS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4", "vector")
"""Words of the `peak` column: dtypes of matrix units, and `vector` for the plain FP32 units."""

COMPUTE_REACH, DRAM_REACH, LINK_REACH = 0.8, 0.9, 0.8
"""Shares of data-sheet rates that good kernels reach where nothing better is known: large GEMMs on Hopper 0.75 to
0.80, large copies 0.88 to 0.92."""

_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_RATE = re.compile(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([kMGTP]?)(?:FLOP/s|FLOPS|B/s|Bps)?\s*")


def device_ceilings(device: Device) -> Ceilings:
    """The data-sheet ceilings of a device row.

    The `vector` roof is the row's fp32 rate; fp64 is the matrix rate where the device has one.
    """
    where = f"{device.name}, {device.sources[0]}" if device.sources else device.name

    def roof(value: float | None, figure: str, reach: float = COMPUTE_REACH) -> Roof:
        if value is None:
            return UNKNOWN_ROOF
        known = device.achievable.get(figure)
        return Roof(
            spec=value,
            source=where,
            status=device.trust(figure),
            reach=reach if known is None else known / value,
            reach_known=known is not None,
        )

    rates = {word: word for word in PEAK_WORDS if word in device.flops}
    if "fp32" in device.flops:
        rates["vector"] = "fp32"
    if "fp64_tensor" in device.flops:
        rates["fp64"] = "fp64_tensor"
    link = roof(device.link, "link_gb_per_s", LINK_REACH)
    return Ceilings(
        device=device.name,
        peaks={word: roof(device.flops[rate], rate) for word, rate in rates.items()},
        dram=roof(device.dram, "dram_gb_per_s", DRAM_REACH),
        link=link,
        # An SXM or OAM part names its peer link; its host link is not in the table.
        host_link=link if device.link_kind.startswith("PCIe") else UNKNOWN_ROOF,
        sm_count=device.sm_count,
        l2_bytes=device.l2_bytes,
    )


def with_measured(
    base: Ceilings,
    *,
    flops_per_s: Mapping[str, float],
    dram_bytes_per_s: float | None = None,
    host_link_bytes_per_s: float | None = None,
    link_bytes_per_s: float | None = None,
    launch_floor_ns: float | None = None,
    source: str = "calibrate",
) -> Ceilings:
    """The ceilings with what a microbenchmark measured on this machine.

    Args:
        base: Data-sheet ceilings; `Ceilings()` where no device is known.
        flops_per_s: Largest GEMM rate by dtype word [FLOP/s]. fp32 is the `vector` roof too unless given.
        dram_bytes_per_s: Largest copy, read or triad rate [byte/s].
        host_link_bytes_per_s: Pinned host to device rate [byte/s].
        link_bytes_per_s: Rate to a peer device [byte/s].
        launch_floor_ns: Time of an empty kernel or op [ns].
        source: Where the figures come from, for the report.

    Raises:
        CaptureError: A figure is not a positive finite number, or a word is not a dtype.
    """
    if odd := [word for word in flops_per_s if word not in PEAK_WORDS]:
        raise CaptureError(source, f"unknown dtype {odd[0]!r}; known: {', '.join(PEAK_WORDS)}")

    def measured(roof: Roof, value: float | None, what: str) -> Roof:
        if value is None:
            return roof
        return replace(roof, measured=_positive(value, what, source), source=source, status="measured")

    rates = dict(flops_per_s)
    # Where plain arithmetic and fp32 products have one peak, or no data sheet tells (a CPU), the fp32 GEMM is the best
    # that plain arithmetic was seen to do.
    if "fp32" in rates and base.peak("vector").spec in {None, base.peak("fp32").spec}:
        rates.setdefault("vector", rates["fp32"])
    peaks = dict(base.peaks)
    for word, value in rates.items():
        peaks[word] = measured(base.peak(word), value, word)
    return replace(
        base,
        peaks=peaks,
        dram=measured(base.dram, dram_bytes_per_s, "dram"),
        link=measured(base.link, link_bytes_per_s, "link"),
        host_link=measured(base.host_link, host_link_bytes_per_s, "host_link"),
        launch_floor_ns=base.launch_floor_ns
        if launch_floor_ns is None
        else _positive(launch_floor_ns, "launch_floor", source),
    )


def with_calibration(base: Ceilings, found: MeasuredCeilings) -> Ceilings:
    """The ceilings with those of a `ceilings.json`; its method is the source that a report shows.

    Where no device row is known (a CPU), the machine's name and last-level cache are taken from it too.

    Raises:
        CaptureError: It holds a figure that is no rate.
    """
    measured = with_measured(
        base,
        flops_per_s=found.flops_per_s(),
        dram_bytes_per_s=found.dram_bytes_per_s(),
        host_link_bytes_per_s=max(found.host_link.values(), default=None),
        link_bytes_per_s=max(found.peer_link.values(), default=None),
        launch_floor_ns=found.launch_overhead_ns,
        source=found.method,
    )
    thin = {word: rows for word, peak in found.peaks.items() if (rows := _thin(peak.get("by_shape")))}
    cache = found.device.get("llc_bytes")
    name = found.device.get("name")
    return replace(
        measured,
        device=measured.device or (name if isinstance(name, str) else None),
        thin=thin,
        l2_bytes=float(cache)
        if measured.l2_bytes is None and isinstance(cache, (int, float))
        else measured.l2_bytes,
    )


def with_reported(base: Ceilings, properties: DeviceProperties | None) -> Ceilings:
    """The ceilings with what the capture says of its GPU, where no data sheet is known.

    A driver computes the bandwidth from clock and bus width, so it is a peak like a data sheet's, and unchecked.
    """
    if properties is None:
        return base
    dram, notes = base.dram, base.notes
    if dram.used is None and properties.memory_bytes_per_s is not None:
        rate = float(properties.memory_bytes_per_s)
        dram = Roof(spec=rate, source="reported by the capture", status="reported", reach=DRAM_REACH)
        notes = (*notes, f"DRAM bandwidth ({rate / 1e9:.4g} GB/s) is what the capture reports of its GPU")
    return replace(
        base,
        dram=dram,
        notes=notes,
        l2_bytes=_first(base.l2_bytes, properties.l2_bytes),
        sm_count=properties.sm_count if base.sm_count is None else base.sm_count,
    )


def _first(known: float | None, reported: int | None) -> float | None:
    return float(reported) if known is None and reported is not None else known


def _thin(by_shape: object) -> dict[int, float]:
    """Rates of the products [M, N, N] of the largest N, by M; what is no rate or no shape is left out."""
    found: dict[int, dict[int, float]] = {}
    for shape, rate in by_shape.items() if isinstance(by_shape, dict) else ():
        sizes = str(shape).split("x")
        known = len(sizes) == 3 and all(size.isdigit() for size in sizes)  # noqa: PLR2004 - M, N, K
        if known and sizes[1] == sizes[2] and isinstance(rate, (int, float)) and rate > 0:
            found.setdefault(int(sizes[1]), {})[int(sizes[0])] = float(rate)
    return found[max(found)] if found else {}


def with_given(base: Ceilings, peaks: Mapping[str, float], dram: float | None = None) -> Ceilings:
    """The ceilings with what the user gave; nothing measured outranks it."""
    own = {
        word: Roof(spec=value, source="given with --peak", status="given") for word, value in peaks.items()
    }
    if "fp32" in own:
        own.setdefault("vector", own["fp32"])
    bandwidth = (
        base.dram
        if dram is None
        else Roof(spec=dram, source="given with --dram", status="given", reach=DRAM_REACH)
    )
    return replace(base, peaks={**base.peaks, **own}, dram=bandwidth)


def _positive(value: Any, what: str, source: str) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or value <= 0
    ):
        raise CaptureError(source, f"{what} is {value!r}, not a positive number")
    return float(value)


def parse_peak(text: str) -> tuple[str, float]:
    """A `--peak` option: `bf16=989e12` or `bf16=989T` gives ("bf16", 989e12).

    Raises:
        UsageError: It is not `dtype=rate`.
    """
    word, equals, rate = text.partition("=")
    if not equals or word.strip() not in PEAK_WORDS:
        raise UsageError(
            f"--peak {text!r}: write dtype=FLOP/s",
            hint=f"for example bf16=989e12; dtypes: {', '.join(PEAK_WORDS)}",
        )
    return word.strip(), parse_rate(rate, "--peak")


def parse_rate(text: str, option: str = "--dram") -> float:
    """A rate in SI base units: `3.35e12`, `3.35T` and `3.35 TB/s` give 3.35e12.

    Raises:
        UsageError: It is not a positive number.
    """
    found = _RATE.fullmatch(text)
    try:
        value = float(found[1]) * _PREFIX[found[2]] if found else 0.0
    except ValueError:
        value = 0.0
    if not value > 0 or not math.isfinite(value):
        raise UsageError(f"{option} {text!r}: not a rate", hint="for example 3.35e12 or 3.35T")
    return value
