"""Columns that grow batch by batch: names become codes into a pool, times become integers, events are let go."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from tracekit.readers.kineto.events import Args, Event
from tracekit.readers.kineto.times import nanoseconds

Ints = npt.NDArray[np.int64]
T = TypeVar("T")
_INT32 = (-(1 << 31), (1 << 31) - 1)
_INT64 = (-(1 << 63), (1 << 63) - 1)
NO_ARGS = Args()


@dataclass(slots=True)
class Clock:
    """The number of the batch at hand, by which what several processes gathered is put in the file's order."""

    batch: int = 0


class Codes(dict[T, int]):
    """A code for each value, given when it is first asked for.

    Attributes:
        clock: Where in the file it is.
        seen: The batch of each value's first sight, in order of code.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.seen: list[int] = []

    def __missing__(self, value: T) -> int:
        code = self[value] = len(self)
        self.seen.append(self.clock.batch)
        return code


class Pool(Generic[T]):
    """Distinct values in order of first sight."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.codes: Codes[T] = Codes(clock)

    def restart(self) -> None:
        """Forget every value."""
        self.codes = Codes(self.clock)

    def encode(self, values: Iterable[T]) -> npt.NDArray[np.int32]:
        """The code of each value; new values are added."""
        return np.fromiter(map(self.codes.__getitem__, values), np.int32)


@dataclass(slots=True)
class Parts:
    """The pieces of each column so far, and the batch that each came from."""

    clock: Clock
    pieces: dict[str, list[npt.NDArray[Any]]] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)

    def add(self, **columns: npt.NDArray[Any]) -> None:
        """Append rows of the batch at hand."""
        self.batches.append(self.clock.batch)
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


def nullable(values: list[object], name: str) -> dict[str, npt.NDArray[Any]]:
    """A nullable integer column as two plain ones: the value and `name!`, its null mask."""
    if values.count(None) == len(values):
        return {name: np.zeros(len(values), np.int64), f"{name}!": np.ones(len(values), np.bool_)}
    column, missing = integers(values, _INT32 if name == "device" else _INT64)
    return {name: column, f"{name}!": missing}


@dataclass(slots=True)
class Spans:
    """Rows of (name, start, duration), whatever else they carry; counts those whose times are unusable."""

    names: Pool[str]
    parts: Parts
    bad_times: int = 0

    @classmethod
    def at(cls, clock: Clock) -> "Spans":
        """No rows yet."""
        return cls(Pool(clock), Parts(clock))

    def usable(self, events: list[Event]) -> tuple[list[Event], Ints, Ints]:
        """The events with a start and a duration that is not negative, and these in ns."""
        starts, good = nanoseconds([event.ts for event in events])
        lengths, timed = nanoseconds([event.dur for event in events])
        good &= timed & (lengths >= 0)
        if good.all():
            return events, starts, lengths
        self.bad_times += int((~good).sum())
        return [event for event, keep in zip(events, good, strict=True) if keep], starts[good], lengths[good]


def triples(raws: Sequence[msgspec.Raw], pool: Pool[bytes]) -> npt.NDArray[np.int32]:
    """Codes of grid or block texts; -1 where the event has none."""
    if not any(raws):
        return np.full(len(raws), -1, np.int32)
    codes = pool.encode(map(bytes, raws))
    absent = pool.codes.get(b"", -1)
    return np.where(codes == absent, -1, codes).astype(np.int32)
