"""Interval algebra on nanosecond integers: union, gaps, nesting, containment.

All functions take and return NumPy int64 arrays; an interval is half open, [start, end).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def merge(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The union as disjoint intervals in order; touching ones are joined, empty ones dropped."""
    keep = ends > starts
    starts, ends = starts[keep], ends[keep]
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    head = np.concatenate(([True], starts[1:] > reach[:-1]))
    last = np.concatenate((np.flatnonzero(head)[1:] - 1, [len(starts) - 1]))
    return starts[head], reach[last]


def union_length(starts: Ints, ends: Ints) -> int:
    """Length of the union."""
    low, high = merge(starts, ends)
    return int((high - low).sum())


def holes(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The gaps between the intervals of the union."""
    low, high = merge(starts, ends)
    return high[:-1], low[1:]


def exclusive(starts: Ints, ends: Ints) -> Ints:
    """Length of each interval that no earlier-starting interval covers.

    Every instant of the union is given to the interval that started first (on a tie, to the one given
    first), so the lengths sum to the length of the union.
    """
    order = np.argsort(starts, kind="stable")
    low, high = starts[order], ends[order]
    reach = np.maximum.accumulate(np.concatenate(([np.iinfo(np.int64).min], high)))[:-1] if len(low) else low
    own = np.maximum(0, high - np.maximum(low, reach))
    out = np.empty_like(own)
    out[order] = own
    return out


@dataclass(frozen=True, slots=True)
class Nesting:
    """A forest of nested intervals.

    Attributes:
        order: Positions in the input, by (start, longest first).
        parent: For each interval, in `order`, the position in `order` of the one around it; -1 at a root.
        depth: For each interval, in `order`, the number of intervals around it.
    """

    order: Ints
    parent: Ints
    depth: Ints


def nest(starts: Ints, ends: Ints) -> Nesting:
    """Parent and depth of each interval, by containment.

    Intervals that overlap without nesting (clock grain) are taken as nested in the one that started
    first while it is still open.
    """
    count = len(starts)
    order = np.lexsort((-ends, starts)).astype(np.int64)
    low, high = starts[order], ends[order]
    # An interval's depth is the number of intervals before it, in order, that have not ended at its start.
    times = np.concatenate((low, high))
    # Ends sort before starts at the same instant; an empty interval ends after its own start.
    closing = np.concatenate((np.ones(count, np.int64), np.where(high > low, 0, 2)))
    turn = np.lexsort((np.concatenate((np.arange(count), np.arange(count))), closing, times))
    change = np.where(turn < count, 1, -1)
    level = np.cumsum(change) - 1
    depth = np.empty(count, np.int64)
    opening = turn < count
    depth[turn[opening]] = level[opening]
    return Nesting(order, _parents(depth), depth)


def _parents(depth: Ints) -> Ints:
    """The last interval before each at one less depth."""
    parent = np.full(len(depth), -1, np.int64)
    positions = np.arange(len(depth), dtype=np.int64)
    for level in range(1, int(depth.max(initial=0)) + 1):
        above, here = positions[depth == level - 1], positions[depth == level]
        slot = np.searchsorted(above, here) - 1
        parent[here] = np.where(slot >= 0, above[np.maximum(slot, 0)], -1)
    return parent


def innermost(starts: Ints, ends: Ints, parent: Ints, times: Ints) -> Ints:
    """For each time, the position of the innermost interval that holds it, or -1.

    Args:
        starts: Starts in the order of a `Nesting`.
        ends: Ends in that order.
        parent: That nesting's parents.
        times: The instants asked for.
    """
    at = np.searchsorted(starts, times, side="right").astype(np.int64) - 1
    active = at >= 0
    while active.any():
        late = active & (ends[np.maximum(at, 0)] <= times)
        at[late] = parent[at[late]]
        active = late & (at >= 0)
    return at
