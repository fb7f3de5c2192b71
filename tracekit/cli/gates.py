"""`--fail-on`: end with exit code 3 where a condition is met."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tracekit.compare.gates import Gate
    from tracekit.report.contract import Summary

THRESHOLD_CROSSED = 3
FailOn = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-on",
        help="Exit with 3 where this holds, such as 'decode.time > 3%' or 'prefill.mfu < 0.4'; may be given often.",
        show_default=False,
    ),
]


def parsed_gates(texts: Sequence[str] | None) -> "list[Gate]":
    """The conditions of `--fail-on`.

    Raises:
        UsageError: One is not written as it should be.
    """
    if not texts:
        return []
    from tracekit.compare.gates import parse_gate

    return [parse_gate(text) for text in texts]


def fail_on_report(gates: "list[Gate]", overview: "Summary") -> None:
    """End with exit code 3 where a condition holds on a report."""
    if gates:
        from tracekit.compare.gates import report_crossings

        fail_on(report_crossings(gates, overview))


def fail_on(crossings: Sequence[str]) -> None:
    """Say on standard error which conditions hold, and end with exit code 3 where one does."""
    for line in crossings:
        sys.stderr.write(f"fail-on: {line}\n")
    if crossings:
        raise typer.Exit(THRESHOLD_CROSSED)
