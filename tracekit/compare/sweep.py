"""Many runs side by side: a row a run and phase, and maps over batch and length."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.compare.prepare import Prepared
from tracekit.compare.sides import Run, Side
from tracekit.report.blocks import Block, as_markdown, as_page
from tracekit.report.whole import write_documents
from tracekit.report.wording import brief
from tracekit.tables import LLM_PHASES
from tracekit.tables.columns import column
from tracekit.units import duration, number_of

SCHEMA_VERSION = 1
_TITLES = {"ms_per_step": "time a step", "mfu": "MFU", "mbu": "MBU", "bottleneck": "bound by"}


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
            yield from (_map(part, str(phase), figure) for figure in _TITLES)


def _map(part: pd.DataFrame, phase: str, figure: str) -> Block:
    table = part.pivot_table(index="batch", columns="length", values=figure, aggfunc="first", dropna=False)
    head = ("Batch", *(f"length {_whole(length)}" for length in table.columns))
    values = table.to_numpy(dtype=object)
    body = tuple(
        (_whole(batch), *(_cell(value, figure) for value in row))
        for batch, row in zip(table.index, values, strict=True)
    )
    return Block(f"{phase}: {_TITLES[figure]}", head, body, _shade(values, figure))


def _shade(values: Any, figure: str) -> tuple[tuple[float | None, ...], ...]:
    """How dark each cell is: a share as it is, a time against the longest; classes have no order."""
    if figure == "bottleneck":
        return ()
    cells = np.asarray(values, dtype=np.float64)
    whole = 1.0 if figure in {"mfu", "mbu"} else np.nanmax(cells) if np.isfinite(cells).any() else 1.0
    shares = np.clip(cells / (whole or 1.0), 0.0, 1.0)
    return tuple((None, *(None if np.isnan(share) else float(share) for share in row)) for row in shares)


def write_sweep(rows: Sequence[dict[str, Any]], folder: Path, formats: Iterable[str]) -> None:
    """Write `sweep.html` with its heat maps, `sweep.md`, `sweep.json` and `sweep.parquet`.

    Raises:
        CaptureError: The folder cannot be written to.
    """
    write_documents(folder, {f"sweep.{word}": _content(rows, word) for word in formats}, "table")


def _content(rows: Sequence[dict[str, Any]], word: str) -> bytes:
    if word == "json":
        return (json.dumps(document(rows), indent=2, allow_nan=False) + "\n").encode()
    if word == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist([*rows]), sink)
        content: bytes = sink.getvalue().to_pybytes()
        return content
    make = as_page if word == "html" else as_markdown
    runs = len({row["capture"] for row in rows})
    return make(f"tracekit compare: {number_of(runs, 'run')}", [], [*sweep_blocks(rows)]).encode()


def document(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What `--json` prints."""
    return {"schema_version": SCHEMA_VERSION, "runs": [*rows]}


def _cell(value: Any, figure: str) -> str:
    if isinstance(value, str):
        return value
    if value is None or np.isnan(value):
        return "-"
    return duration(value * 1e6) if figure == "ms_per_step" else brief(float(value))


def _whole(value: Any) -> str:
    return "-" if value is None or np.isnan(value) else f"{value:.0f}"
