"""Slices side by side: a viewer drops a slice that begins inside another of its track and ends after it."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Place = tuple[int, int]
"""Process and track of a slice."""

FURTHER = 10_000_000
"""Between the number of a track and of the next one for what overlaps on it."""


@dataclass(slots=True)
class Tracks:
    """The tracks of a trace, noted as slices are put on them.

    Attributes:
        places: Process number of each rank's device.
        titles: What each track is called, by process and track.
    """

    places: dict[tuple[int, int], int]
    titles: dict[Place, str] = field(default_factory=dict)

    def put(
        self, keys: Sequence[tuple[int, int]], track: Ints, titles: Sequence[str], starts: Ints, dur: Ints
    ) -> list[Place]:
        """Where each slice is: on its track, or beside it where it would overlap.

        Args:
            keys: Rank and device of each slice.
            track: Number of its track, less than FURTHER.
            titles: What its track is called.
            starts: Its start [ns].
            dur: Its duration [ns].
        """
        process = np.array([self.places[key] for key in keys], dtype=np.int64)
        codes = np.unique(np.stack([process, track]), axis=1, return_inverse=True)[1].reshape(-1)
        lane = lanes(codes.astype(np.int64), starts.astype(np.int64), dur.astype(np.int64))
        out = list(zip(process.tolist(), (track + lane * FURTHER).tolist(), strict=True))
        for place, title, number in dict(
            zip(out, zip(out, titles, lane.tolist(), strict=True), strict=True)
        ).values():
            self.titles[place] = f"{title}, overlapping {number}" if number else title
        return out


def lanes(track: Ints, starts: Ints, dur: Ints) -> Ints:
    """The lane of each slice, so that no two of one track and lane overlap.

    Args:
        track: Code of the track of each slice.
        starts: Its start [ns].
        dur: Its duration [ns].

    Returns:
        Lane of each slice: 0 wherever the track's slices stand one after the other, else the first that is free.
    """
    out = np.zeros(len(track), dtype=np.int64)
    order = np.lexsort((-dur, starts, track))
    for rows in np.split(order, np.flatnonzero(np.diff(track[order])) + 1):
        ends = starts[rows] + dur[rows]
        if len(rows) > 1 and (starts[rows][1:] < np.maximum.accumulate(ends)[:-1]).any():
            out[rows] = _greedy(starts[rows], ends)
    return out


def _greedy(starts: Ints, ends: Ints) -> Ints:
    """Lanes of slices in order of start: the lowest one whose last slice has ended."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    made = np.empty(len(starts), dtype=np.int64)
    opened = 0
    for at, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else opened
        opened = max(opened, lane + 1)
        heapq.heappush(busy, (end, lane))
        made[at] = lane
    return made
