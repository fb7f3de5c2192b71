"""Comparisons: what changed between two builds, whether it is real, and tables over many runs."""

from tracekit.compare.build import compare
from tracekit.compare.contract import SCHEMA_VERSION, Comparison
from tracekit.compare.sides import Run, Side, is_report, read_report

__all__ = [
    "SCHEMA_VERSION",
    "Comparison",
    "Run",
    "Side",
    "compare",
    "is_report",
    "read_report",
]
