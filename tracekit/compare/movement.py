"""Where phases and kernels moved on the roofline: an arrow from base to new, on log axes, as SVG."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import escape

from tracekit.compare.contract import Comparison, Pair
from tracekit.report.blocks import Picture
from tracekit.report.wording import display_name
from tracekit.tables import LLM_PHASES
from tracekit.units import digits, plain, si

WIDTH, HEIGHT = 900, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 100, 20, 16, 44
_KERNELS = 8
_LABEL = 28
_COLOURS = {"phase": "#0969da", "kernel": "#bf8700"}
_SIDES = (("base", "none"), ("new", "6 4"))


@dataclass(frozen=True, slots=True)
class _Arrow:
    """A movement: intensity [FLOP/byte] and rate [FLOP/s] on both sides."""

    sort: str
    label: str
    x: tuple[float, float]
    y: tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Axes:
    """Log axes from the smallest to the largest value, in decades."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A point in pixels."""
        across = (math.log10(x) - self.x[0]) / (self.x[1] - self.x[0])
        up = (math.log10(y) - self.y[0]) / (self.y[1] - self.y[0])
        return (
            _LEFT + across * (WIDTH - _LEFT - _RIGHT),
            HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM),
        )


def movement(comparison: Comparison) -> Picture | None:
    """The roofline of a comparison; None where no phase and no kernel has known work on both sides."""
    arrows = [*_arrows(comparison)]
    if not arrows:
        return None
    axes = _axes(arrows)
    drawn = [*_grid(axes), *_roofs(axes, comparison.roofs), *(_drawn(axes, arrow) for arrow in arrows)]
    told = "; ".join(f"{arrow.label}: {_words(arrow)}" for arrow in arrows if arrow.sort == "phase")
    label = escape(f"Roofline movement. {told}")
    heads = "".join(
        f'<marker id="head-{sort}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
        for sort, colour in _COLOURS.items()
    )
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}"><defs>{heads}</defs>{"".join(drawn)}</svg>'
    reading = (
        "Arrows go from base to new: phases blue, the kernels that changed most yellow; up is faster, right is more "
        f"arithmetic a byte. Roofs of base are solid, of new dashed. {told}."
    )
    return Picture("Movement on the roofline", svg, reading)


def _words(arrow: _Arrow) -> str:
    rates = " to ".join(si(value, "FLOP/s") for value in arrow.y)
    return f"{rates} at {' to '.join(digits(value) for value in arrow.x)} FLOP/byte"


def _arrows(comparison: Comparison) -> Iterator[_Arrow]:
    known = (phase for phase in comparison.phases if phase.phase in map(str, LLM_PHASES))
    for phase in known:
        yield from _arrow("phase", phase.phase, phase.arithmetic_intensity, phase.flops_per_s)
    shown = 0
    for kernel in comparison.kernels:
        name = kernel.op or display_name((*kernel.new_names, *kernel.base_names, "")[0], _LABEL)
        found = [*_arrow("kernel", f"{kernel.phase} {name}", kernel.arithmetic_intensity, kernel.flops_per_s)]
        if shown < _KERNELS:
            yield from found
        shown += len(found)


def _arrow(sort: str, label: str, x: Pair, y: Pair) -> Iterator[_Arrow]:
    if x.base and x.new and y.base and y.new and min(x.base, x.new, y.base, y.new) > 0:
        yield _Arrow(sort, plain(label, 2 * _LABEL), (x.base, x.new), (y.base, y.new))


def _axes(arrows: Sequence[_Arrow]) -> _Axes:
    spans = []
    for values in ([x for a in arrows for x in a.x], [y for a in arrows for y in a.y]):
        low, high = math.log10(min(values)), math.log10(max(values))
        spans.append((math.floor(low - 0.2), math.ceil(high + 0.4)))
    return _Axes(spans[0], spans[1])


def _grid(axes: _Axes) -> Iterator[str]:
    for decade in range(int(axes.x[0]), int(axes.x[1]) + 1):
        x, y = axes.at(10.0**decade, 10.0 ** axes.y[0])
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{y:.1f}" stroke="currentColor" opacity=".12"/>'
        yield f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{digits(10.0**decade)}</text>'
    for decade in range(int(axes.y[0]), int(axes.y[1]) + 1):
        x, y = axes.at(10.0 ** axes.x[0], 10.0**decade)
        yield f'<line x1="{x:.1f}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" opacity=".12"/>'
        yield f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{si(10.0**decade, "FLOP/s")}</text>'
    yield f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">FLOP/byte</text>'


def _roofs(axes: _Axes, roofs: Sequence[dict[str, float]]) -> Iterator[str]:
    """The DRAM slope and the highest compute roof in force of each side, as far as they are inside the axes."""
    for found, (_, dash) in zip(roofs, _SIDES, strict=True):
        peaks = [rate for word, rate in found.items() if word != "dram"]
        if "dram" not in found or not peaks:
            continue
        peak, dram = max(peaks), found["dram"]
        low, high = 10.0 ** axes.x[0], 10.0 ** axes.x[1]
        line = [(low, low * dram), (peak / dram, peak), (max(high, peak / dram), peak)]
        points = " ".join("{:.1f},{:.1f}".format(*axes.at(x, y)) for x, y in line)
        yield (
            f'<svg x="{_LEFT}" y="{_TOP}" width="{WIDTH - _LEFT - _RIGHT}" height="{HEIGHT - _TOP - _BOTTOM}" '
            f'viewBox="{_LEFT} {_TOP} {WIDTH - _LEFT - _RIGHT} {HEIGHT - _TOP - _BOTTOM}">'
            f'<polyline points="{points}" fill="none" stroke="currentColor" opacity=".6" stroke-dasharray="{dash}"/></svg>'
        )


def _drawn(axes: _Axes, arrow: _Arrow) -> str:
    (x1, y1), (x2, y2) = (axes.at(x, y) for x, y in zip(arrow.x, arrow.y, strict=True))
    colour, wide = _COLOURS[arrow.sort], 3 if arrow.sort == "phase" else 1.5
    title = escape(f"{arrow.label}: {_words(arrow)}")
    text = (
        f'<text x="{x2 + 8:.1f}" y="{y2 + 4:.1f}">{escape(arrow.label)}</text>'
        if arrow.sort == "phase"
        else ""
    )
    return (
        f'<g><title>{title}</title><circle cx="{x1:.1f}" cy="{y1:.1f}" r="3" fill="{colour}"/>'
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{wide}" '
        f'marker-end="url(#head-{arrow.sort})"/>{text}</g>'
    )
