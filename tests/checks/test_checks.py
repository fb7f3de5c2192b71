"""Each quality code on the smallest capture that earns it."""

import pandas as pd
import pytest
from tracebuilder import TraceBuilder

from tracekit.checks import check_capture, check_steps, sane_times
from tracekit.link import link
from tracekit.readers import read_stream
from tracekit.readers.source import from_bytes
from tracekit.tables import Capture

DAY = 86_400e6


def capture(trace: TraceBuilder) -> Capture:
    return read_stream(from_bytes("trace.json", trace.text()), lambda _name: False)[0]


def steady(count: int = 9) -> TraceBuilder:
    trace = TraceBuilder()
    for number in range(count):
        trace.launched(f"k{number}", number * 10, number * 10 + 5, 4)
    return trace


def codes(trace: TraceBuilder) -> dict[str, tuple[int, int | None]]:
    got = capture(trace)
    return {note.code: (note.count, note.time_ns) for note in check_capture(got, link(got))}


@pytest.mark.parametrize(
    ("ts", "dur", "code"),
    [(200, 7 * DAY, "absurd_duration"), (30 * DAY, 3, "outside_window")],
)
def test_impossible_times_are_kept_out_and_counted(ts: float, dur: float, code: str) -> None:
    mended = sane_times(capture(steady().kernel("odd", ts, dur)))
    assert "odd" not in mended.device_events["name"].tolist()
    assert [(note.code, note.count) for note in mended.quality] == [(code, 1)]


def test_a_cluster_at_zero_is_kept_out() -> None:
    trace = TraceBuilder().kernel("lost", 0, 0).kernel("lost too", 0, 3)
    for number in range(9):
        trace.launched("k", 5e6 + number * 10, 5e6 + number * 10 + 5, 4)
    mended = sane_times(capture(trace))
    assert len(mended.device_events) == 9
    assert [(note.code, note.count) for note in mended.quality] == [("ts_zero", 2)]


def test_a_record_that_overruns_its_successor_is_cut_at_its_start() -> None:
    trace = steady()
    trace.events[1]["dur"] = 5e6
    mended = sane_times(capture(trace))
    assert mended.device_events["dur_ns"].tolist()[0] == 10_000
    assert [(note.code, note.count, note.time_ns) for note in mended.quality] == [
        ("overrun", 1, 5_000_000_000 - 10_000)
    ]


def test_a_long_last_record_is_kept_and_suspected() -> None:
    mended = sane_times(capture(steady().kernel("long", 300, 5e6)))
    assert "long" in mended.device_events["name"].tolist()
    assert [(note.code, note.time_ns) for note in mended.quality] == [("suspect_duration", 5_000_000_000)]


def test_good_times_are_left_alone() -> None:
    got = capture(steady())
    assert sane_times(got) is got
    assert codes(steady()) == {}


def test_replays_without_kernels_are_lost_records() -> None:
    trace = steady()
    trace.launch(500, name="cudaGraphLaunch")
    assert codes(trace) == {"graph_records_lost": (1, None)}


def test_many_launches_with_hardly_a_kernel_are_a_capture_trace() -> None:
    trace = steady(1)
    for number in range(60):
        trace.launch(100 + number)
    assert codes(trace) == {"capture_trace": (61, None)}


def test_a_kernel_before_its_launch_means_clocks_disagree() -> None:
    assert codes(steady().launched("early", 500, 400, 4)) == {"kernel_before_launch": (1, 4_000)}


def test_overlap_on_a_stream_is_counted() -> None:
    assert codes(steady(3).launched("b", 200, 205, 10).launched("c", 210, 213, 10)) == {
        "stream_overlap": (1, 2_000)
    }


def test_recorder_options_that_inflate_host_time_are_named() -> None:
    trace = steady()
    trace.options = {"with_stack": 1, "profile_memory": 1}
    assert codes(trace) == {"recorder_overhead": (2, None)}


def test_one_rank_of_many_is_said() -> None:
    trace = steady()
    trace.options = {"distributedInfo": {"rank": 1, "world_size": 4}}
    assert codes(trace) == {"one_rank_of_many": (3, None)}


def test_steps_without_kernels_beside_steps_with_some() -> None:
    steps = pd.DataFrame(
        {"phase": ["decode", "decode", "other"], "n_kernels": [5, 0, 0], "n_post_step_kernels": [0, 0, 0]}
    )
    assert [(note.code, note.count) for note in check_steps(capture(steady()), steps)] == [
        ("steps_without_kernels", 1)
    ]
    assert check_steps(capture(steady()), steps.iloc[1:]) == []
