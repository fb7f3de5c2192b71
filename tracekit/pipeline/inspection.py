"""What is in a capture, before any ceiling or model: counts, times, top kernels, steps, quality."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tracekit.counters import totals_note
from tracekit.intervals import union_length
from tracekit.phase import label
from tracekit.pipeline.device import find_ceilings
from tracekit.pipeline.loading import Failure, Loaded, load
from tracekit.pipeline.options import Options
from tracekit.pipeline.stages import named
from tracekit.tables import Kind, Linked
from tracekit.tables.calls import GRAPH_LAUNCH
from tracekit.tables.text import Bools, matches

SCHEMA_VERSION = 1
TOP = 10


def inspect_captures(paths: Sequence[str | Path], options: Options) -> dict[str, Any]:
    """The document of `tracekit inspect --json`.

    Args:
        paths: Captures, each inspected on its own.
        options: Only `data`, `device`, `cache` and `progress` matter here.
    """
    loaded, failures = load(paths, options)
    return {
        "schema_version": SCHEMA_VERSION,
        "captures": [_capture(part, options) for part in loaded],
        "errors": [error_row(failure) for failure in failures],
    }


def error_row(failure: Failure) -> dict[str, str]:
    """A failure as the JSON documents list it."""
    return {"path": failure.path, "code": failure.code, "message": failure.message, "hint": failure.hint}


def _capture(part: Loaded, options: Options) -> dict[str, Any]:
    linked = named(part, options)
    phased = label(linked.kernels, part.capture, linked, options.data)
    match = find_ceilings(part, linked.kernels, options)[1]
    device = next((device for device in part.capture.info.devices if device.name), None)
    counters = part.capture.counters
    totals = [] if counters is None else [totals_note(counters)]
    notes = [*part.capture.quality, *linked.quality, *phased.quality, *totals]
    return {
        "path": part.capture.info.path,
        "format": part.capture.info.format,
        "engine": _engine(phased.steps),
        "device": {
            "name": None if device is None else device.name,
            "matched": None if match is None or match.row is None else match.row.name,
            "match": None if match is None else match.how,
        },
        "counts": _counts(part, linked),
        "time_ns": _times(linked.kernels),
        "top_kernels": _top(linked.kernels),
        "steps": _steps(phased.kernels, phased.steps[phased.steps["annotation"].notna()]),
        "inferred_steps": _steps(phased.kernels, phased.steps[phased.steps["annotation"].isna()]),
        "quality": [{"code": note.code, "count": note.count, "message": note.message} for note in notes],
    }


def _engine(steps: pd.DataFrame) -> str | None:
    known = steps["engine"].dropna()
    return None if known.empty else str(known.mode().iloc[0])


def _counts(part: Loaded, linked: Linked) -> dict[str, int]:
    rows = linked.kernels
    kernels = rows[rows["kind"] == Kind.KERNEL]
    replays = matches(part.capture.runtime_calls["name"], GRAPH_LAUNCH)
    return {
        "events": sum(part.capture.info.event_counts.values()),
        "kernels": len(kernels),
        "memcpy": int((rows["kind"] == Kind.MEMCPY).sum()),
        "memset": int((rows["kind"] == Kind.MEMSET).sum()),
        "cpu_ops": len(linked.ops),
        "graph_launches": int(replays.sum()),
        "kernels_from_graph": int(kernels["from_graph"].sum()),
        "kernels_without_launch": int(kernels["launch_ts_ns"].isna().sum()),
        "comm_kernels": int(matches(kernels["family"], "^comm").sum()),
    }


def _times(rows: pd.DataFrame) -> dict[str, int | None]:
    device = rows[rows["kind"] != Kind.CPU_OP]
    kernels = rows[rows["kind"] == Kind.KERNEL]
    if device.empty:
        return {"kernel_sum": 0, "kernel_union": 0, "gpu_union": 0, "gpu_span": 0}
    ends = device["ts_ns"] + device["dur_ns"]
    return {
        "kernel_sum": int(kernels["dur_ns"].sum()),
        "kernel_union": _union(kernels),
        "gpu_union": _union(device),
        "gpu_span": int(ends.max() - device["ts_ns"].min()),
    }


def _union(rows: pd.DataFrame) -> int:
    """Time in which any device was busy: as the span, of the whole capture, so that it is never longer."""
    starts = rows["ts_ns"].to_numpy("int64")
    return union_length(starts, starts + rows["dur_ns"].to_numpy("int64"))


def _top(rows: pd.DataFrame) -> list[dict[str, Any]]:
    kernels = rows[rows["kind"].isin([Kind.KERNEL, Kind.CPU_OP])]
    sums = (
        kernels.groupby("name", observed=True)["dur_ns"]
        .agg(["count", "sum"])
        .sort_values(["sum", "count"], ascending=False, kind="stable")
    )
    return [
        {"name": str(name), "count": int(row["count"]), "sum_ns": int(row["sum"])}
        for name, row in sums.head(TOP).to_dict("index").items()
    ]


def _steps(kernels: pd.DataFrame, steps: pd.DataFrame) -> list[dict[str, Any]]:
    inside = kernels[(kernels["kind"] == Kind.KERNEL) & ~is_post_step(kernels)]
    sums = inside.groupby("step_id", observed=True)["dur_ns"].sum()
    wanted = [
        "step_id",
        "phase",
        "evidence",
        "n_kernels",
        "n_graph_launches",
        "context_requests",
        "generation_requests",
    ]
    rows = steps[wanted].astype(object).where(steps[wanted].notna(), None).to_dict("records")
    return [
        {
            "phase": row["phase"],
            "evidence": row["evidence"],
            "n_kernels": int(row["n_kernels"]),
            "kernel_sum_ns": int(sums.get(row["step_id"], 0)),
            "n_graph_launches": int(row["n_graph_launches"]),
            "context_requests": None if row["context_requests"] is None else int(row["context_requests"]),
            "generation_requests": None
            if row["generation_requests"] is None
            else int(row["generation_requests"]),
        }
        for row in rows
    ]


def is_post_step(kernels: pd.DataFrame) -> Bools:
    """Kernels launched between two steps, counted apart from those inside."""
    return matches(kernels["phase_evidence"], "post_step")
