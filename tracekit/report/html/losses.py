"""Where the time goes: the waterfall of each phase, and kernel families by bottleneck."""

from collections.abc import Iterator

import pandas as pd

from tracekit.classify import waterfall
from tracekit.report.html.figure import Figure, Spec, chart, class_colour, tip
from tracekit.report.result import Result
from tracekit.units import duration, percent

_TOP_FAMILIES = 14
_MEANING = {
    "idle": "device idle",
    "communication": "communication with nothing else running",
    "copy": "copies with nothing else running",
    "overlapped": "transfers behind which something else ran",
    "unmodelled": "kernels without a bound",
    "excess": "kernel time over the bound",
    "roof": "at the roof: the speed of light",
}
_COLOURS = ["#777777", "#009e73", "#cc79a7", "#66c2a5", "#bbbbbb", "#e69f00", "#0072b2"]


def waterfall_figures(result: Result) -> Iterator[Figure]:
    """One waterfall a phase, from its wall time down to the speed of light."""
    if result.rows.empty:
        return
    parts = waterfall(result.rows, result.steps, result.gaps)
    for phase in [row.phase for row in result.overview.phases if row.time_ns]:
        rows = parts[parts["phase"].astype(object) == phase]
        sums = rows.groupby("part")["time_ns"].sum().reindex([*_MEANING]).dropna()
        if len(sums):
            yield _waterfall(phase, sums)


def _waterfall(phase: str, sums: pd.Series) -> Figure:
    whole = float(sums.sum())
    left, bars = (
        whole,
        [{"part": "all", "from": 0.0, "to": whole / 1e6, "text": duration(whole), "kind": "all"}],
    )
    for part, time in sums.items():
        bars.append(
            {"part": _MEANING[str(part)], "from": (left - time) / 1e6, "to": left / 1e6, "kind": str(part), "text": f"{duration(time)} ({percent(time / whole)})"}
        )  # fmt: skip
        left -= float(time)
    place: Spec = {
        "y": {"field": "part", "type": "nominal", "sort": None, "axis": {"title": None, "labelLimit": 260}},
        "x": {"field": "from", "type": "quantitative", "axis": {"title": "time [ms]"}},
        "x2": {"field": "to"},
    }
    domain = ["all", *_MEANING]
    layers: list[Spec] = [
        {
            "data": {"values": bars},
            "mark": {"type": "bar", "height": 14},
            "encoding": {
                **place,
                "color": {
                    "field": "kind",
                    "type": "nominal",
                    "scale": {"domain": domain, "range": ["#555555", *_COLOURS]},
                    "legend": None,
                },
                "tooltip": [tip("part", "part"), tip("text", "time")],
            },
        },
        {
            "data": {"values": bars},
            "mark": {"type": "text", "align": "left", "dx": 5},
            "encoding": {
                "y": place["y"],
                "x": {"field": "to", "type": "quantitative"},
                "text": {"field": "text"},
            },
        },
    ]
    largest = (
        str(sums.drop("roof", errors="ignore").idxmax())
        if len(sums.drop("roof", errors="ignore"))
        else "roof"
    )
    roof = float(sums.get("roof", 0.0))
    reading = f"Of {duration(whole)} in {phase}, {percent(roof / whole)} would remain at the roofs; the largest other part is {_MEANING[largest]} ({percent(float(sums[largest]) / whole)})."
    spec = chart(layers, height={"step": 24}, description=reading)
    return Figure(f"waterfall-{phase}", f"From wall time to the speed of light: {phase}", reading, spec)


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
                "axis": {"title": "exclusive time [ms]"},
            },
            "color": class_colour(),
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
        reading += (
            f" {len(by_family) - _TOP_FAMILIES} families of less time are in the table of kernels alone."
        )
    yield Figure(
        "families",
        "Time by kernel family and bottleneck",
        reading,
        chart([layer], height={"step": 22}, description=reading),
    )
