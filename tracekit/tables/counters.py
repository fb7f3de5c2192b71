"""What a counter reader hands on: launches measured by a hardware profiler, and their metric values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracekit.tables.schema import Column, Table
from tracekit.tables.words import HwStatus

if TYPE_CHECKING:
    import pandas as pd

COUNTER_LAUNCHES = Table(
    "counter_launches",
    (
        Column("launch", "int64", "Row number, in the order in which the launches were measured.", minimum=0),
        Column("name", "string", "Name, verbatim."),
        Column("process", "int64", "Process id.", null=True),
        Column("device", "int32", "Index of the device as the process sees it.", null=True),
        Column("stream", "int64", "Stream.", null=True),
        Column("grid", "string", "Grid, x,y,z.", null=True),
        Column("block", "string", "Block, x,y,z.", null=True),
        Column("cc", "string", "Compute capability, such as 9.0.", null=True),
        Column("ranges", "string", "Text of the NVTX ranges around it, as written.", null=True),
    ),
    key=("launch",),
)
"""A launch that was measured. A metric without a row in COUNTER_VALUES was not collected for it."""

COUNTER_VALUES = Table(
    "counter_values",
    (
        Column("launch", "int64", "Launch, a row of counter_launches.", minimum=0),
        Column("metric", "string", "Name of the metric."),
        Column("value", "float64", "Value in the unit below.", null=True),
        Column(
            "unit", "string", "Base unit: byte, second, hertz, % … without a prefix; empty where a count."
        ),
        Column("status", "string", "What is known of it; `value` is null unless `measured`.", words=HwStatus),
    ),
    key=("launch", "metric"),
)


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of one file.

    Attributes:
        launches: COUNTER_LAUNCHES.
        readings: COUNTER_VALUES of the metrics that were asked for.
        metrics: Metrics that the file has a column or a row for, wanted or not.
        options: What is known of how they were collected (cache_control, clock_control, replay …).
    """

    launches: pd.DataFrame
    readings: pd.DataFrame
    metrics: frozenset[str] = frozenset()
    options: dict[str, str] = field(default_factory=dict)
