"""Columns that grow batch by batch: names become codes into a pool, times become integers, events are let go."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.readers.kineto.events import Args, Event
from tracekit.readers.kineto.times import nanoseconds

Ints = npt.NDArray[np.int64]
T = TypeVar("T")
_INT32 = (-(1 << 31), (1 << 31) - 1)
_INT64 = (-(1 << 63), (1 << 63) - 1)
NO_ARGS = Args()


class Codes(dict[T, int]):
    """A code for each value, given when it is first asked for."""

    def __missing__(self, value: T) -> int:
        code = self[value] = len(self)
        return code


class Pool(Generic[T]):
    """Distinct values in order of first sight."""

    def __init__(self) -> None:
        self.codes: Codes[T] = Codes()

    def encode(self, values: Iterable[T]) -> npt.NDArray[np.int32]:
        """The code of each value; new values are added."""
        return np.fromiter(map(self.codes.__getitem__, values), np.int32)


@dataclass(slots=True)
class Parts:
    """The pieces of each column so far."""

    pieces: dict[str, list[npt.NDArray[Any]]] = field(default_factory=dict)

    def add(self, **columns: npt.NDArray[Any]) -> None:
        """Append one batch of rows."""
        for name, piece in columns.items():
            self.pieces.setdefault(name, []).append(piece)

    def column(self, name: str) -> npt.NDArray[Any]:
        """The whole column."""
        return np.concatenate(self.pieces[name])

    def __len__(self) -> int:
        return sum(len(piece) for piece in self.pieces.get("ts_ns", []))


def integers(
    values: Sequence[object], bounds: tuple[int, int] = _INT64
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Whole numbers and a mask of those that are none (absent, text, fractions, out of range)."""
    try:
        column = np.array(values, np.int64)
        missing = np.zeros(len(values), np.bool_)
    except (TypeError, ValueError, OverflowError):
        exact = [_integer(value) for value in values]
        missing = np.array([value is None for value in exact], np.bool_)
        column = np.array(
            [0 if value is None or not _INT64[0] <= value <= _INT64[1] else value for value in exact],
            np.int64,
        )
    return column, missing | (column < bounds[0]) | (column > bounds[1])


def _integer(value: object) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value if _INT64[0] <= value <= _INT64[1] else None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _INT64[1] else None
    text = str(value).strip()
    return int(text) if text.lstrip("-").isdecimal() and len(text) < len(str(_INT64[1])) else None


def nullable(values: Sequence[object], name: str) -> dict[str, npt.NDArray[Any]]:
    """A nullable integer column as two plain ones: the value and `name!`, its null mask."""
    column, missing = integers(values, _INT32 if name == "device" else _INT64)
    return {name: column, f"{name}!": missing}


@dataclass(slots=True)
class Spans:
    """Rows of (name, start, duration), whatever else they carry; counts those whose times are unusable."""

    names: Pool[str] = field(default_factory=Pool)
    parts: Parts = field(default_factory=Parts)
    bad_times: int = 0

    def usable(self, events: list[Event]) -> tuple[list[Event], Ints, Ints]:
        """The events with a start and a duration that is not negative, and these in ns."""
        starts, good = nanoseconds([bytes(event.ts) for event in events])
        lengths, timed = nanoseconds([bytes(event.dur) for event in events])
        good &= timed & (lengths >= 0)
        if good.all():
            return events, starts, lengths
        self.bad_times += int((~good).sum())
        return [event for event, keep in zip(events, good, strict=True) if keep], starts[good], lengths[good]

    def frame(self, base_ns: int) -> pd.DataFrame:
        """The rows as a frame; `base_ns` is added to every start."""
        data: dict[str, object] = {}
        for name in self.parts.pieces:
            if name.endswith("!"):
                continue
            column = self.parts.column(name)
            if name == "name":
                data[name] = pd.Categorical.from_codes(column, pd.Index(list(self.names.codes), dtype=object))
            elif f"{name}!" in self.parts.pieces:
                kind = np.int32 if name == "device" else np.int64
                data[name] = pd.arrays.IntegerArray(
                    np.where(self.parts.column(f"{name}!"), 0, column).astype(kind),
                    self.parts.column(f"{name}!"),
                )
            else:
                data[name] = column + base_ns if name == "ts_ns" else column
        return pd.DataFrame(data)


def triples(raws: Sequence[bytes], pool: Pool[bytes]) -> npt.NDArray[np.int32]:
    """Codes of grid or block texts; -1 where the event has none."""
    codes = pool.encode(raws)
    absent = pool.codes.get(b"", -1)
    return np.where(codes == absent, -1, codes).astype(np.int32)


def triple_text(raw: bytes) -> str:
    """`[64, 1, 1]` as `64,1,1`."""
    return raw.translate(None, b'[] \n\t\r"').decode("utf-8", errors="replace")
