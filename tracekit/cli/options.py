"""Options that commands share, and the switches of the whole command line."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.errors import UsageError
from tracekit.units import parse_duration

if TYPE_CHECKING:
    from tracekit.pipeline.options import Options
    from tracekit.readers.source import Progress
    from tracekit.report.result import ErrorLike

DISTRIBUTION = "tracekit-llm"


@dataclass(slots=True)
class _Switches:
    debug: bool = False


_SWITCHES = _Switches()


def set_debug(*, on: bool) -> None:
    """Let errors show their traceback."""
    _SWITCHES.debug = on


def debugging() -> bool:
    """Whether errors show their traceback."""
    return _SWITCHES.debug


def show_version(asked: bool) -> None:
    """Print the version and exit, where asked."""
    if asked:
        try:
            number = version(DISTRIBUTION)
        except PackageNotFoundError:
            number = "unknown (not installed)"
        typer.echo(f"tracekit {number}")
        raise typer.Exit


def _read_ahead(context: typer.Context, captures: list[str]) -> list[str]:
    """Start reading a large trace while the rest of the program is still being imported."""
    if not context.resilient_parsing:
        from tracekit.readers.kineto.helper import started_ahead

        context.with_resource(started_ahead(captures))
    return captures


Captures = Annotated[
    list[str],
    typer.Argument(
        callback=_read_ahead,
        help="Traces, folders of traces, or folders that `tracekit collect` wrote; `-` is standard input.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Data = Annotated[
    list[Path] | None,
    typer.Option(
        "--data", help="Folder of your own devices, kernels, engines or models (TOML).", show_default=False
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device", help="Take the ceilings of this device (see `tracekit devices`).", show_default=False
    ),
]
Peak = Annotated[
    list[str] | None, typer.Option("--peak", help="A dense peak, such as bf16=989e12.", show_default=False)
]
Dram = Annotated[
    str | None, typer.Option("--dram", help="DRAM bandwidth in byte/s, such as 3.35e12.", show_default=False)
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Model preset or config.json, for kernels without recorded shapes.",
        show_default=False,
    ),
]
Cache = Annotated[
    bool,
    typer.Option(
        "--cache",
        help="Keep what was read and found (by the content of files), so that the next command on the same files is quick.",
    ),
]
CacheDir = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir", help="Where to keep them; the user's cache folder by default.", show_default=False
    ),
]
Steady = Annotated[
    bool,
    typer.Option(
        "--steady",
        help="Leave out ramp-up (decode steps below the median batch) and steps that the window cuts.",
    ),
]
Tpot = Annotated[
    str | None,
    typer.Option(
        "--tpot",
        help="Time of a decode step without a profiler, such as 12.3ms: the rest of a profiled step is the profiler's.",
        show_default=False,
    ),
]
Ttft = Annotated[
    str | None,
    typer.Option(
        "--ttft", help="Time to the first token without a profiler: the same of prefill.", show_default=False
    ),
]
Ranks = Annotated[
    int | None,
    typer.Option("--tp", min=1, help="Tensor-parallel ranks that share the model.", show_default=False),
]
Donor = Annotated[
    list[str] | None,
    typer.Option(
        "--donor", help="A capture whose recorded shapes stand in for missing ones.", show_default=False
    ),
]

Counters = Annotated[
    list[str] | None,
    typer.Option(
        "--counters",
        help="Hardware counters of the same run: what `ncu --csv --page raw` printed, or its report.",
        show_default=False,
    ),
]


def choices(
    *,
    data: list[Path] | None = None,
    device: str | None = None,
    peaks: list[str] | None = None,
    dram: str | None = None,
    model: str | None = None,
    ranks: int | None = None,
    tpot: str | None = None,
    ttft: str | None = None,
    steady: bool = False,
    donors: list[str] | None = None,
    counters: list[str] | None = None,
    cache: bool = False,
    cache_dir: Path | None = None,
    progress: "Progress | None" = None,
) -> "Options":
    """The options of an analysis from those of the command line.

    Raises:
        UsageError: A peak, a bandwidth or a time is not written as it should be.
    """
    from tracekit.pipeline.options import Options
    from tracekit.roofline import parse_peak, parse_rate

    return Options(
        data=tuple(data or ()),
        device=device,
        peaks=dict(parse_peak(text) for text in peaks or ()),
        dram=None if dram is None else parse_rate(dram),
        model=model,
        ranks=ranks,
        unprofiled={
            phase: _time(option, text)
            for phase, option, text in (("decode", "--tpot", tpot), ("prefill", "--ttft", ttft))
            if text is not None
        },
        steady=steady,
        donors=tuple(donors or ()),
        counters=tuple(counters or ()),
        cache=_cache_folder(on=cache, folder=cache_dir),
        progress=progress,
    )


def _time(option: str, text: str) -> float:
    value = parse_duration(text)
    if value is None:
        raise UsageError(f"{option} {text!r}: not a time", hint="for example 12.3ms, 850us or 1.2s")
    return value


def _cache_folder(*, on: bool, folder: Path | None) -> Path | None:
    """The folder where things are kept, or None where none are to be kept.

    Raises:
        CaptureError: It cannot be written.
    """
    from tracekit.readers.entries import default_folder, prepare

    chosen = folder or (default_folder() if on else None)
    if chosen is not None:
        prepare(chosen)
    return chosen


@contextmanager
def reading() -> "Iterator[Progress | None]":
    """A progress bar of bytes read, on standard error, and only where that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("reading"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def advance(done: int, size: int | None) -> None:
            bar.update(task, completed=done, total=size)

        yield advance


def finish(errors: "Sequence[ErrorLike | Mapping[str, str]]") -> None:
    """Say on standard error which captures failed, and end with exit code 1 where some did."""
    for error in errors:
        row = error if isinstance(error, Mapping) else {"message": error.message, "hint": error.hint}
        sys.stderr.write(f"error: {row['message']}\n")
        if row["hint"]:
            sys.stderr.write(f"  next: {row['hint']}\n")
    if errors:
        raise typer.Exit(1)
