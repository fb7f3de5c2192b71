"""Nanoseconds from the decimal text of microseconds, exactly.

Floats would not do: an absolute epoch in microseconds has a grain of a quarter of a microsecond, and even
times relative to a base lose the last digit. Text is turned into integers without rounding; digits beyond
the nanosecond are cut.
"""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Text = bytes | msgspec.Raw

_NANOSECOND = pa.decimal128(38, 3)
_FINER = pa.decimal128(38, 12)
# 2^62 ns is 146 years: what lies beyond is not a time, and sums of two stay within 64 bits.
LIMIT = 1 << 62


def nanoseconds(texts: Sequence[Text]) -> tuple[Ints, Bools]:
    """Times in ns and a mask of those whose text is a number.

    Args:
        texts: JSON values as written: 12, 12.345, 1.2e3, "12.3" …; empty where the field is absent.
    """
    if not texts:
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    try:
        column = _column(texts)
        try:
            exact = column.cast(_NANOSECOND)
        except pa.ArrowInvalid:
            exact = column.cast(_FINER).cast(_NANOSECOND, safe=False)
    except pa.ArrowInvalid:
        return _one_by_one(texts)
    return _within(_low_words(exact))


def _column(texts: Sequence[Text]) -> pa.Array:
    """Texts as an Arrow column, put together by hand: the usual way imports pandas."""
    ends = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, texts), np.int32, len(texts)), out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def _low_words(column: pa.Array) -> tuple[Ints, Ints]:
    """The low and high 64 bits of a decimal column: its value in thousandths."""
    words = np.frombuffer(column.buffers()[1], np.int64)[
        2 * column.offset : 2 * (column.offset + len(column))
    ]
    return words[0::2], words[1::2]


def _within(words: tuple[Ints, Ints]) -> tuple[Ints, Bools]:
    low, high = words
    good = (high == low >> 63) & (np.abs(low) < LIMIT)
    return np.where(good, low, 0), good


def _one_by_one(texts: Sequence[Text]) -> tuple[Ints, Bools]:
    values = [_one(bytes(text)) for text in texts]
    good = np.array([value is not None for value in values], np.bool_)
    return np.array([value or 0 for value in values], np.int64), good


def _one(text: bytes) -> int | None:
    try:
        value = Decimal(text.strip(b'" \t').decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    if not value.is_finite() or value.adjusted() > len(str(LIMIT)):
        return None
    number = int(value * 1000)
    return number if abs(number) < LIMIT else None
