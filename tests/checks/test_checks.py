"""Each quality code on the smallest capture that earns it."""

from pathlib import Path

import pandas as pd
import pytest
from tracebuilder import TraceBuilder

import tracekit
from tracekit.checks import check_capture, check_ranks, check_steps, sane_times
from tracekit.link import link
from tracekit.readers import read_stream
from tracekit.readers.source import from_bytes
from tracekit.tables import GAPS, Capture, CaptureInfo
from tracekit.tables.codes import CODES

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


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ([(1, 4)], 3),
        ([(0, 2), (1, 2)], 0),
        ([(0, 3), (2, 3)], 1),
        ([(None, None)], 0),
        ([(0, 1)], 0),
        ([(1, None)], 0),
        ([(4, 2)], 0),
    ],
)
def test_ranks_that_are_missing_from_a_set_are_counted(
    given: list[tuple[int | None, int | None]], missing: int
) -> None:
    infos = [CaptureInfo("t.json", "kineto", rank=rank, world_size=size) for rank, size in given]
    assert [(note.code, note.count) for note in check_ranks(infos)] == [("ranks_missing", missing)] * bool(
        missing
    )


def test_steps_without_kernels_beside_steps_with_some() -> None:
    steps = pd.DataFrame(
        {"phase": ["decode", "decode", "other"], "n_kernels": [5, 0, 0], "n_post_step_kernels": [0, 0, 0]}
    )
    assert [(note.code, note.count) for note in check_steps(capture(steady()), steps, GAPS.empty())] == [
        ("steps_without_kernels", 1)
    ]
    assert check_steps(capture(steady()), steps.iloc[1:], GAPS.empty()) == []


GRAPH_STEP = "execute_context_0(0)_generation_8(8)"


def test_a_decode_whose_graph_kernels_are_lost_has_no_figures(tmp_path: Path) -> None:
    trace = TraceBuilder().annotation(GRAPH_STEP, 0, 100)
    trace.launch(10, name="cudaGraphLaunch")
    trace.op("aten::mm", 40, 20, dims=[[8, 64], [64, 64]], types=["float", "float"]).launched(
        "sampler", 45, 60, 5
    )
    result = tracekit.analyze([trace.write(tmp_path / "t.json")])
    assert "graph_records_lost" in result.steps["flags"].iloc[0]
    (phase,) = result.summary["phases"]
    assert phase["phase"] == "decode"
    assert (phase["flops_per_s"], phase["mfu"], phase["mbu"], phase["tokens_per_s"]) == (
        None,
        None,
        None,
        None,
    )
    assert "graph_records_lost" in set(result.quality["code"])


def test_idle_time_of_the_profiler_is_told_apart(tmp_path: Path) -> None:
    trace = TraceBuilder().annotation(GRAPH_STEP, 0, 1000)
    trace.launched("a", 10, 20, 10).launched("b", 20, 900, 10)
    trace.event("overhead", "Activity Buffer Request", 30, 860)
    quality = tracekit.analyze([trace.write(tmp_path / "t.json")]).quality.set_index("code")
    assert (quality.loc["profiler_gaps", "count"], quality.loc["profiler_gaps", "time_ns"]) == (1, 870_000)


def test_kernels_that_nothing_labels_are_counted(tmp_path: Path) -> None:
    path = TraceBuilder().launched("k", 1, 5, 2).write(tmp_path / "t.json")
    quality = tracekit.analyze([path]).quality.set_index("code")
    assert (quality.loc["phase_unknown", "count"], quality.loc["no_steps", "count"]) == (1, 0)


FRAME = "vllm/v1/worker/gpu_model_runner.py(1002): execute_model"


def test_a_step_that_only_a_frame_marks_may_have_no_phase(tmp_path: Path) -> None:
    trace = TraceBuilder().frame(FRAME, 0, 500).launched("some_kernel", 10, 600, 10)
    assert "step_phase_unknown" in set(tracekit.analyze([trace.write(tmp_path / "t.json")]).quality["code"])


def test_a_replay_of_one_graph_with_a_prefill_kernel_in_it_is_evidence_for_two_phases(tmp_path: Path) -> None:
    trace = TraceBuilder().frame(FRAME, 0, 500)
    graph = trace.launch(10, name="cudaGraphLaunch")
    for number in range(60):
        trace.kernel(
            "sm100::prefill::sparse_fwd" if number % 6 == 0 else f"gemm_{number % 6}",
            600 + number * 20,
            10,
            graph,
        )
    assert "phase_evidence_split" in set(tracekit.analyze([trace.write(tmp_path / "t.json")]).quality["code"])


def test_every_code_is_used_in_the_package_and_named_in_a_test() -> None:
    root = Path(__file__).parents[2]
    package = "".join(
        path.read_text() for path in (root / "tracekit").rglob("*.py") if path.name != "codes.py"
    )
    tests = "".join(path.read_text() for path in (root / "tests").rglob("*.py"))
    assert [code for code in CODES if f'"{code}"' not in package] == []
    assert [code for code in CODES if code not in tests] == []
