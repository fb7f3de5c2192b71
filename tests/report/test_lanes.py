"""Lanes: nothing overlaps, and what does not overlap stays on one track."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit.report.lanes import FURTHER, Tracks, lanes

slices = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 9)), max_size=25)


def columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    made = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return made[:, 0], made[:, 1], made[:, 2]


@given(slices)
def test_slices_of_a_track_and_lane_do_not_overlap(rows: list[tuple[int, int, int]]) -> None:
    track, starts, dur = columns(rows)
    lane = lanes(track, starts, dur)
    for one in set(zip(track.tolist(), lane.tolist(), strict=True)):
        chosen = (track == one[0]) & (lane == one[1])
        order = np.lexsort((dur[chosen], starts[chosen]))
        ends = (starts + dur)[chosen][order]
        assert (starts[chosen][order][1:] >= ends[:-1]).all()


def test_a_slice_goes_beside_the_one_that_it_overlaps_and_the_next_comes_back() -> None:
    track, starts, dur = columns([(0, 0, 10), (0, 5, 10), (0, 10, 10), (1, 0, 10), (1, 10, 10)])
    assert lanes(track, starts, dur).tolist() == [0, 1, 0, 0, 0]


def test_tracks_beside_each_other_have_titles_of_their_own() -> None:
    tracks = Tracks({(-1, 0): 1})
    track, starts, dur = columns([(7, 0, 10), (7, 5, 10)])
    assert tracks.put([(-1, 0)] * 2, track, ["stream 7"] * 2, starts, dur) == [(1, 7), (1, 7 + FURTHER)]
    assert tracks.titles == {(1, 7): "stream 7", (1, 7 + FURTHER): "stream 7, overlapping 1"}
