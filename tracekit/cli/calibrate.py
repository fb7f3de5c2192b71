"""`tracekit calibrate`: measure what this device reaches, and keep it for later reports."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tracekit.cli.collect import collecting, find_collector
from tracekit.units import duration, number_of, si


def calibrate(
    device: Annotated[
        str | None,
        typer.Option(help="cpu or cuda. [default: a GPU where there is one]", show_default=False),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            "--ranks",
            min=1,
            help="Ranks of the all-reduce, one process each. [default: all GPUs; 1, which is none, on a CPU]",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Folder to write; by default the user's own.", show_default=False
        ),
    ] = None,
) -> None:
    """Measure this device's ceilings in under a minute; reports of captures of this device use them.

    Percentages of a report are then of what was measured; the data sheet's figures stay beside them.
    """
    from tracekit.errors import CaptureError
    from tracekit.pipeline.calibration import folder_for

    measure = find_collector("calibrate")
    with collecting() as progress:
        found = measure(device, progress, ranks=ranks)
    folder = output or folder_for(found.ceilings.device)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CaptureError(
            str(folder), f"cannot be made: {error.strerror}", hint="choose another with -o"
        ) from error
    path = found.write(folder)
    typer.echo("\n".join(_lines(found)))
    typer.echo(f"\n{path}")


def _lines(found: Any) -> list[str]:
    ceilings = found.ceilings
    rows = [("device", str(ceilings.device["name"]))]
    rows += [
        (f"{word}, {number_of(int(shape.partition('x')[0]), 'row')}", si(rate, "FLOP/s"))
        for word, peak in ceilings.peaks.items()
        for shape, rate in peak["by_shape"].items()
    ]
    rows.append(("DRAM", si(ceilings.dram_bytes_per_s(), "B/s")))
    rows += [(name.replace("_", ", "), si(rate, "B/s")) for name, rate in found.traffic.items()]
    rows += [
        (name.removesuffix("_bytes_per_s").replace("_", " "), si(rate, "B/s"))
        for name, rate in ceilings.host_link.items()
    ]
    rows.append(("launch", duration(ceilings.launch_overhead_ns)))
    if found.graph_replay_ns is not None:
        rows.append(("graph replay, an op", duration(found.graph_replay_ns)))
    if found.all_reduce is not None:
        ranks = f"all-reduce, {found.all_reduce.ranks} ranks"
        rows.append((f"{ranks}, latency", duration(found.all_reduce.latency_ns)))
        rows += [
            (f"{ranks}, {si(size, 'B')}", f"{si(rate, 'B/s')} bus bandwidth")
            for size, rate in found.all_reduce.bus_bytes_per_s().items()
            if size > 1 << 10
        ]
    rows += [(what, f"not measured: {why}") for what, why in found.not_measured.items()]
    width = max(len(name) for name, _ in rows)
    return [f"{name.ljust(width)}  {text}" for name, text in rows]
