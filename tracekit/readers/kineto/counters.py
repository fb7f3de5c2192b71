"""Counters that torch.profiler wrote beside the events (`profiler_metrics`, until PyTorch dropped it)."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tracekit.readers.kineto.events import CounterArgs, Event
from tracekit.tables import COUNTER_LAUNCHES, COUNTER_VALUES, Counters, HwStatus


def counters_of(events: Sequence[Event]) -> Counters | None:
    """The counters of a trace's profiler ranges, one a kernel in order; None where there are none.

    They have no grid and no stream, and their times are the profiler's own. Metric values stand in base units.
    """
    if not events:
        return None
    launches = pd.DataFrame(
        {"launch": range(len(events)), "name": [event.name for event in events]},
        columns=COUNTER_LAUNCHES.names,
    )
    readings = [
        (launch, metric, *_reading(value))
        for launch, event in enumerate(events)
        if isinstance(event.args, CounterArgs)
        for metric, value in event.args.metrics.items()
    ]
    values = pd.DataFrame(readings, columns=["launch", "metric", "value", "status"]).assign(unit="")
    return Counters(
        COUNTER_LAUNCHES.conform(launches),
        COUNTER_VALUES.conform(values),
        frozenset(str(metric) for metric in values["metric"].unique()),
        {"profiler": "torch.profiler"},
    )


def _reading(value: Any) -> tuple[float | None, str]:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    return (number, str(HwStatus.MEASURED)) if math.isfinite(number) else (None, str(HwStatus.FAILED))
