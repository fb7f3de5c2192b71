"""`tracekit annotate`: the analysis as a trace for a timeline viewer."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tracekit.cli.options import (
    Cache,
    CacheDir,
    Captures,
    Counters,
    Data,
    Device,
    Donor,
    Dram,
    Model,
    Peak,
    Ranks,
    choices,
    finish,
    reading,
)


def annotate(
    captures: Captures,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The file; compressed where it ends in .gz.")
    ] = Path("annotated.json.gz"),
    reduce: Annotated[
        bool,
        typer.Option(
            "--reduce", help="Stay under 50 MB: cut texts, leave out evidence and the shortest slices."
        ),
    ] = False,
    model: Model = None,
    tp: Ranks = None,
    donor: Donor = None,
    counters: Counters = None,
    device: Device = None,
    peak: Peak = None,
    dram: Dram = None,
    data: Data = None,
    cache: Cache = False,
    cache_dir: CacheDir = None,
) -> None:
    """Write a trace of the kernels with steps, phases, idle time and rates, for ui.perfetto.dev.

    Each kernel's arguments say its bottleneck, how sure that is, and what of the roofs it reached.
    """
    from tracekit.pipeline import analyze
    from tracekit.report.annotated import write_annotated

    with reading() as progress:
        result = analyze(
            captures,
            choices(
                data=data,
                device=device,
                peaks=peak,
                dram=dram,
                model=model,
                ranks=tp,
                donors=donor,
                counters=counters,
                cache=cache,
                cache_dir=cache_dir,
                progress=progress,
            ),
        )
    left_out = write_annotated(result, output, reduced=reduce)
    if left_out:
        listed = ", ".join(f"{count} {what}" for what, count in left_out.items())
        sys.stderr.write(f"note: the shortest were left out (--reduce): {listed}\n")
    typer.echo(str(output))
    finish(result.errors)
