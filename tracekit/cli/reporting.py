"""`tracekit report`: the report of one run."""

from pathlib import Path
from typing import Annotated

import typer

from tracekit.cli.gates import FailOn, fail_on_report, parsed_gates
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
    Tpot,
    Ttft,
    choices,
    finish,
    reading,
)

FORMATS = "html,md,json,parquet"


def report(
    captures: Captures,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder to write the report to.", show_default=False)
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", help="What to write there, separated by commas.")
    ] = FORMATS,
    images: Annotated[
        bool, typer.Option("--images", help="Write the roofline as a PNG beside report.md.")
    ] = False,
    as_json: Json = False,
    fail: FailOn = None,
    model: Model = None,
    tp: Ranks = None,
    tpot: Tpot = None,
    ttft: Ttft = None,
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
    """Report what limits each phase and kernel of a run, how it is known, and what could be won.

    Several captures are parts of one run: ranks, or slices of one recording.
    """
    from tracekit.pipeline import analyze
    from tracekit.report import parse_formats, print_summary, write_report
    from tracekit.report.console import emit_json

    gates = parsed_gates(fail)
    wanted = parse_formats(formats)
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
                tpot=tpot,
                ttft=ttft,
                steady=steady,
                donors=donor,
                counters=counters,
                cache=cache,
                cache_dir=cache_dir,
                progress=progress,
            ),
        )
    # Where nothing could be read there is nothing to write: the errors say why.
    if output is not None and result.captures:
        write_report(result, output, wanted, images=images)
    if as_json:
        emit_json(result.summary)
    elif not result.errors or len(result.all_kernels):
        print_summary(result, output)
    finish(result.errors)
    fail_on_report(gates, result.overview)
