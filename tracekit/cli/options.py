"""Options that commands share, and the switches of the whole command line."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

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


def show_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    """Print the version and exit, where asked."""
    if asked:
        try:
            number = version(DISTRIBUTION)
        except PackageNotFoundError:
            number = "unknown (not installed)"
        typer.echo(f"tracekit {number}")
        raise typer.Exit


Captures = Annotated[list[str], typer.Argument(help="Traces, folders of traces, or folders that `tracekit collect` wrote; `-` is standard input.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Data = Annotated[list[Path] | None, typer.Option("--data", help="Folder of your own devices, kernels, engines or models (TOML).", show_default=False)]
Device = Annotated[str | None, typer.Option("--device", help="Take the ceilings of this device (see `tracekit devices`).", show_default=False)]
Peak = Annotated[list[str] | None, typer.Option("--peak", help="A dense peak, such as bf16=989e12.", show_default=False)]
Dram = Annotated[str | None, typer.Option("--dram", help="DRAM bandwidth in byte/s, such as 3.35e12.", show_default=False)]
Model = Annotated[str | None, typer.Option("--model", help="Model preset or config.json, for kernels without recorded shapes.", show_default=False)]
Donor = Annotated[list[str] | None, typer.Option("--donor", help="A capture whose recorded shapes stand in for missing ones.", show_default=False)]
