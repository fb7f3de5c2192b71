"""Charts over time: steps with their idle time, and how decode changes from step to step."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from tracekit.report.accounting import NS
from tracekit.report.html.figure import Figure, Spec, chart, phase_colour, records_of, ticks, tip
from tracekit.report.result import Result
from tracekit.tables.columns import column
from tracekit.units import duration, percent, plain, si

MAX_STEPS = 1500
MAX_GAPS = 600
_TREND = (
    ("trend-time", "Step time", "step time [ms]", "ms"),
    ("trend-bandwidth", "Modelled DRAM traffic over step time", "lower bound [byte/s]", "bandwidth"),
    ("trend-sum-k", "Cached tokens read", "sum of KV lengths [token]", "sum_k"),
    ("trend-batch", "Batch", "sequences in decode", "batch"),
)
_SAID: dict[str, Callable[[float], str]] = {
    "ms": lambda value: f"{duration(1e6 * value)} a step",
    "bandwidth": lambda value: si(value, "B/s"),
    "sum_k": lambda value: f"{value:,.0f} tokens",
    "batch": lambda value: f"{value:,.0f} sequence{'' if value == 1 else 's'}",
}
_LEAST_FIT = 8
_FITS = 0.5
_LEAST_TREND = 3


def step_rows(result: Result) -> list[Spec]:
    """Steps as the page's timeline and detail panel show them, times from the first step on."""
    steps = result.steps.head(MAX_STEPS)
    if steps.empty:
        return []
    first = int(steps["ts_ns"].min())
    idle = (
        result.gaps.groupby("step_id")["dur_ns"]
        .sum()
        .reindex(steps["step_id"])
        .to_numpy(dtype=np.float64, na_value=0.0)
    )
    dur = column(steps, "dur_ns")
    rows = []
    for number, row in enumerate(records_of(steps)):
        rows.append(
            {
                "step": int(row["step_id"]),
                "lane": _lane(row),
                "phase": str(row["phase"]),
                "start": (row["ts_ns"] - first) / 1e6,
                "end": (row["ts_ns"] + row["dur_ns"] - first) / 1e6,
                "time": duration(row["dur_ns"]),
                "idle": duration(idle[number]),
                "idle_share": idle[number] / dur[number] if dur[number] else 0.0,
                "detail": _detail(row),
            }
        )
    return rows


def _lane(row: Spec) -> str:
    rank = "" if row["rank"] is None else f"rank {row['rank']} "
    return rank + ("host" if row["device"] is None else f"device {row['device']}")


def _detail(row: Spec) -> dict[str, str]:
    """What the panel says of a step; unknown figures are left out."""
    lines = {
        "phase": f"{row['phase']} (by {row['evidence']}, confidence {row['confidence']:.2f})",
        "annotation": None if row["annotation"] is None else plain(str(row["annotation"]), 200),
        "time": f"{duration(row['dur_ns'])}, device busy {duration(row['busy_ns'])}",
        "kernels": f"{row['n_kernels']}, {row['n_graph_launches']} graph launches",
        "prefill": _counts(row, "context"),
        "decode": _counts(row, "generation"),
        "KV length": None if row["sum_k"] is None else f"{row['sum_k']:,.0f} tokens in the batch",
        "MFU, MBU": None
        if row["mfu"] is None and row["mbu"] is None
        else f"{percent(row['mfu'])}, {percent(row['mbu'])}",
        "flags": None if row["flags"] is None else str(row["flags"]),
    }
    return {name: text for name, text in lines.items() if text}


def _counts(row: Spec, side: str) -> str | None:
    requests, tokens = row[f"{side}_requests"], row[f"{side}_tokens"]
    if not requests:
        return None
    return f"{requests} requests" + ("" if tokens is None else f", {tokens:,} tokens")


def timeline_figures(result: Result, rows: list[Spec]) -> Iterator[Figure]:
    """Steps as bars, idle intervals above them."""
    if not rows:
        return
    first = int(result.steps["ts_ns"].min())
    shown = result.gaps[result.gaps["step_id"].isin(result.steps["step_id"].head(MAX_STEPS))].nlargest(
        MAX_GAPS, "dur_ns"
    )
    lanes = {row["step"]: row["lane"] for row in rows}
    gaps = [
        {
            "lane": lanes[gap["step_id"]],
            "start": (gap["ts_ns"] - first) / 1e6,
            "end": (gap["ts_ns"] + gap["dur_ns"] - first) / 1e6,
            "cause": str(gap["cause"]),
            "time": duration(gap["dur_ns"]),
            "step": int(gap["step_id"]),
        }
        for gap in records_of(shown)
    ]
    bars = [{key: value for key, value in row.items() if key != "detail"} for row in rows]
    across: Spec = {
        "x": {"field": "start", "type": "quantitative", "axis": ticks("time from the first step [ms]")},
        "x2": {"field": "end"},
        "y": {"field": "lane", "type": "nominal", "axis": {"title": None}},
    }
    layers: list[Spec] = [
        {
            "data": {"values": bars},
            "params": [
                {
                    "name": "zoom",
                    "select": {
                        "type": "interval",
                        "encodings": ["x"],
                        "zoom": "wheel![event.ctrlKey || event.metaKey]",
                    },
                    "bind": "scales",
                }
            ],
            "mark": {
                "type": "bar",
                "height": 26,
                "yOffset": 8,
                "cursor": "pointer",
                "clip": True,
                "minBandSize": 1,
            },
            "encoding": {
                **across,
                "color": phase_colour(bars),
                "tooltip": [
                    tip("step", "step"),
                    tip("phase", "phase"),
                    tip("time", "time"),
                    tip("idle", "idle inside"),
                    tip("idle_share", "idle share", "quantitative", ".1%"),
                ],
            },
        }
    ]
    if gaps:
        layers.append(
            {
                "data": {"values": gaps},
                "mark": {"type": "bar", "height": 8, "yOffset": -14, "clip": True, "color": "#777777"},
                "encoding": {
                    **across,
                    "tooltip": [tip("cause", "idle: cause"), tip("time", "for"), tip("step", "in step")],
                },
            }
        )
    steps, idle = result.steps, float(result.gaps["dur_ns"].sum())
    reading = f"{len(steps)} step{'s take' if len(steps) > 1 else ' takes'} {duration(float(steps['dur_ns'].sum()))}"
    if idle:
        reading += f", of which the device is idle {percent(idle / float(steps['dur_ns'].sum()))} (grey, above the bars)"
    reading += "."
    if len(steps) > MAX_STEPS:
        reading += f" The first {MAX_STEPS} are drawn."
    if len(result.gaps) > MAX_GAPS:
        reading += f" Of {len(result.gaps)} idle intervals the longest {MAX_GAPS} are drawn."
    yield Figure(
        "timeline",
        "Steps and idle time",
        reading,
        chart(layers, height=64 * len(set(lanes.values())), description=reading),
    )


def trend_figures(result: Result) -> Iterator[Figure]:
    """How decode steps change as the KV cache grows; nothing where there are too few."""
    steps = result.steps[(result.steps["phase"] == "decode") & (result.steps["dur_ns"] > 0)].head(MAX_STEPS)
    if len(steps) < _LEAST_TREND:
        return
    dur = column(steps, "dur_ns")
    frame = pd.DataFrame(
        {
            "step": column(steps, "step_id"),
            "ms": dur / 1e6,
            "bandwidth": column(steps, "dram_bytes") / dur * NS,
            "sum_k": column(steps, "sum_k"),
            "batch": column(steps, "generation_requests"),
        }
    )
    for key, title, axis, field in _TREND:
        known = frame[["step", field]].dropna()
        if len(known) < _LEAST_TREND:
            continue
        spec = chart([_line(known, axis, field)], height=130, description=title)
        reading = _trend_reading(known[field], _SAID[field])
        if field == "ms":
            reading += _slope(frame)
        yield Figure(key, title, reading, spec)


def _line(known: pd.DataFrame, axis: str, field: str) -> Spec:
    return {
        "data": {"values": records_of(known)},
        "mark": {"type": "line", "point": {"size": 14}, "color": "#0072b2"},
        "encoding": {
            "x": {
                "field": "step",
                "type": "quantitative",
                "scale": {"zero": False},
                "axis": {"title": "step", "format": "d", "tickMinStep": 1},
            },
            "y": {
                "field": field,
                "type": "quantitative",
                "axis": {"title": axis, "format": "~s", "tickCount": 4},
            },
            "tooltip": [tip("step", "step"), tip(field, axis, "quantitative", ".4~s")],
        },
    }


def _trend_reading(values: pd.Series, said: Callable[[float], str]) -> str:
    first, last, median = (said(float(value)) for value in (values.iloc[0], values.iloc[-1], values.median()))
    if values.min() == values.max():
        return f"{median} in all {len(values)} steps."
    return f"Median {median}; first {first}, last {last}, of {len(values)} steps."


def _slope(frame: pd.DataFrame) -> str:
    """How step time grows with the tokens in the cache, by least squares, where a line explains it."""
    known = frame[["sum_k", "ms"]].dropna()
    if (
        len(known) < _LEAST_FIT
        or known["sum_k"].nunique() < _LEAST_TREND
        or known["ms"].min() == known["ms"].max()
    ):
        return ""
    slope = float(np.polyfit(known["sum_k"], known["ms"], 1)[0])
    explained = float(np.corrcoef(known["sum_k"], known["ms"])[0, 1]) ** 2
    if slope <= 0 or explained < _FITS:
        return " No line through KV length explains it."
    return f" Each 1,000 tokens more in the cache add {duration(1e9 * slope)} (a line explains {percent(explained)} of the variance)."
