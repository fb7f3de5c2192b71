"""Numbers and names as people read them: SI steps, three significant digits, the unit always beside."""

import math
import re
import unicodedata

_STEPS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_LEAST_SHARE = 0.0005
_TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_DURATION = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*(ns|us|ms|s)\s*", re.IGNORECASE)


def si(value: float | None, unit: str) -> str:
    """`value` with an SI prefix and its unit, `-` where it is unknown: 3.35e12, "B/s" gives "3.35 TB/s"."""
    if value is None or math.isnan(value):
        return "-"
    for step, prefix in _STEPS:
        if abs(value) >= step * 0.9995:
            return f"{digits(value / step)} {prefix}{unit}".rstrip()
    return f"{digits(value)} {unit}".rstrip()


def digits(value: float) -> str:
    """Three significant digits without an exponent; whole numbers of more digits are kept whole."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    rounded = round(value, places)
    # Rounding can add a digit: 9.996 is 10.0, not 10.00.
    if rounded:
        places = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:.{places}f}"


def duration(ns: float | None) -> str:
    """A duration: 1234567 gives "1.23 ms"."""
    if ns is None or math.isnan(ns):
        return "-"
    for step, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if abs(ns) >= step * 0.9995:
            return f"{digits(ns / step)} {unit}"
    return f"{digits(ns)} ns"


def number_of(count: int, noun: str, many: str | None = None) -> str:
    """A count with its noun: `1 token`, `4 tokens`, `4 launches`."""
    return f"{count} {noun}" if count == 1 else f"{count} {many or noun + 's'}"


def parse_duration(text: str) -> float | None:
    """A positive duration in nanoseconds: `12.3ms`, `250 us` and `1.5s`; None where it is none of these."""
    found = _DURATION.fullmatch(text)
    value = float(found[1]) * _TIMES[found[2].lower()] if found else 0.0
    return value if 0 < value < math.inf else None


def percent(share: float | None) -> str:
    """A share as a percentage: 0.1234 gives "12.3 %"; what would round to nothing is "<0.1 %"."""
    if share is None or math.isnan(share):
        return "-"
    if 0 < share < _LEAST_SHARE:
        return "<0.1 %"
    return f"{digits(100 * share)} %"


def plain(text: str, width: int | None = None) -> str:
    """A text from a trace as one line that can neither steer a terminal nor hide.

    Controls, format marks (such as a change of writing direction) and lone surrogates are shown as escapes; where
    the text is longer than `width` its middle is left out.
    """
    # A name can be megabytes long: only the ends that can be seen are escaped.
    seen = text if width is None else _shorten(text, 4 * width)
    if not (seen.isascii() and seen.isprintable()):
        seen = "".join(
            c.encode("unicode_escape").decode() if unicodedata.category(c)[0] == "C" else c for c in seen
        )
    return seen if width is None else _shorten(seen, width)


def _shorten(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    head = (width - 2) * 2 // 3
    return f"{text[:head]}..{text[len(text) - (width - 2 - head) :]}"
