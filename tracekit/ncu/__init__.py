"""Nsight Compute from outside: what to ask it for, how to call it, and what its failures mean. Standard library alone."""

from tracekit.ncu.command import RANGE, Recording, import_command, record_command, shell
from tracekit.ncu.messages import Failure, explain
from tracekit.ncu.metrics import Chip, MetricSet, Run, chip, chips, metric_set, runs, sets
from tracekit.ncu.quantities import Formula, Quantity, labels, quantities, wanted_metrics

__all__ = [
    "RANGE",
    "Chip",
    "Failure",
    "Formula",
    "MetricSet",
    "Quantity",
    "Recording",
    "Run",
    "chip",
    "chips",
    "explain",
    "import_command",
    "labels",
    "metric_set",
    "quantities",
    "record_command",
    "runs",
    "sets",
    "shell",
    "wanted_metrics",
]
