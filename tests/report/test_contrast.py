"""Contrast of what is read and drawn, in both themes, by the formula of WCAG 2.2."""

import re
from importlib.resources import files

import pytest

from tracekit.report.html.figure import CLASS_COLOURS, PHASE_COLOURS
from tracekit.report.html.losses import PART_COLOURS
from tracekit.report.html.ranks import PARTS

TEXT, DRAWN = 4.5, 3.0


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def themes() -> dict[str, dict[str, str]]:
    css = (files("tracekit.report.html") / "report.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root(\[[^\]]*\])? \{(.*?)\}", css, re.DOTALL)
    return {
        "dark" if mark else "light": dict(re.findall(r"--([\w-]+): (#\w{6});", text)) for mark, text in blocks
    }


def test_the_formula_gives_the_known_ends() -> None:
    assert contrast("#000000", "#ffffff") == 21
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read_on_every_ground(theme: str) -> None:
    colours = themes()[theme]
    for word in ("text", "faint", "accent"):
        for ground in ("ground", "raised"):
            assert contrast(colours[word], colours[ground]) >= TEXT, (word, ground)
    assert contrast(colours["text"], colours["warn-ground"]) >= TEXT
    assert contrast(colours["edge"], colours["ground"]) >= DRAWN


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_mark_stands_out_from_every_ground(theme: str) -> None:
    colours = themes()[theme]
    drawn = {*CLASS_COLOURS.values(), *PHASE_COLOURS.values(), *PART_COLOURS, *(c for _, c in PARTS.values())}
    poor = {
        (colour, ground): contrast(colour, colours[ground])
        for colour in drawn
        for ground in ("ground", "raised")
        if contrast(colour, colours[ground]) < DRAWN
    }
    assert poor == {}
