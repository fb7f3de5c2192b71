"""Many runs side by side: a row a run and phase, and maps over batch and length."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracekit.compare.prepare import Prepared
from tracekit.compare.sides import Run, Side
from tracekit.compare.text import Block
from tracekit.report.wording import brief
from tracekit.tables import LLM_PHASES
from tracekit.tables.columns import column
from tracekit.units import duration

SCHEMA_VERSION = 1
_FIGURES = ("ms_per_step", "mfu", "mbu", "bottleneck")


def sweep_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row a run and LLM phase: capture, phase, steps, batch, length, ms_per_step, mfu, mbu, bottleneck.

    batch and length are medians over the phase's steps: requests, and tokens a request (cached ones in decode).
    """
    return [row for run in runs for row in _rows(run)]


def _rows(run: Run) -> Iterator[dict[str, Any]]:
    side = Prepared.of(Side(run.label, (run,)))
    for summary in run.summary.phases:
        if summary.phase not in {str(phase) for phase in LLM_PHASES}:
            continue
        steps = side.steps_of(summary.phase)
        batch = column(steps, "context_requests") + column(steps, "generation_requests")
        length = column(steps, "sum_k") / np.where(batch > 0, batch, np.nan)
        yield {
            "capture": run.label,
            "phase": summary.phase,
            "steps": len(steps),
            "batch": _median(batch),
            "length": _median(length),
            "ms_per_step": summary.wall_ns / side.units(summary.phase) / 1e6,
            "mfu": summary.mfu,
            "mbu": summary.mbu,
            "bottleneck": next(iter(summary.bottlenecks), None),
        }


def _median(values: Any) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None


def sweep_blocks(rows: Sequence[dict[str, Any]]) -> Iterator[Block]:
    """The table of runs, and for each phase a map of each figure where batch and length make a grid."""
    yield Block(
        "Runs",
        ("Capture", "Phase", "Steps", "Batch", "Length", "A step", "MFU", "MBU", "Bound by"),
        tuple(
            (
                str(row["capture"]), str(row["phase"]), str(row["steps"]), _whole(row["batch"]), _whole(row["length"]),
                duration(row["ms_per_step"] * 1e6), brief(row["mfu"]), brief(row["mbu"]), str(row["bottleneck"]),
            )
            for row in rows
        ),
    )  # fmt: skip
    frame = pd.DataFrame(rows)
    for phase in frame["phase"].unique() if len(frame) else ():
        part = frame[(frame["phase"] == phase) & frame["batch"].notna() & frame["length"].notna()]
        if len(part.drop_duplicates(["batch", "length"])) > 1:
            yield from (_map(part, str(phase), figure) for figure in _FIGURES)


def _map(part: pd.DataFrame, phase: str, figure: str) -> Block:
    table = part.pivot_table(index="batch", columns="length", values=figure, aggfunc="first", dropna=False)
    head = ("Batch", *(f"length {_whole(length)}" for length in table.columns))
    body = tuple(
        (_whole(batch), *(_cell(value, figure) for value in row))
        for batch, row in zip(table.index, table.to_numpy(dtype=object), strict=True)
    )
    return Block(f"{phase}: {figure}", head, body)


def _cell(value: Any, figure: str) -> str:
    if isinstance(value, str):
        return value
    if value is None or np.isnan(value):
        return "-"
    return duration(value * 1e6) if figure == "ms_per_step" else brief(float(value))


def _whole(value: Any) -> str:
    return "-" if value is None or np.isnan(value) else f"{value:.0f}"
