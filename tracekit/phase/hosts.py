"""Host ranges that rules matched, and which of them holds an instant on a thread."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.intervals import Ints
from tracekit.phase.grammar import Reading, Rule, read_name

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Spans:
    """Host ranges that rules matched, in order of (thread, start, longest first).

    Attributes:
        thread: Host thread of each.
        start: Start of each, ns.
        end: End of each, ns; half open.
        reading: Position of each one's reading in `readings`.
        name: The name of each.
        readings: What the distinct names say.
    """

    thread: Ints
    start: Ints
    end: Ints
    reading: Ints
    name: npt.NDArray[np.object_]
    readings: tuple[Reading, ...] = ()

    def __len__(self) -> int:
        return len(self.start)

    def where(self, keep: Flags | Ints) -> "Spans":
        """Those ranges alone."""
        return Spans(
            self.thread[keep],
            self.start[keep],
            self.end[keep],
            self.reading[keep],
            self.name[keep],
            self.readings,
        )

    def of(self, wanted: Callable[[Reading], bool]) -> "Spans":
        """The ranges whose reading is wanted."""
        chosen = np.array([wanted(reading) for reading in self.readings], dtype=bool)
        return self.where(chosen[self.reading]) if len(self) else self

    def plus(self, others: "Spans") -> "Spans":
        """These and others of the same readings."""
        return _sorted(
            Spans(
                np.concatenate((self.thread, others.thread)),
                np.concatenate((self.start, others.start)),
                np.concatenate((self.end, others.end)),
                np.concatenate((self.reading, others.reading)),
                np.concatenate((self.name, others.name)),
                self.readings,
            )
        )

    def kinds(self, *kinds: str) -> "Spans":
        """The ranges that rules of these kinds matched."""
        return self.of(lambda reading: reading.kind in kinds)


def match_ranges(ranges: pd.DataFrame, rules: Iterable[Rule]) -> Spans:
    """The rows of a RANGES or OPS table that rules match; each distinct name is read once."""
    candidates = tuple(rules)
    names = ranges["name"].astype("category").cat
    found = [read_name(str(name), candidates) for name in names.categories]
    readings = tuple(reading for reading in found if reading is not None)
    number = np.cumsum([reading is not None for reading in found], dtype=np.int64) - 1
    slot = np.where([reading is not None for reading in found], number, -1)
    codes = names.codes.to_numpy()
    at = slot[codes] if len(slot) else np.full(len(codes), -1, np.int64)
    keep = np.flatnonzero((at >= 0) & (codes >= 0))
    start = ranges["ts_ns"].to_numpy(dtype=np.int64)[keep]
    end = start + ranges["dur_ns"].to_numpy(dtype=np.int64)[keep]
    thread = ranges["thread"].to_numpy(dtype=np.int64)[keep]
    text = np.asarray(names.categories, dtype=object)[codes[keep]] if len(keep) else np.empty(0, dtype=object)
    return _sorted(Spans(thread, start, end, at[keep], text, readings))


def join(parts: Sequence[Spans]) -> Spans:
    """Several sets of ranges as one."""
    offsets = np.cumsum([0, *(len(part.readings) for part in parts)])
    return _sorted(
        Spans(
            np.concatenate([part.thread for part in parts]),
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.end for part in parts]),
            np.concatenate([part.reading + offset for part, offset in zip(parts, offsets[:-1], strict=True)]),
            np.concatenate([part.name for part in parts]),
            tuple(reading for part in parts for reading in part.readings),
        )
    )


def _sorted(spans: Spans) -> Spans:
    return spans.where(np.lexsort((-spans.end, spans.start, spans.thread)))


def outermost(spans: Spans) -> Spans:
    """The ranges that begin inside no earlier one of their thread."""
    keep = np.zeros(len(spans), dtype=bool)
    for rows in per_thread(spans.thread):
        reach = np.maximum.accumulate(np.concatenate(([np.iinfo(np.int64).min], spans.end[rows])))[:-1]
        keep[rows] = spans.start[rows] >= reach
    return spans.where(keep)


def clear_of(spans: Spans, taken: Spans) -> Spans:
    """The ranges that overlap none of `taken`, which are disjoint on each thread."""
    keep = np.ones(len(spans), dtype=bool)
    for rows in per_thread(spans.thread):
        theirs = np.flatnonzero(taken.thread == spans.thread[rows[0]])
        if len(theirs):
            after = np.searchsorted(taken.end[theirs], spans.start[rows], side="right")
            first = theirs[np.minimum(after, len(theirs) - 1)]
            keep[rows] = (after == len(theirs)) | (taken.start[first] >= spans.end[rows])
    return spans.where(keep)


def locate(spans: Spans, threads: Ints, times: Ints) -> tuple[Ints, Ints]:
    """For each instant, the range that holds it and the last range that began before it.

    Args:
        spans: Ranges, disjoint on each thread.
        threads: Thread of each instant; -1 for none.
        times: The instants, ns.

    Returns:
        Positions in `spans`, -1 for none.
    """
    inside = np.full(len(times), -1, np.int64)
    before = np.full(len(times), -1, np.int64)
    for rows in per_thread(threads):
        mine = np.flatnonzero(spans.thread == threads[rows[0]])
        if threads[rows[0]] < 0 or not len(mine):
            continue
        slot = np.searchsorted(spans.start[mine], times[rows], side="right") - 1
        last = np.where(slot >= 0, mine[np.maximum(slot, 0)], -1)
        before[rows] = last
        inside[rows] = np.where((last >= 0) & (spans.end[last] > times[rows]), last, -1)
    return inside, before


def per_thread(threads: Ints) -> list[Ints]:
    """Positions of each thread's rows, in order."""
    if not len(threads):
        return []
    order = np.argsort(threads, kind="stable").astype(np.int64)
    cuts = np.flatnonzero(np.diff(threads[order])) + 1
    return np.split(order, cuts)
