"""`tracekit compare BASE NEW`: what changed between two builds, and whether it is real."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.cli.gates import FailOn, fail_on, parsed_gates
from tracekit.cli.options import (
    Cache,
    CacheDir,
    Data,
    Device,
    Dram,
    Json,
    Model,
    Peak,
    Ranks,
    choices,
    finish,
    reading,
)
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from tracekit.compare import Run
    from tracekit.pipeline import Options
    from tracekit.report.result import ErrorLike

_TWO = 2


def compare(
    captures: Annotated[
        list[str],
        typer.Argument(
            help="BASE and NEW: captures, folders, or folders that `tracekit report -o` wrote; more than two make a table.",
            show_default=False,
        ),
    ],
    base: Annotated[
        list[str] | None,
        typer.Option(
            "--base",
            help="A further capture of BASE, so that drift between runs is covered.",
            show_default=False,
        ),
    ] = None,
    new: Annotated[
        list[str] | None, typer.Option("--new", help="A further capture of NEW.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder to write the comparison to.", show_default=False),
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", help="What to write there, separated by commas.")
    ] = "html,md,json,parquet",
    as_json: Json = False,
    fail: FailOn = None,
    model: Model = None,
    tp: Ranks = None,
    device: Device = None,
    peak: Peak = None,
    dram: Dram = None,
    data: Data = None,
    cache: Cache = False,
    cache_dir: CacheDir = None,
) -> None:
    """Compare two runs: what got slower or faster, where, why, and whether it is real.

    Ten steps a side are needed for a verdict; several captures a side put the drift between runs into it.
    """
    from tracekit.compare import Side
    from tracekit.compare import compare as compare_sides
    from tracekit.compare.gates import compare_crossings
    from tracekit.compare.render import print_comparison, write_comparison
    from tracekit.readers.discover import sweep_failures, sweep_runs
    from tracekit.report import parse_formats
    from tracekit.report.console import emit_json

    gates = parsed_gates(fail)
    wanted = parse_formats(formats)
    failed: list[ErrorLike] = []
    if len(captures) != _TWO:
        # Two sweeps are two sides; one alone, or one among others, is the runs in it.
        failed += [error for path in captures for error in sweep_failures(path)]
        captures = [run for path in captures for run in sweep_runs(path) or [path]]
    if len(captures) < _TWO:
        raise UsageError("compare needs BASE and NEW", hint="give two captures or more")
    if len(captures) > _TWO and (base or new or gates):
        raise UsageError(
            "--base, --new and --fail-on are for two sides",
            hint="give two captures, and more with --base and --new",
        )
    with reading() as progress:
        options = choices(
            data=data,
            device=device,
            peaks=peak,
            dram=dram,
            model=model,
            ranks=tp,
            cache=cache,
            cache_dir=cache_dir,
            progress=progress,
        )
        groups = [
            [captures[0], *(base or ())],
            [captures[1], *(new or ())],
            *([path] for path in captures[2:]),
        ]
        read = [[_run(path, options) for path in group] for group in groups]
    errors = failed + [error for group in read for _, found in group for error in found]
    runs = [[run for run, _ in group if run is not None] for group in read]
    if len(captures) > _TWO:
        _table([run for group in runs for run in group], output, wanted, as_json=as_json)
    elif all(runs):
        result = compare_sides(*(Side(path, tuple(side)) for path, side in zip(captures, runs, strict=True)))
        if output is not None:
            write_comparison(result, output, wanted)
        if as_json:
            import msgspec

            emit_json(msgspec.to_builtins(result))
        else:
            print_comparison(result)
        if not errors:
            fail_on(compare_crossings(gates, result))
    finish(errors)


def _run(path: str, options: "Options") -> "tuple[Run | None, list[ErrorLike]]":
    """One run, from the files of a report or from a capture; None where it could not be read."""
    from tracekit.compare import Run, is_report, read_report
    from tracekit.pipeline import analyze

    if is_report(path):
        return read_report(path), []
    result = analyze([path], options)
    return (Run.of(path, result) if len(result.all_kernels) else None), list(result.errors)


def _table(runs: "list[Run]", output: Path | None, formats: tuple[str, ...], *, as_json: bool) -> None:
    from tracekit.compare.sweep import document, sweep_blocks, sweep_rows, write_sweep
    from tracekit.report.blocks import print_blocks
    from tracekit.report.console import emit_json

    rows = sweep_rows(runs)
    if output is not None:
        write_sweep(rows, output, formats)
    if as_json:
        emit_json(document(rows))
    else:
        print_blocks(sweep_blocks(rows))
