"""`tracekit kernels`: the kernels table, printed or written."""

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
    Json,
    Model,
    Peak,
    Ranks,
    Steady,
    choices,
    finish,
    reading,
)


def kernels(
    captures: Captures,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the table: .parquet, .csv or .json.", show_default=False),
    ] = None,
    as_json: Json = False,
    top: Annotated[int, typer.Option("--top", min=1, help="Rows to print, longest first.")] = 30,
    model: Model = None,
    tp: Ranks = None,
    steady: Steady = False,
    donor: Donor = None,
    counters: Counters = None,
    device: Device = None,
    peak: Peak = None,
    dram: Dram = None,
    data: Data = None,
    cache: Cache = False,
    cache_dir: CacheDir = None,
) -> None:
    """Print or write the kernels table: a row a kernel, with phase, work, rates and bottleneck."""
    from tracekit.pipeline import analyze
    from tracekit.report.console import emit_json, write
    from tracekit.report.tabular import kernel_rows, kernels_text, write_kernels

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
                steady=steady,
                donors=donor,
                counters=counters,
                cache=cache,
                cache_dir=cache_dir,
                progress=progress,
            ),
        )
    if output is not None:
        write_kernels(result.kernels, output)
    elif as_json:
        emit_json({"schema_version": 1, "kernels": kernel_rows(result.kernels)})
    else:
        write(kernels_text(result.kernels, top))
    finish(result.errors)
