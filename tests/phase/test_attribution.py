"""A kernel is of the step that launched it: by thread and time of the launch, never by time on the device."""

import pandas as pd
import pytest
from tracebuilder import TraceBuilder

from tracekit.link import link
from tracekit.phase import Phased, label, wanted_frames
from tracekit.readers import read_stream
from tracekit.readers.source import from_bytes
from tracekit.taxonomy import name_families

PREFILL = "execute_context_1(512)_generation_0(0)"
DECODE = "execute_context_0(0)_generation_8(8)"
MIXED = "execute_context_1(213)_generation_7(7)"
GEMM = "nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT"


def phased(trace: TraceBuilder, path: str = "trace.json") -> Phased:
    (capture,) = read_stream(from_bytes(path, trace.text()), wanted_frames())
    linked = link(capture)
    return label(name_families(linked.kernels), capture, linked)


def labels(found: Phased) -> pd.DataFrame:
    table = found.kernels[["step_id", "phase", "phase_confidence", "phase_evidence"]]
    return table.astype({"phase": str, "phase_evidence": str})


def test_a_kernel_that_runs_during_the_next_step_is_still_of_the_step_that_launched_it() -> None:
    trace = TraceBuilder().annotation(PREFILL, 0, 10).annotation(DECODE, 20, 10)
    trace.launched(GEMM, launch_ts=5, ts=6, dur=30)  # runs until 36, all through the decode's annotation
    trace.launched(GEMM, launch_ts=25, ts=36, dur=4)
    found = phased(trace)
    assert labels(found)["phase"].tolist() == ["prefill", "decode"]
    steps = found.steps
    # Windows are the device's: 6..36 and 36..40, not the host's 0..10 and 20..30.
    assert (steps["ts_ns"] - steps["ts_ns"].min()).tolist() == [0, 30_000]
    assert steps["dur_ns"].tolist() == [30_000, 4_000]


def test_one_replay_gives_all_its_kernels_to_one_step() -> None:
    trace = TraceBuilder().annotation(DECODE, 0, 10)
    replay = trace.launch(5, name="cudaGraphLaunch")
    for number in range(3):
        trace.kernel(GEMM, 20 + 2 * number, 2, replay)
    found = phased(trace)
    assert labels(found)["phase"].tolist() == ["decode"] * 3
    assert found.steps[["n_kernels", "n_graph_launches"]].iloc[0].tolist() == [3, 1]


def test_launches_between_two_steps_are_the_earlier_ones_with_less_confidence() -> None:
    trace = TraceBuilder().annotation(PREFILL, 0, 10).annotation(DECODE, 20, 10)
    trace.launched(GEMM, launch_ts=5, ts=6, dur=1)
    trace.launched("_gumbel_sample_kernel", launch_ts=15, ts=16, dur=1)
    found = phased(trace)
    assert labels(found).iloc[1].tolist() == [0, "prefill", 0.85, "post_step"]
    assert found.steps[["n_kernels", "n_post_step_kernels"]].iloc[0].tolist() == [1, 1]


def test_kernels_from_before_the_window_are_unknown() -> None:
    trace = TraceBuilder().annotation(PREFILL, 10, 10)
    trace.kernel(GEMM, 1, 2)
    trace.launched(GEMM, launch_ts=12, ts=13, dur=2)
    found = phased(trace)
    assert labels(found).iloc[0].tolist()[1:] == ["unknown", 0.0, "before_window"]
    assert found.kernels["flags"].astype(object).iloc[0] == "before_window"
    assert "before_window" in [note.code for note in found.quality]


def test_a_lost_launch_record_is_made_up_for_by_the_order_of_the_stream() -> None:
    trace = TraceBuilder().annotation(PREFILL, 0, 10)
    trace.launched(GEMM, launch_ts=1, ts=20, dur=2)
    trace.kernel(GEMM, 23, 2)
    trace.launched(GEMM, launch_ts=3, ts=26, dur=2)
    assert labels(phased(trace))["phase_evidence"].tolist() == [
        "annotation_counts",
        "stream_order",
        "annotation_counts",
    ]


def test_two_annotations_of_one_step_are_one_step_with_the_counts_of_both() -> None:
    trace = TraceBuilder()
    trace.annotation("execute_context_0(0)_generation_8(8)", 0, 10).annotation(
        "step[DECODE bs=8 g_sq=8 g_sk=800 g_sqsq=8 g_sqsk=800]", 1, 8
    )
    trace.launched(GEMM, launch_ts=3, ts=4, dur=1)
    steps = phased(trace).steps
    assert len(steps) == 1
    assert steps[["generation_requests", "sum_k", "sum_qk"]].iloc[0].tolist() == [8, 800.0, 800.0]


def test_a_verification_inside_a_decode_step_is_verify_and_its_drafts_are_draft() -> None:
    trace = TraceBuilder().annotation(DECODE, 0, 30)
    trace.annotation("step[DRAFT bs=8]", 1, 5).annotation("step[VERIFY bs=8 toks=40]", 10, 10)
    trace.launched(GEMM, launch_ts=2, ts=3, dur=1).launched(GEMM, launch_ts=12, ts=13, dur=1)
    found = phased(trace)
    assert found.steps["phase"].astype(str).tolist() == ["verify"]
    assert labels(found)["phase"].tolist() == ["draft", "verify"]


def test_an_empty_step_has_the_phase_other() -> None:
    trace = TraceBuilder().annotation("execute_context_0(0)_generation_0(0)", 0, 5).annotation(DECODE, 10, 5)
    trace.launched(GEMM, launch_ts=12, ts=13, dur=1)
    steps = phased(trace).steps
    assert steps["phase"].astype(str).tolist() == ["other", "decode"]
    assert steps["flags"].astype(object).iloc[0] == "empty"


def test_steps_that_nobody_annotated_are_no_tail_of_the_one_before() -> None:
    trace = TraceBuilder().annotation(PREFILL, 0, 100)
    for number in range(5):
        trace.launched(GEMM, launch_ts=10 * number, ts=10 * number + 1, dur=9)
    for number in range(9):
        trace.launched(GEMM, launch_ts=200 + 10 * number, ts=201 + 10 * number, dur=5)
    found = labels(phased(trace))
    assert found["phase"].tolist() == ["prefill"] * 5 + ["unknown"] * 9
    # A sampler may have more kernels than a replay has rows: it is short beside it.
    short = TraceBuilder().annotation(DECODE, 0, 100).launched(GEMM, launch_ts=1, ts=2, dur=90)
    for number in range(9):
        short.launched(GEMM, launch_ts=101 + number, ts=101 + 2 * number, dur=2)
    assert labels(phased(short))["phase"].tolist() == ["decode"] * 10


def test_capture_of_graphs_is_no_step_of_the_engine() -> None:
    trace = TraceBuilder().annotation("capture_32_FULL", 0, 10)
    trace.launched(GEMM, launch_ts=3, ts=4, dur=1).launched(GEMM, launch_ts=20, ts=21, dur=1)
    found = labels(phased(trace))
    assert found["phase"].tolist() == ["other", "unknown"]


def test_a_launch_on_another_thread_is_of_the_only_step_under_way() -> None:
    trace = TraceBuilder().annotation(DECODE, 0, 10)
    trace.launched(GEMM, launch_ts=3, ts=4, dur=1, tid=2).launched(GEMM, launch_ts=30, ts=31, dur=1, tid=2)
    found = labels(phased(trace))
    assert found["phase_evidence"].tolist() == ["other_thread", "none"]
    assert found["phase_confidence"].tolist() == [0.8, 0.0]


def test_the_window_of_a_step_is_that_of_its_main_stream() -> None:
    trace = TraceBuilder().annotation(DECODE, 0, 500)
    trace.launched("resolve", launch_ts=1, ts=2, dur=1, stream=2)  # long before the rest, on a side stream
    trace.launched(GEMM, launch_ts=480, ts=490, dur=10, stream=3)
    steps = phased(trace).steps
    assert steps["dur_ns"].tolist() == [10_000]
    assert steps["busy_ns"].tolist() == [10_000]


def test_busy_time_is_exact_on_a_clock_that_counts_from_1970() -> None:
    trace = TraceBuilder(base_ns=1_764_000_000_123_456_789).annotation(DECODE, 0, 500)
    # On two streams that overlap by 3 ns, then a hole of 1 ns.
    trace.launched(GEMM, launch_ts=1, ts=10, dur=2.003).launched("side", launch_ts=2, ts=12, dur=1, stream=9)
    trace.launched(GEMM, launch_ts=3, ts=13.001, dur=5)
    steps = phased(trace).steps
    assert steps["dur_ns"].tolist() == [8_001]
    assert steps["busy_ns"].tolist() == [8_000]


def test_every_step_that_states_a_phase_is_kept_against_contrary_kernels_but_flagged() -> None:
    trace = TraceBuilder().annotation(PREFILL, 0, 10)
    trace.launched("void flashinfer::BatchDecodeWithPagedKVCacheKernel<int>()", launch_ts=3, ts=4, dur=9)
    found = phased(trace)
    assert found.steps["phase"].astype(str).tolist() == ["prefill"]
    assert found.steps["flags"].astype(object).tolist() == ["kernel_conflict"]
    assert "phase_conflict" in [note.code for note in found.quality]


@pytest.mark.parametrize(
    ("text", "sums"),
    [
        # 512 and 7 requests of one token: squares and keys as the engine wrote them.
        (
            "execute_519_context_1(sq512sk512sqsq262144sqsk262144)_generation_7(sq7sk9000sqsq7sqsk9000)",
            [519.0, 9512.0, 262151.0, 271144.0],
        ),
        # The plain form has no keys; the squares of seven single tokens are known, those of a prompt are not.
        ("execute_context_0(0)_generation_7(7)", [7.0, None, 7.0, None]),
        ("execute_context_1(512)_generation_7(7)", [519.0, None, None, None]),
        ("execute_context_1(888_788544)_generation_0(0)", [888.0, None, 788544.0, None]),
    ],
)
def test_sums_over_requests(text: str, sums: list[float | None]) -> None:
    trace = TraceBuilder().annotation(text, 0, 10)
    trace.launched(GEMM, launch_ts=3, ts=4, dur=1)
    row = phased(trace).steps[["sum_q", "sum_k", "sum_qq", "sum_qk"]].iloc[0].astype(object)
    assert row.where(row.notna(), None).tolist() == sums


def test_sums_of_the_prefilling_requests_stand_apart() -> None:
    text = "execute_519_context_1(sq512sk512sqsq262144sqsk262144)_generation_7(sq7sk9000sqsq7sqsk9000)"
    trace = TraceBuilder().annotation(text, 0, 10)
    trace.launched(GEMM, launch_ts=3, ts=4, dur=1)
    (row,) = phased(trace).steps.to_dict("records")
    assert [row[f"context_sum_{name}"] for name in ("k", "qq", "qk")] == [512, 262144, 262144]


def test_order_of_events_and_a_shift_of_time_change_no_label() -> None:
    def trace(shift: float) -> TraceBuilder:
        built = TraceBuilder().annotation(PREFILL, 0 + shift, 10).annotation(MIXED, 20 + shift, 10)
        built.launched(GEMM, 5 + shift, 6 + shift, 30).launched(GEMM, 25 + shift, 36 + shift, 4)
        return built

    turned = trace(0)
    turned.events.reverse()
    expected = labels(phased(trace(0)))
    pd.testing.assert_frame_equal(labels(phased(turned)), expected)
    pd.testing.assert_frame_equal(labels(phased(trace(1000))), expected)
