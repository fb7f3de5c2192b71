"""Rows by lane: every combination of values, null among them, and the time to the next row of each."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from tracekit.tables.columns import lanes, until_next

PLACES = st.lists(
    st.tuples(st.sampled_from([None, 0, 1]), st.sampled_from([None, 7, 8]), st.booleans()), max_size=12
)


def frame(places: list[tuple[int | None, int | None, bool]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": pd.array([rank for rank, _, _ in places], dtype="Int64"),
            "stream": pd.array([stream for _, stream, _ in places], dtype="Int64"),
            "ts_ns": np.arange(len(places)) ** 2,
        }
    )


@given(PLACES)
def test_a_lane_holds_the_rows_of_one_combination(places: list[tuple[int | None, int | None, bool]]) -> None:
    among = np.array([chosen for *_, chosen in places], np.bool_)
    expected: dict[tuple[int | None, int | None], list[int]] = {}
    for row, (rank, stream, chosen) in enumerate(places):
        if chosen:
            expected.setdefault((rank, stream), []).append(row)
    found = [rows.tolist() for rows in lanes(frame(places), "rank", "stream", "absent", among=among)]
    assert found == list(expected.values())


def test_rows_without_a_successor_in_their_lane_are_told_apart() -> None:
    rows = frame([(0, 7, True), (0, 8, True), (0, 7, True), (None, 7, True), (0, 7, True)])
    assert until_next(rows, ("rank", "stream"), otherwise=-1).tolist() == [4, -1, 12, -1, -1]
