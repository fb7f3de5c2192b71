"""Mends one event's text, by the kinds of damage that real recorders have written.

Each repair is tried in turn on top of the earlier ones, and only on an event that does not parse as it is.
"""

import re
from collections.abc import Callable, Iterator

from tracekit.readers.kineto.events import Event, decode_one

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_IN_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LONE_BACKSLASH = re.compile(rb'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NO_NUMBER = re.compile(
    rb"(:\s*|[\[,]\s*)(?:-?(?:NaN|nan|Infinity|inf|Inf)|N/A|nil|None|undefined)(?=\s*[,}\]])"
)
_TRAILING_COMMA = re.compile(rb",(\s*[}\]])")
_KEYS = rb"ph|cat|name|pid|tid|ts|dur|args|id|bp|s"
# A text field up to the key that follows it, whatever quotes stand between.
_FIELD = re.compile(
    rb'("(?:name|cat)"\s*:\s*")(.*?)(?="\s*(?:,\s*"(?:' + _KEYS + rb')"\s*:|\}\s*\Z))', re.DOTALL
)
_INNER_QUOTE = re.compile(rb'(?<!\\)"')

Mend = Callable[[bytes], bytes]


def _numbers(text: bytes) -> bytes:
    return _NO_NUMBER.sub(rb"\1null", text)


def _commas(text: bytes) -> bytes:
    return _TRAILING_COMMA.sub(rb"\1", text)


def _backslashes(text: bytes) -> bytes:
    return _LONE_BACKSLASH.sub(rb"\\\\", text)


def _controls(text: bytes) -> bytes:
    return _IN_TEXT.sub(lambda found: _CONTROL.sub(b" ", found.group()), text)


def _encoding(text: bytes) -> bytes:
    return text.decode("utf-8", errors="replace").encode("utf-8", errors="replace")


def _quotes(text: bytes) -> bytes:
    return _FIELD.sub(lambda found: found[1] + _INNER_QUOTE.sub(rb'\\"', found[2]), text)


MENDS: tuple[tuple[str, str, Mend], ...] = (
    ("not_a_number", "values NaN, Infinity or N/A, which JSON does not have, were read as absent", _numbers),
    ("bad_utf8", "bytes that are not UTF-8 were replaced", _encoding),
    ("lone_backslash", "backslashes that escape nothing were taken literally", _backslashes),
    ("control_characters", "raw control characters inside texts became spaces", _controls),
    ("trailing_comma", "commas before a closing bracket were dropped", _commas),
    ("inner_quotes", "unescaped quotes inside a name were escaped", _quotes),
)


def repairs(text: bytes) -> Iterator[tuple[bytes, tuple[str, ...]]]:
    """The text after each repair that changed it, and the codes of all repairs so far."""
    used: list[str] = []
    for code, _, repair in MENDS:
        mended = repair(text)
        if mended != text:
            used.append(code)
            text = mended
            yield text, tuple(used)


def mend(text: bytes) -> tuple[Event | None, tuple[str, ...]]:
    """The event that a damaged text meant, and the codes of the repairs that it took; None where none helps."""
    for mended, used in repairs(text):
        event = decode_one(mended)
        if event is not None:
            return event, used
    return None, ()
