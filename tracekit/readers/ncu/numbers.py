"""Numbers as a profiler prints them, in whatever locale: the mark between whole and fraction is found first."""

import math
import re
from collections.abc import Iterable

from tracekit.tables import HwStatus

_SPACES = dict.fromkeys(map(ord, " \t\u00a0\u2009\u202f'\u2019"))
# What can only be a fraction behind a comma, and what can only be one behind a point.
_COMMA_FRACTION = re.compile(
    r"^-?\d+,(?:\d{1,2}|\d{4,})$|^-?\d{1,3}(?:\.\d{3})+,\d+$|^-?0,\d+$|^-?\d+,\d+[eE]"
)
_POINT_FRACTION = re.compile(
    r"^-?\d+\.(?:\d{1,2}|\d{4,})$|^-?\d{1,3}(?:,\d{3})+\.\d+$|^-?0\.\d+$|^-?\d+\.\d+[eE]"
)
_GROUPED = {
    ".": re.compile(r"^-?\d{1,3}(?:,\d{3})+(?:\.\d+)?$"),
    ",": re.compile(r"^-?\d{1,3}(?:\.\d{3})+(?:,\d+)?$"),
}
_PLAIN = re.compile(r"^[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?$")
_INSTANCES = re.compile(r"^(?P<total>[-+.,\d\s]*\d)\s*[({;].*$", re.DOTALL)

NOT_COLLECTED = frozenset({"", "no data"})
UNSUPPORTED = frozenset({"n/a", "na"})

Parsed = tuple[float | None, HwStatus]


def decimal_mark(cells: Iterable[str]) -> tuple[str, bool]:
    """The mark before fractions, and whether nothing in the cells decides it where it matters.

    A point is taken where nothing speaks for a comma. It matters, and cannot be decided, where there are cells such
    as `1,234` and no other cell shows a fraction.
    """
    comma = point = doubtful = False
    for cell in cells:
        text = cell.translate(_SPACES)
        comma |= _COMMA_FRACTION.match(text) is not None
        point |= _POINT_FRACTION.match(text) is not None
        doubtful |= "," in text and _GROUPED["."].match(text) is not None
    return ("," if comma and not point else "."), doubtful and not comma and not point


def parse(cell: str, mark: str = ".") -> Parsed:
    """A cell as a number and what is known of it.

    Args:
        cell: Its text.
        mark: The decimal mark of the file.

    Returns:
        The number, None unless `measured`. Empty cells and `no data` are `not_collected`, `n/a` is `unsupported`,
        and what is no finite number (`nan`, `(256, 1, 1)`, text) is `failed`: never 0.
    """
    text = cell.strip()
    if text.lower() in NOT_COLLECTED:
        return None, HwStatus.NOT_COLLECTED
    if text.lower() in UNSUPPORTED:
        return None, HwStatus.UNSUPPORTED
    instances = _INSTANCES.match(text)
    text = (instances["total"] if instances else text).translate(_SPACES)
    if _GROUPED[mark].match(text):
        text = text.replace("," if mark == "." else ".", "")
    if mark == ",":
        text = text.replace(",", ".")
    if not _PLAIN.match(text):
        return None, HwStatus.FAILED
    value = float(text)
    return (value, HwStatus.MEASURED) if math.isfinite(value) else (None, HwStatus.FAILED)
