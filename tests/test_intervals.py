"""Interval algebra against the plain definition, instant by instant."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit.intervals import exclusive, holes, in_order, innermost, levels, merge, nest, union_length

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), min_size=0, max_size=25)


def arrays(spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.array([start for start, _ in spans], np.int64)
    return starts, starts + np.array([length for _, length in spans], np.int64)


def covered(starts: np.ndarray, ends: np.ndarray) -> set[int]:
    return {instant for low, high in zip(starts, ends, strict=True) for instant in range(low, high)}


@given(SPANS)
def test_positions_are_in_order_of_all_keys(spans: list[tuple[int, int]]) -> None:
    starts, ends = arrays(spans)
    assert in_order(starts, -ends).tolist() == np.lexsort((-ends, starts)).tolist()


@given(SPANS)
def test_what_is_around_an_interval_began_before_it_and_had_not_ended(spans: list[tuple[int, int]]) -> None:
    starts, ends = arrays(spans)
    nesting = nest(starts, ends)
    low, high = starts[nesting.order], ends[nesting.order]
    # An empty interval is open until the next instant.
    open_at = [
        [other for other in range(row) if max(high[other], low[other] + 1) > low[row]]
        for row in range(len(low))
    ]
    assert nesting.depth.tolist() == [len(around) for around in open_at]
    parents = [
        max((other for other in range(row) if nesting.depth[other] == nesting.depth[row] - 1), default=-1)
        for row in range(len(low))
    ]
    assert nesting.parent.tolist() == parents
    assert [row for tier in levels(nesting.depth) for row in tier] == sorted(
        range(len(low)), key=lambda row: (nesting.depth[row], row)
    )


@given(SPANS)
def test_the_union_covers_the_same_instants_in_disjoint_order(spans: list[tuple[int, int]]) -> None:
    starts, ends = arrays(spans)
    low, high = merge(starts, ends)
    assert covered(low, high) == covered(starts, ends)
    assert (low[1:] > high[:-1]).all()
    assert union_length(starts, ends) == len(covered(starts, ends))


@given(SPANS)
def test_exclusive_lengths_sum_to_the_union(spans: list[tuple[int, int]]) -> None:
    starts, ends = arrays(spans)
    assert exclusive(starts, ends).sum() == union_length(starts, ends)


def test_an_overlap_belongs_to_the_interval_that_started_first() -> None:
    starts, ends = arrays([(5, 10), (0, 8)])
    assert exclusive(starts, ends).tolist() == [7, 8]


def test_holes_are_what_the_union_leaves_open() -> None:
    low, high = holes(*arrays([(0, 4), (6, 2), (2, 3), (10, 1)]))
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [(5, 6), (8, 10)]


def test_nesting_gives_parent_and_depth() -> None:
    #   0         10
    #   |--a-------|
    #    |b-| |-c--|   c ends with a
    #     d         e  e starts when a ends
    starts = np.array([0, 1, 2, 5, 10], np.int64)
    ends = np.array([10, 4, 3, 10, 12], np.int64)
    nesting = nest(starts, ends)
    assert nesting.order.tolist() == [0, 1, 2, 3, 4]
    assert nesting.parent.tolist() == [-1, 0, 1, 0, -1]
    assert nesting.depth.tolist() == [0, 1, 2, 1, 0]


def test_equal_intervals_nest_in_the_order_given() -> None:
    nesting = nest(np.array([3, 3, 3], np.int64), np.array([9, 9, 9], np.int64))
    assert nesting.parent.tolist() == [-1, 0, 1]


@st.composite
def nested(draw: st.DrawFn) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []

    def fill(low: int, high: int, depth: int) -> None:
        at = low
        while at < high and depth < 4:
            start = draw(st.integers(at, high - 1))
            end = draw(st.integers(start + 1, high))
            spans.append((start, end - start))
            fill(start, end, depth + 1)
            at = end + draw(st.integers(0, 3))

    fill(0, 30, 0)
    return draw(st.permutations(spans))


@given(nested())
def test_the_innermost_interval_is_the_shortest_that_holds_the_instant(spans: list[tuple[int, int]]) -> None:
    starts, ends = arrays(spans)
    nesting = nest(starts, ends)
    low, high = starts[nesting.order], ends[nesting.order]
    times = np.arange(-1, 32, dtype=np.int64)
    for instant, at in zip(times, innermost(low, high, nesting.parent, times), strict=True):
        holding = [high[i] - low[i] for i in range(len(low)) if low[i] <= instant < high[i]]
        assert (high[at] - low[at] if at >= 0 else None) == (min(holding) if holding else None)
