"""Numbers as people read them: SI steps, three significant digits, the unit always beside."""

_STEPS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def si(value: float | None, unit: str) -> str:
    """`value` with an SI prefix and its unit, `-` where it is unknown: 3.35e12, "B/s" gives "3.35 TB/s"."""
    if value is None or value != value:  # noqa: PLR0124 - NaN is the one value unequal to itself
        return "-"
    for step, prefix in _STEPS:
        if abs(value) >= step * 0.9995:
            return f"{digits(value / step)} {prefix}{unit}".rstrip()
    return f"{digits(value)} {unit}".rstrip()


def digits(value: float) -> str:
    """Three significant digits without an exponent."""
    if value == 0:
        return "0"
    size = abs(value)
    places = 2 if size < 9.995 else 1 if size < 99.95 else 0  # noqa: PLR2004 - where three digits end
    if size < 0.0995:  # noqa: PLR2004 - where three digits end
        return f"{value:.3g}"
    return f"{value:.{places}f}"


def duration(ns: float | None) -> str:
    """A duration: 1234567 gives "1.23 ms"."""
    if ns is None or ns != ns:  # noqa: PLR0124 - NaN
        return "-"
    for step, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if abs(ns) >= step * 0.9995:
            return f"{digits(ns / step)} {unit}"
    return f"{digits(ns)} ns"


def percent(share: float | None) -> str:
    """A share as a percentage: 0.1234 gives "12.3 %"."""
    if share is None or share != share:  # noqa: PLR0124 - NaN
        return "-"
    return f"{digits(100 * share)} %"
