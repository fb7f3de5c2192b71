"""A result in a notebook."""

from collections.abc import Callable

import pytest

from tracekit.errors import UnsupportedError
from tracekit.report import Result

Make = Callable[..., Result]
BREAKOUT = "</script><img src=x onerror=alert(1)>"


def test_a_result_shows_its_verdict_and_hostile_text_stays_text(big_result: Make) -> None:
    quality = big_result().quality.assign(message=BREAKOUT)
    result = big_result()
    shown = Result(result.all_kernels, result.steps, result.gaps, quality, result.ceilings)._repr_html_()
    assert "<td>decode</td>" in shown
    assert "bound" in shown
    assert "<img" not in shown
    assert "&lt;img" in shown


def test_charts_are_drawn_by_notebooks_that_can_and_pictures_elsewhere(big_result: Make) -> None:
    result = big_result(steps=3)
    for chart in (result.roofline(), result.timeline(), result.waterfall("prefill")):
        assert chart.spec["width"] == 800
    bundle = result.roofline()._repr_mimebundle_()
    assert bundle["application/vnd.vegalite.v5+json"]["layer"]
    assert bundle["image/png"].startswith("iVBOR")
    assert bundle["text/plain"].startswith("Roofline: Kernels with modelled FLOPs hold")


def test_what_cannot_be_drawn_says_why(make_result: Make) -> None:
    empty = make_result([])
    assert "nothing to report" in empty._repr_html_()
    with pytest.raises(UnsupportedError, match="no kernel has known FLOPs"):
        empty.roofline()
    with pytest.raises(UnsupportedError, match="there are no steps"):
        empty.timeline()
    with pytest.raises(UnsupportedError, match="phase 'decode'"):
        empty.waterfall("decode")
