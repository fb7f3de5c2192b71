"""A result and its charts as a notebook shows them."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import vl_convert

from tracekit.errors import UnsupportedError
from tracekit.report.html.environment import environment
from tracekit.report.html.figure import VEGA_LITE, Figure, Spec
from tracekit.report.html.losses import waterfall_figures
from tracekit.report.html.roofline import roofline_figures
from tracekit.report.html.timeline import step_rows, timeline_figures
from tracekit.report.result import Result

_WIDTH = 800
_MIME = "application/vnd.vegalite.v5+json"
"""What notebooks know Vega-Lite by; nothing newer of the grammar is used."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of a result.

    Attributes:
        title: What it is of.
        reading: What a reader should take from it, in one sentence.
        spec: Vega-Lite specification, data included; Altair and vl-convert take it as it is.
    """

    title: str
    reading: str
    spec: Spec

    def png(self, scale: float = 1.0) -> bytes:
        """The chart as a picture on white."""
        spec = {**self.spec, "background": "white"}
        # No address is allowed: a picture is made from the result's own numbers alone.
        made: bytes = vl_convert.vegalite_to_png(
            spec, vl_version=VEGA_LITE, scale=scale, allowed_base_urls=[]
        )
        return made

    def _repr_mimebundle_(self, **_choices: Any) -> dict[str, Any]:
        """Interactive where the notebook can draw it, else the picture, else the sentence."""
        return {
            _MIME: self.spec,
            "image/png": base64.b64encode(self.png()).decode(),
            "text/plain": f"{self.title}: {self.reading}",
        }


def roofline(result: Result) -> Chart:
    """The roofline; see `Result.roofline`."""
    return _chart(roofline_figures(result), "roofline", "no kernel has known FLOPs")


def timeline(result: Result) -> Chart:
    """Steps and idle time; see `Result.timeline`."""
    return _chart(timeline_figures(result, step_rows(result)), "timeline", "there are no steps")


def waterfall(result: Result, phase: str) -> Chart:
    """Where a phase's time goes; see `Result.waterfall`."""
    return _chart(waterfall_figures(result), f"waterfall-{phase}", f"too little is known of phase {phase!r}")


def _chart(figures: Iterable[Figure], key: str, missing: str) -> Chart:
    for figure in figures:
        if figure.key == key:
            return Chart(figure.title, figure.reading, {**figure.spec, "width": _WIDTH})
    raise UnsupportedError(f"nothing to draw: {missing}", hint="result.summary says what is known")


def summary_html(result: Result) -> str:
    """The verdict and the first findings as a fragment of HTML, without script or style sheet."""
    return environment().get_template("notebook.html.j2").render(summary=result.overview)
