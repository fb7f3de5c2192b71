"""Where the time goes: the waterfall of each phase, and kernel families by bottleneck."""

from collections.abc import Iterator

import pandas as pd

from tracekit.classify import waterfall
from tracekit.report.html.figure import Figure, Spec, chart, class_colour, ticks, tip
from tracekit.report.result import Result
from tracekit.report.wording import has_rates
from tracekit.units import duration, percent

_TOP_FAMILIES = 14
_TOP_DETAILS = 5
_LEAST_SHARE = 0.005
_DETAILED = ("idle", "unmodelled", "excess")
_MEANING = {
    "idle": "idle",
    "communication": "exposed communication",
    "copy": "exposed copies",
    "overlapped": "overlapped transfers",
    "unmodelled": "no bound known",
    "excess": "over the bound",
    "roof": "at the roofs",
}
_CAUSES = {"sync": "synchronisation", "unknown": "cause cannot be told"}
PART_COLOURS = ["#777777", "#009e73", "#c46c9b", "#3f9c7f", "#8c8c8c", "#a08700", "#0072b2"]


def waterfall_figures(result: Result) -> Iterator[Figure]:
    """One waterfall a phase whose work is known, from its time down to the speed of light."""
    if result.rows.empty:
        return
    parts = waterfall(result.rows, result.steps, result.gaps)
    for phase in [row.phase for row in result.overview.phases if row.time_ns and has_rates(row)]:
        rows = parts[parts["phase"].astype(object) == phase]
        if len(rows):
            yield _waterfall(phase, rows)


def _pieces(rows: pd.DataFrame, least: float) -> Iterator[tuple[str, str, float]]:
    """The parts of a phase from the outside in, each with its label and time [ns].

    Idle time by cause, kernels by the families of most time; what takes less than `least` [ns] is put together.
    """
    for part, meaning in _MEANING.items():
        inside = rows[rows["part"] == part]
        named = inside[inside["time_ns"] >= least].head(_TOP_DETAILS if part in _DETAILED else 0)
        for detail, time in zip(named["detail"].astype(str), named["time_ns"].astype(float), strict=True):
            yield part, f"{meaning}: {_CAUSES.get(detail, detail) if part == 'idle' else detail}", time
        rest = float(inside["time_ns"].sum() - named["time_ns"].sum())
        if rest > 0:
            yield part, f"{meaning}: the rest" if len(named) else meaning, rest


def _waterfall(phase: str, rows: pd.DataFrame) -> Figure:
    whole = float(rows["time_ns"].sum())
    left, bars = whole, [_bar("wall", "kernels and idle time", 0.0, whole, duration(whole))]
    for part, label, time in _pieces(rows, _LEAST_SHARE * whole):
        bars.append(_bar(part, label, left - time, left, f"{duration(time)} ({percent(time / whole)})"))
        left -= time
    layer: Spec = {
        "data": {"values": bars},
        "mark": {"type": "bar", "height": 16},
        "encoding": {
            "y": {
                "field": "label",
                "type": "nominal",
                "sort": None,
                "axis": {
                    "title": None,
                    "labelExpr": "split(datum.label, '|')",
                    "labelLimit": 260,
                    "labelLineHeight": 13,
                },
            },
            "x": {"field": "from", "type": "quantitative", "axis": ticks("time [ms]")},
            "x2": {"field": "to"},
            "color": {
                "field": "kind",
                "type": "nominal",
                "scale": {"domain": ["wall", *_MEANING], "range": ["#6b6b6b", *PART_COLOURS]},
                "legend": None,
            },
            "tooltip": [tip("part", "part"), tip("time", "time")],
        },
    }
    sums = rows.groupby("part")["time_ns"].sum()
    others = sums.drop("roof", errors="ignore")
    reading = f"Of {duration(whole)} in {phase}, {percent(float(sums.get('roof', 0.0)) / whole)} is what its modelled kernels would take at the roofs"
    if len(others):
        reading += f"; the largest other part: {_MEANING[str(others.idxmax())]} ({percent(float(others.max()) / whole)})"
    spec = chart([layer], height=34 * len(bars), description=reading)
    return Figure(f"waterfall-{phase}", f"From wall time to the speed of light: {phase}", f"{reading}.", spec)


def _bar(kind: str, part: str, low: float, high: float, time: str) -> Spec:
    return {
        "kind": kind,
        "part": part,
        "time": time,
        "label": f"{part}|{time}",
        "from": max(0.0, low) / 1e6,
        "to": high / 1e6,
    }


def family_figures(result: Result) -> Iterator[Figure]:
    """Time by kernel family and bottleneck."""
    rows = result.rows
    if rows.empty:
        return
    times = rows.groupby(["family", "bottleneck"], observed=True)["own_ns"].sum().reset_index()
    by_family = times.groupby("family", observed=True)["own_ns"].sum().sort_values(ascending=False)
    top = list(by_family.index[:_TOP_FAMILIES])
    whole = max(1.0, float(by_family.sum()))
    values = [
        {"family": str(row["family"]), "class": str(row["bottleneck"]), "ms": row["own_ns"] / 1e6, "share": row["own_ns"] / whole, "time": duration(row["own_ns"])}
        for row in times[times["family"].isin(top)].to_dict("records")
        if row["own_ns"]
    ]  # fmt: skip
    layer: Spec = {
        "data": {"values": values},
        "mark": {"type": "bar", "height": 14},
        "encoding": {
            "y": {
                "field": "family",
                "type": "nominal",
                "sort": [str(name) for name in top],
                "axis": {"title": None},
            },
            "x": {
                "field": "ms",
                "type": "quantitative",
                "stack": "zero",
                "axis": ticks("exclusive time [ms]"),
            },
            "color": class_colour(values),
            "tooltip": [
                tip("family", "family"),
                tip("class", "bottleneck"),
                tip("time", "time"),
                tip("share", "share of kernel time", "quantitative", ".1%"),
            ],
        },
    }
    reading = f"{top[0]} holds most of the kernel time ({percent(float(by_family.iloc[0]) / whole)} of it)."
    if len(by_family) > _TOP_FAMILIES:
        rest = len(by_family) - _TOP_FAMILIES
        reading += f" {rest} more {'family' if rest == 1 else 'families'} of less time can be found in the table of kernels."
    yield Figure(
        "families",
        "Time by kernel family and bottleneck",
        reading,
        chart([layer], height=22 * len(top), description=reading),
    )
