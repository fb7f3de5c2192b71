"""`tracekit devices [NAME]`: the device table with the source and the trust of each figure."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.cli.options import Data, Json
from tracekit.units import digits, si

if TYPE_CHECKING:
    from tracekit.roofline.devices import Device

SCHEMA_VERSION = 1
Name = Annotated[
    str | None, typer.Argument(help="Device name or part of it; all devices without it.", show_default=False)
]


def devices(name: Name = None, as_json: Json = False, data: Data = None) -> None:
    """Print known devices: dense peaks, DRAM, caches and links, with their sources.

    Several are printed where a name is not unique.

    Raises:
        UnsupportedError: No device has such a name; the hint gives near ones.
    """
    from tracekit.roofline.devices import find_devices, load_devices

    table = load_devices(tuple(data or ()))
    chosen = table if name is None else find_devices(name, table)
    if as_json:
        typer.echo(
            json.dumps(
                {"schema_version": SCHEMA_VERSION, "devices": [as_dict(row) for row in chosen]}, indent=2
            )
        )
    elif name is None:
        typer.echo("\n".join(overview(chosen)))
    else:
        typer.echo("\n\n".join("\n".join(details(row)) for row in chosen))


def as_dict(row: "Device") -> dict[str, Any]:
    """One device for `--json`, in SI base units; null is not supported or not known."""
    return {
        "key": row.key,
        "name": row.name,
        "names": list(row.names),
        "aliases": list(row.aliases),
        "vendor": row.vendor,
        "arch": row.arch,
        "target": row.target,
        "sm_count": row.sm_count,
        "boost_mhz": row.boost_mhz,
        "tensor_mhz": row.tensor_mhz,
        "memory_gb": row.memory_gb,
        "memory_bytes": row.memory_bytes,
        "flops_per_s": dict(row.flops),
        "dram_bytes_per_s": row.dram,
        "ridge_flop_per_byte": {rate: peak / row.dram for rate, peak in row.flops.items()}
        if row.dram
        else {},
        "l2_bytes": row.l2_bytes,
        "llc_bytes": row.llc_bytes,
        "link_bytes_per_s": row.link,
        "link": row.link_kind or None,
        "tdp_w": row.tdp_w,
        "status": row.status,
        "status_of": dict(row.status_of),
        "sources": list(row.sources),
        "note": row.note,
    }


def overview(table: "tuple[Device, ...]") -> Iterator[str]:
    """One line a device; `16 bit` is bf16, or fp16 where there is no bf16."""
    yield f"{'key':<36} {'16 bit':>13} {'fp8':>13} {'DRAM':>10} {'ridge':>6} {'memory':>8}  status"
    for row in table:
        wide = row.flops.get("bf16", row.flops.get("fp16"))
        ridge = digits(wide / row.dram) if wide and row.dram else "-"
        memory = "-" if row.memory_gb is None else f"{row.memory_gb:.0f} GB"
        rates = f"{si(wide, 'FLOP/s'):>13} {si(row.flops.get('fp8'), 'FLOP/s'):>13} {si(row.dram, 'B/s'):>10}"
        yield f"{row.key:<36} {rates} {ridge:>6} {memory:>8}  {row.status}"
    yield ""
    yield "Dense rates of data sheets. `tracekit devices NAME` gives every figure, its trust and its sources."


def details(row: "Device") -> Iterator[str]:
    """All that is known of one device; what is not `checked` says so beside the figure."""
    yield f"{row.name} ({row.key}): {row.vendor} {row.arch}, {row.target}"
    if row.names:
        yield f"  reported as      {', '.join(row.names)}"
    for label, text, figure in _figures(row):
        trust = row.trust(figure)
        yield f"  {label:<16} {text}" + ("" if trust == "checked" else f"  [{trust}]")
    if row.note:
        yield f"  note             {row.note}"
    yield "  sources"
    yield from (f"    {source}" for source in row.sources)


def _figures(row: "Device") -> Iterator[tuple[str, str, str]]:
    """Label, text and figure name of each known figure."""
    for rate, peak in row.flops.items():
        yield rate.replace("_", " "), si(peak, "OP/s" if rate.startswith("int") else "FLOP/s"), rate
    known = (
        ("DRAM", None if row.dram is None else si(row.dram, "B/s"), "dram_gb_per_s"),
        ("memory", None if row.memory_gb is None else f"{row.memory_gb:.0f} GB", "memory_gb"),
        ("L2", None if row.l2_bytes is None else f"{row.l2_bytes / 2**20:.0f} MiB", "l2_mib"),
        ("cache behind L2", None if row.llc_bytes is None else f"{row.llc_bytes / 2**20:.0f} MiB", "llc_mib"),
        (
            "link",
            None if row.link is None else f"{si(row.link, 'B/s')} per direction, {row.link_kind}",
            "link_gb_per_s",
        ),
        ("SMs or CUs", None if row.sm_count is None else str(row.sm_count), "sm_count"),
        ("boost clock", None if row.boost_mhz is None else f"{row.boost_mhz:.0f} MHz", "boost_mhz"),
        (
            "tensor clock",
            None if row.tensor_mhz is None else f"{row.tensor_mhz:.0f} MHz for the tensor rates",
            "tensor_mhz",
        ),
        ("power limit", None if row.tdp_w is None else f"{row.tdp_w:.0f} W", "tdp_w"),
    )
    yield from ((label, text, figure) for label, text, figure in known if text is not None)
