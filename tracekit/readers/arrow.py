"""Arrow columns of a profiler's database as columns of the capture's tables."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.tables import QualityNote, Table

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
T = TypeVar("T", bound=Hashable)
# 2^62 ns is 146 years: what lies beyond is not a time, and sums of two stay within 64 bits.
_LIMIT = 1 << 62
_INT32 = 1 << 31


def values(table: pa.Table, name: str, default: int = 0) -> Ints:
    """A whole-number column; `default` where it is null."""
    column: Ints = pc.fill_null(table.column(name), default).to_numpy()
    return column


def missing(table: pa.Table, name: str) -> Bools:
    """Where a column is null."""
    mask: Bools = pc.is_null(table.column(name)).to_numpy()
    return mask


def nullable(numbers: Ints, null: Bools) -> pd.arrays.IntegerArray:
    """A nullable whole-number column."""
    return pd.arrays.IntegerArray(np.where(null, 0, numbers), null)


def small(numbers: Ints, null: Bools) -> pd.arrays.IntegerArray:
    """A nullable 32-bit column; what does not fit is null."""
    null = null | (numbers >= _INT32) | (numbers < -_INT32)
    return pd.arrays.IntegerArray(np.where(null, 0, numbers).astype(np.int32), null)


class Codes(Generic[T]):
    """Distinct values in order of first sight, and the code of each."""

    def __init__(self) -> None:
        self.codes: dict[T, int] = {}

    def one(self, item: T) -> int:
        """The code of a value; a new value is added."""
        return self.codes.setdefault(item, len(self.codes))

    def of(self, items: Iterable[T]) -> Ints:
        """The code of each value; new values are added."""
        return np.array([self.one(item) for item in items], np.int64)


def text_column(codes: Ints, texts: Iterable[str | None]) -> pd.Categorical:
    """A text column from codes; a code whose text is None, and a negative one, is null. Texts may repeat."""
    distinct: dict[str, int] = {}
    again = np.array(
        [-1 if text is None else distinct.setdefault(text, len(distinct)) for text in texts], np.int64
    )
    mapped = np.where(codes < 0, -1, again[np.maximum(codes, 0)]) if len(again) else np.full(len(codes), -1)
    return pd.Categorical.from_codes(mapped, pd.Index(list(distinct), dtype=object))


def names(keys: Ints, texts: Mapping[int, str], otherwise: str) -> pd.Categorical:
    """The text of each key; `otherwise` where it has none."""
    distinct, codes = np.unique(keys, return_inverse=True)
    return text_column(codes, [texts.get(int(key), otherwise) for key in distinct])


def triples(table: pa.Table, names: tuple[str, str, str]) -> pd.Categorical:
    """Three whole-number columns as texts `x,y,z`; null where one of them is."""
    null = np.logical_or.reduce([missing(table, name) for name in names])
    stacked = np.stack([values(table, name) for name in names], axis=1)
    return triple_texts(stacked, null)


def triple_texts(stacked: Ints, null: Bools) -> pd.Categorical:
    """Rows of three numbers as texts `x,y,z`."""
    distinct, codes = np.unique(stacked, axis=0, return_inverse=True)
    texts = [",".join(map(str, row)) for row in distinct.tolist()]
    return text_column(np.where(null, -1, codes.reshape(-1)), texts)


@dataclass(frozen=True, slots=True)
class ById:
    """A table whose rows are found by their number.

    Attributes:
        ids: The numbers, ascending.
        rows: The rows, in the order of their numbers.
    """

    ids: Ints
    rows: pa.Table

    @classmethod
    def of(cls, table: pa.Table, name: str = "id") -> "ById":
        """A table by one of its columns; of equal numbers, the first row counts."""
        order = np.argsort(values(table, name), kind="stable")
        return cls(values(table, name)[order], table.take(pa.array(order)))

    def take(self, keys: Ints, null: Bools) -> pa.Table:
        """The row of each key; nulls where there is none."""
        if not len(self.ids):
            return pa.table(
                {
                    name: pa.nulls(len(keys), kind)
                    for name, kind in zip(self.rows.column_names, self.rows.schema.types, strict=True)
                }
            )
        at = np.minimum(np.searchsorted(self.ids, keys), len(self.ids) - 1)
        return self.rows.take(pa.array(at, mask=null | (self.ids[at] != keys)))


@dataclass(slots=True)
class Kept:
    """Rows with a usable time, and a tally of those without.

    Attributes:
        bad: Rows that were left out, by what they are.
    """

    bad: dict[str, int] = field(default_factory=dict)

    def times(self, table: pa.Table, what: str, start: str = "start", end: str = "end") -> pa.Table:
        """The rows whose start and end are times, the end not before the start."""
        low, high = values(table, start), values(table, end)
        good = ~(missing(table, start) | missing(table, end))
        good &= (low > -_LIMIT) & (low <= high) & (high < _LIMIT)
        if good.all():
            return table
        self.bad[what] = self.bad.get(what, 0) + int((~good).sum())
        return table.filter(pa.array(good))

    def notes(self) -> list[QualityNote]:
        """What was left out."""
        return [
            QualityNote(
                "bad_time",
                count,
                f"{what} without a usable time (missing, or an end before the start) were kept out",
            )
            for what, count in self.bad.items()
        ]


def in_order(table: Table, parts: list[pd.DataFrame]) -> pd.DataFrame:
    """The rows of several frames as one table, in order of start."""
    filled = [table.conform(part).astype(dict.fromkeys(_texts(table), object)) for part in parts if len(part)]
    if not filled:
        return table.empty()
    frame = pd.concat(filled, ignore_index=True).sort_values("ts_ns", kind="stable", ignore_index=True)
    return table.conform(frame)


def _texts(table: Table) -> list[str]:
    return [column.name for column in table.columns if column.type == "string"]


def lookup(codes: Mapping[int, int], keys: Ints, change: Callable[[Ints], Ints] = lambda same: same) -> Ints:
    """The value of each key; where there is none, what `change` makes of the key."""
    distinct, inverse = np.unique(keys, return_inverse=True)
    fallback = change(distinct)
    found = np.array(
        [codes.get(int(key), int(other)) for key, other in zip(distinct, fallback, strict=True)], np.int64
    )
    return found[inverse] if len(found) else keys


def whole(texts: Iterable[str]) -> pa.Array:
    """Texts of whole numbers as numbers; null where a text is none."""
    return pa.array([_whole(text) for text in texts], pa.int64())


def _whole(text: str) -> int | None:
    digits = text.strip()
    if not digits.lstrip("-").isdecimal() or len(digits) > len(str(_LIMIT)):
        return None
    number = int(digits)
    return number if abs(number) < _LIMIT else None
