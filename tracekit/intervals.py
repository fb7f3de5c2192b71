"""Interval algebra on nanosecond integers: union, gaps, nesting, containment.

All functions take and return NumPy int64 arrays; an interval is half open, [start, end).
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def in_order(first: Ints | Floats, *then: Ints | Floats) -> Ints:
    """Positions by a key, then by others: those are looked at only where the first is equal, which most often is rare."""
    order = np.argsort(first, kind="stable")
    if len(order):
        same = np.diff(first[order]) == 0
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = order[tied]
        order[tied] = rows[np.lexsort((*(key[rows] for key in reversed(then)), first[rows]))]
    return order


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
    order = in_order(starts, -ends)
    low, high = starts[order], ends[order]
    # An interval's depth is the number of intervals before it, in order, that have not ended at its start. What has
    # ended by then began before it, save empty intervals of the same instant, which count as open until the next one.
    ended = np.searchsorted(np.sort(np.maximum(high, low + 1)), low, side="right")
    depth = np.arange(len(low), dtype=np.int64) - ended
    return Nesting(order, _parents(depth), depth)


def _parents(depth: Ints) -> Ints:
    """The last interval before each at one less depth."""
    parent = np.full(len(depth), -1, np.int64)
    for above, here in pairwise(levels(depth)):
        parent[here] = above[np.searchsorted(above, here) - 1]
    return parent


def levels(depth: Ints) -> list[Ints]:
    """Positions of each depth, in order, from the roots down."""
    # Counting sort, which is what small integers get, takes a fraction of the time.
    narrow = depth.astype(np.int16) if depth.max(initial=0) < np.iinfo(np.int16).max else depth
    order = np.argsort(narrow, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(narrow[order])) + 1)


def innermost(starts: Ints, ends: Ints, parent: Ints, times: Ints) -> Ints:
    """For each time, the position of the innermost interval that holds it, or -1.

    Args:
        starts: Starts in the order of a `Nesting`.
        ends: Ends in that order.
        parent: That nesting's parents.
        times: The instants asked for.
    """
    at = np.searchsorted(starts, times, side="right").astype(np.int64) - 1
    asking = np.flatnonzero(at >= 0)
    while len(asking):
        asking = asking[ends[at[asking]] <= times[asking]]
        at[asking] = parent[at[asking]]
        asking = asking[at[asking] >= 0]
    return at
