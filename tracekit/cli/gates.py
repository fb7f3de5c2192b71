"""`--fail-on`: end with exit code 3 where a condition is met."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

THRESHOLD_CROSSED = 3
FailOn = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-on",
        help="Exit with 3 where this holds, such as 'decode.time > 3%' or 'prefill.mfu < 0.4'; may be given often.",
        show_default=False,
    ),
]


def fail_on(crossings: Sequence[str]) -> None:
    """Say on standard error which conditions hold, and end with exit code 3 where one does."""
    for line in crossings:
        sys.stderr.write(f"fail-on: {line}\n")
    if crossings:
        raise typer.Exit(THRESHOLD_CROSSED)
