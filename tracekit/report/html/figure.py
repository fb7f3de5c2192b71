"""What a chart of the report is, and what all charts share."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pandas as pd

from tracekit.tables import Bottleneck, Phase

Spec = dict[str, Any]

VEGA_LITE = "6.4"
"""The version that is asked of vl-convert, which carries several."""
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Names the grammar's version; it is never fetched."""

# Okabe and Ito's palette, which holds for colour-blind readers; its light tones are darkened until each stands out
# from light and dark ground alike, at 3 to 1 (WCAG 2.2, 1.4.11).
CLASS_COLOURS = {
    "compute": "#d55e00",
    "dram": "#0072b2",
    "l2": "#2e93d1",
    "latency": "#a08700",
    "communication": "#009e73",
    "copy": "#c46c9b",
    "unknown": "#888888",
}
PHASE_COLOURS = {
    "prefill": "#d55e00",
    "decode": "#0072b2",
    "mixed": "#c46c9b",
    "verify": "#009e73",
    "draft": "#a08700",
    "other": "#6b6b6b",
    "unknown": "#8c8c8c",
}
PHASE_SHAPES = {
    "prefill": "square",
    "decode": "circle",
    "mixed": "diamond",
    "verify": "triangle-up",
    "draft": "triangle-down",
    "other": "cross",
    "unknown": "triangle-right",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One chart and its one-sentence reading.

    Attributes:
        key: Element id in the page.
        title: Heading.
        reading: What a reader should take from it, in one sentence.
        spec: Vega-Lite specification, data included.
    """

    key: str
    title: str
    reading: str
    spec: Spec


def records_of(frame: pd.DataFrame) -> list[Spec]:
    """The rows of a frame as plain dicts; what is null is None."""
    records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{str(name): value for name, value in record.items()} for record in records]


def present(words: Iterable[StrEnum], rows: Iterable[Spec], field: str) -> list[str]:
    """The words that occur in a field of the rows, in the order of their enumeration."""
    seen = {row[field] for row in rows}
    return [str(word) for word in words if str(word) in seen]


def class_colour(rows: list[Spec]) -> Spec:
    """The colour channel of the bottleneck classes that occur."""
    words = present(Bottleneck, rows, "class")
    return {
        "field": "class",
        "type": "nominal",
        "scale": {"domain": words, "range": [CLASS_COLOURS[word] for word in words]},
        "legend": {"title": "bottleneck"},
    }


def phase_colour(rows: list[Spec]) -> Spec:
    """The colour channel of the phases that occur."""
    words = present(Phase, rows, "phase")
    return {
        "field": "phase",
        "type": "nominal",
        "scale": {"domain": words, "range": [PHASE_COLOURS[word] for word in words]},
        "legend": {"title": "phase"},
    }


def chart(layers: list[Spec], *, height: int, description: str) -> Spec:
    """A specification of layers as wide as the page."""
    return {
        "$schema": SCHEMA,
        "description": description,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": layers,
    }


def ticks(title: str) -> Spec:
    """A linear axis with a tick for each so many pixels of the page's width."""
    return {"title": title, "tickCount": {"expr": "ceil(width / 90)"}}


def tip(field: str, title: str, kind: str = "nominal", form: str | None = None) -> Spec:
    """One line of a tooltip."""
    line = {"field": field, "title": title, "type": kind}
    return line if form is None else {**line, "format": form}
