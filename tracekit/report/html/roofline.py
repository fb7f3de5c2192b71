"""The roofline: one mark a kernel name and shape, area by time, hollow where its work is inferred."""

import math
from collections.abc import Iterable, Iterator

import pandas as pd

from tracekit.report.html.figure import (
    PHASE_SHAPES,
    Figure,
    Spec,
    chart,
    class_colour,
    present,
    records_of,
    tip,
)
from tracekit.report.result import Result
from tracekit.report.summary import roofs_in_force
from tracekit.tables import Phase
from tracekit.tables.ceilings import Ceilings, Roof
from tracekit.units import digits, duration, percent, plain, si

MAX_MARKS = 400
"""Marks of a chart; groups of less time are counted in its reading."""
_FIRM = ("shape", "annotation")
_NAME_WIDTH = 60
_LABEL_AT = 0.6
_HEADROOM = 0.1
_CLOSE = 4
_NARROW = 420
_LEAST_SHARE = 0.002


def roofline_figures(result: Result) -> Iterator[Figure]:
    """The roofline of kernels with FLOPs, and the bandwidth strip of those without."""
    groups = result.by_shape
    with_flops = groups["known_flops"] > 0
    # What took no time at its clock's grain has no rate, and what has no bytes no intensity.
    placed = with_flops & (groups["arithmetic_intensity"] > 0) & (groups["flops_per_s"] > 0)
    strip = groups[~with_flops & (groups["known_traffic"] > 0) & (groups["dram_bytes_per_s"] > 0)]
    roofs = roofs_in_force(result.rows, result.ceilings)
    if placed.any():
        yield _roofline(groups[with_flops], groups[placed], result.ceilings, roofs)
    if len(strip):
        yield _strip(strip, roofs.get("dram"))


def _marks(groups: pd.DataFrame) -> list[Spec]:
    top = groups.head(MAX_MARKS).reset_index(drop=True)
    known = top["flops_source"].astype(object).where(top["flops_source"].notna(), "unknown")
    frame = pd.DataFrame(
        {
            "name": [plain(str(name), _NAME_WIDTH) for name in top["name"]],
            "id": [plain(str(name), 2 * _NAME_WIDTH) for name in top["name"]],
            "phase": top["phase"].astype(object),
            "class": top["bottleneck"].astype(object),
            "source": known,
            "inferred": ~known.isin(_FIRM),
            "share": top["share"],
            "x": top["arithmetic_intensity"],
            "y": top["flops_per_s"],
            "bandwidth": top["dram_bytes_per_s"],
            "shown_flops": [si(value, "FLOP/s") for value in top["flops_per_s"]],
            "shown_bytes": [si(value, "B/s") for value in top["dram_bytes_per_s"]],
            "time": [duration(value) for value in top["own_ns"]],
            "count": top["count"],
            "roof": [percent(value) for value in top["roof_share"]],
        }
    )
    return records_of(frame)


_TIPS = [
    tip("name", "kernel"),
    tip("phase", "phase"),
    tip("class", "bottleneck"),
    tip("time", "time"),
    tip("share", "share of kernel time", "quantitative", ".1%"),
    tip("count", "calls", "quantitative"),
    tip("shown_flops", "achieved"),
    tip("shown_bytes", "DRAM bandwidth"),
    tip("x", "FLOP/byte", "quantitative", ".3~g"),
    tip("roof", "of its roof"),
    tip("source", "dimensions from"),
]


def _points(marks: list[Spec], encoding: Spec) -> Spec:
    phases = present(Phase, marks, "phase")
    return {
        "data": {"values": marks},
        "mark": {"type": "point", "filled": True, "opacity": 1, "strokeWidth": 1.5, "cursor": "pointer"},
        "encoding": {
            **encoding,
            "color": class_colour(marks),
            "stroke": class_colour(marks),
            "size": {
                "field": "share",
                "type": "quantitative",
                "scale": {
                    "domain": [0, max((mark["share"] for mark in marks), default=1.0)],
                    "range": [12, 900],
                },
                "legend": None,
            },
            "shape": {
                "field": "phase",
                "type": "nominal",
                "scale": {
                    "domain": phases,
                    "range": [PHASE_SHAPES[word] for word in phases],
                },
                "legend": {"title": "phase"},
            },
            "fillOpacity": {"condition": {"test": "datum.inferred", "value": 0.04}, "value": 0.6},
            "tooltip": _TIPS,
        },
    }


def _roofline(
    with_flops: pd.DataFrame, placed: pd.DataFrame, ceilings: Ceilings, roofs: dict[str, Roof]
) -> Figure:
    every = _marks(placed)
    marks = _worth_room(every, "x", "y")
    ridges = {word: ridge for word in roofs if word != "dram" and (ridge := ceilings.ridge(word)) is not None}
    peaks = [roof.used for word, roof in roofs.items() if word != "dram" and roof.used is not None]
    across = _decades([0.1, 100, *ridges.values(), *(mark["x"] for mark in marks)])
    up = _decades([*(mark["y"] for mark in marks), *peaks])
    low, high = across[0], across[-1]
    layers = [
        _points(
            marks,
            {
                "x": {"field": "x", **_log(across, "arithmetic intensity [FLOP/byte]", "~g")},
                "y": {"field": "y", **_log(up, "achieved [FLOP/s]", "~s")},
            },
        )
    ]
    layers = [*_roof_lines(roofs, ridges, (low, high), up[0]), *layers]
    share = float(with_flops["share"].sum())
    inferred = float(with_flops["share"][~with_flops["flops_source"].isin(_FIRM)].sum())
    shown = ", ".join(f"{word} {digits(value)}" for word, value in ridges.items()) or "unknown"
    reading = (
        f"Kernels with modelled FLOPs hold {percent(share)} of the kernel time ({percent(inferred)} from inferred "
        f"dimensions, drawn hollow); area is share of time; left of a ridge (FLOP/byte: {shown}) DRAM is the nearer roof, right of it arithmetic; "
        f"intensity uses minimum bytes, so true marks lie at or left of the drawn ones."
    )
    if more := max(0, len(placed) - MAX_MARKS) + len(every) - len(marks):
        reading += f" {more} group{'s' if more > 1 else ''} of the least time {'are' if more > 1 else 'is'} not drawn."
    return Figure("roofline", "Roofline", reading, chart(layers, height=420, description=reading))


def _worth_room(marks: list[Spec], *axes: str) -> list[Spec]:
    """The marks without those far from the others that hold next to no time: they would squeeze all else."""
    seen = [mark for mark in marks if mark["share"] >= _LEAST_SHARE] or marks
    ends = {axis: _decades([mark[axis] for mark in seen]) for axis in axes}
    return [mark for mark in marks if all(ends[axis][0] <= mark[axis] <= ends[axis][-1] for axis in axes)]


def _decades(values: Iterable[float]) -> list[float]:
    """The powers of ten from under the least value to over the largest."""
    logs = [math.log10(value) for value in values]
    return [10.0**power for power in range(math.floor(min(logs)), math.ceil(max(logs) + _HEADROOM) + 1)]


def _log(decades: list[float], title: str, form: str) -> Spec:
    """A logarithmic axis with a line a decade."""
    return {
        "type": "quantitative",
        "scale": {"type": "log", "domain": [decades[0], decades[-1]], "nice": False},
        "axis": {"title": title, "format": form, "values": decades},
    }


def _distinct(roofs: dict[str, Roof]) -> dict[str, Roof]:
    """Compute roofs, those of one height under one name: `fp32, vector`."""
    words: dict[float | None, list[str]] = {}
    for word, roof in roofs.items():
        if word != "dram":
            words.setdefault(roof.used, []).append(word)
    return {", ".join(same): roofs[same[0]] for same in words.values()}


def _roof_lines(
    roofs: dict[str, Roof], ridges: dict[str, float], across: tuple[float, float], bottom: float
) -> Iterator[Spec]:
    """A broken line a dtype: up with DRAM bandwidth to the ridge, then level."""
    low, high = across
    dram = roofs["dram"].used if "dram" in roofs else None
    lines: list[Spec] = []
    labels: list[Spec] = []
    for word, roof in _distinct(roofs).items():
        if roof.used is None:
            continue
        kind = "measured" if roof.is_measured else "spec"
        corners = [(low, low * dram), (roof.used / dram, roof.used)] if dram else [(low, roof.used)]
        lines += [
            {"roof": word, "x": x, "y": y, "order": n}
            for n, (x, y) in enumerate([*corners, (high, roof.used)])
        ]
        text = f"{word} {si(roof.used, 'FLOP/s')} ({kind})"
        labels.append({"x": high, "y": roof.used, "text": text, "short": word})
    labels = _under_where_close(labels)
    if dram and labels:
        # Above the slanted roof there is room: no kernel can be there. High up, a narrow page has room to its left.
        foot = max(low, bottom / dram)
        middle = foot * (max([r for r in ridges.values() if r < high], default=high) / foot) ** _LABEL_AT
        trust = "measured" if roofs["dram"].is_measured else "spec"
        text = f"DRAM {si(dram, 'B/s')} ({trust})"
        labels.append({"x": middle, "y": middle * dram, "text": text, "short": "DRAM", "under": False})
    place = {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}}
    if lines:
        yield {
            "data": {"values": lines},
            "mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.8, "clip": True},
            "encoding": {**place, "detail": {"field": "roof"}, "order": {"field": "order"}},
        }
    if labels:
        mark = {
            "type": "text",
            "align": "right",
            "baseline": {"expr": "datum.under ? 'top' : 'bottom'"},
            "dy": {"expr": "datum.under ? 4 : -3"},
            "dx": -2,
            "text": {"expr": f"width < {_NARROW} ? datum.short : datum.text"},
        }
        yield {"data": {"values": labels}, "mark": mark, "encoding": place}


def _under_where_close(labels: list[Spec]) -> list[Spec]:
    """Labels of roofs, a lower one under its line where the next higher line leaves it no room above."""
    ordered = sorted(labels, key=lambda label: -label["y"])
    above = [math.inf, *(label["y"] for label in ordered)]
    return [
        {**label, "under": higher / label["y"] < _CLOSE}
        for higher, label in zip(above, ordered, strict=False)
    ]


def _strip(strip: pd.DataFrame, dram: Roof | None) -> Figure:
    every = [mark for mark in _marks(strip) if mark["bandwidth"]]
    marks = _worth_room(every, "bandwidth")
    top = [dram.used] if dram is not None and dram.used is not None else []
    decades = _decades([*(mark["bandwidth"] for mark in marks), *top])
    where = {"x": {"field": "bandwidth", **_log(decades, "DRAM bandwidth [byte/s]", "~s")}}
    layers = [_points(marks, {**where, "y": {"value": 40}})]
    reading = f"Kernels that move bytes and do no modelled FLOPs hold {percent(float(strip['share'].sum()))} of the kernel time; they are placed by the bandwidth they reach"
    if dram is not None and dram.used is not None:
        layers.append(
            {
                "data": {"values": [{"bandwidth": dram.used}]},
                "mark": {"type": "rule", "strokeDash": [4, 3]},
                "encoding": where,
            }
        )
        reading += f", against a DRAM roof of {si(dram.used, 'B/s')} ({'measured' if dram.is_measured else 'spec'}, dashed)"
    if len(every) > len(marks):
        reading += f"; {len(every) - len(marks)} of the least time not drawn"
    return Figure(
        "strip",
        "Bandwidth strip: kernels without FLOPs",
        f"{reading}.",
        chart(layers, height=80, description=reading),
    )
