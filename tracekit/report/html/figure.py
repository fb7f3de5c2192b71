"""What a chart of the report is, and what all charts share."""

from dataclasses import dataclass
from typing import Any

from tracekit.tables import Bottleneck, Phase

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
"""Names the grammar's version; it is never fetched."""

# Okabe and Ito's palette, which holds for colour-blind readers on light and dark ground.
CLASS_COLOURS = {
    "compute": "#d55e00",
    "dram": "#0072b2",
    "l2": "#56b4e9",
    "latency": "#e69f00",
    "communication": "#009e73",
    "copy": "#cc79a7",
    "unknown": "#999999",
}
PHASE_COLOURS = {
    "prefill": "#d55e00",
    "decode": "#0072b2",
    "mixed": "#cc79a7",
    "verify": "#009e73",
    "draft": "#e69f00",
    "other": "#999999",
    "unknown": "#bbbbbb",
}
PHASE_SHAPES = {
    "prefill": "square",
    "decode": "circle",
    "mixed": "diamond",
    "verify": "triangle-up",
    "draft": "triangle-down",
    "other": "cross",
    "unknown": "stroke",
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


def class_colour() -> Spec:
    """The colour channel of bottleneck classes."""
    return {
        "field": "class",
        "type": "nominal",
        "scale": {
            "domain": [str(word) for word in Bottleneck],
            "range": [CLASS_COLOURS[word] for word in Bottleneck],
        },
        "legend": {"title": "bottleneck"},
    }


def phase_colour() -> Spec:
    """The colour channel of phases."""
    return {
        "field": "phase",
        "type": "nominal",
        "scale": {"domain": [str(word) for word in Phase], "range": [PHASE_COLOURS[word] for word in Phase]},
        "legend": {"title": "phase"},
    }


def chart(layers: list[Spec], *, height: int | Spec, description: str) -> Spec:
    """A specification of layers as wide as the page."""
    return {
        "$schema": SCHEMA,
        "description": description,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": layers,
    }


def tip(field: str, title: str, kind: str = "nominal", form: str | None = None) -> Spec:
    """One line of a tooltip."""
    line = {"field": field, "title": title, "type": kind}
    return line if form is None else {**line, "format": form}
