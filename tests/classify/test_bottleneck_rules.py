"""Every rule of the bottleneck procedure on one inline kernel each.

The device: 1e15 FLOP/s bf16, 1e14 vector, 2e12 byte/s, 100 SMs, 50 MB of L2, launch floor 2 us. A kernel's
shares are given directly: 100 us at a DRAM share of 0.9 moves 180 MB.
"""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from tracekit.classify import classify
from tracekit.tables.ceilings import Ceilings, Roof

SPEC = Ceilings(
    device="bench",
    peaks={"bf16": Roof(spec=1e15), "vector": Roof(spec=1e14)},
    dram=Roof(spec=2e12),
    launch_floor_ns=2_000,
    sm_count=100,
    l2_bytes=50e6,
)
MEASURED = replace(
    SPEC,
    peaks={"bf16": Roof(measured=1e15), "vector": Roof(measured=1e14)},
    dram=Roof(measured=2e12),
)


def one(
    compute: float | None, dram: float | None, *, us: float = 100, ceilings: Ceilings = MEASURED, **more: Any
) -> Any:
    """The classified row of a kernel that reaches these shares of the roofs."""
    nan = float("nan")
    flops = nan if compute is None else compute * us * 1e-6 * 1e15
    moved = nan if dram is None else dram * us * 1e-6 * 2e12
    row = {
        "kind": "kernel",
        "name": "kernel",
        "family": "gemm",
        "phase": "decode",
        "grid": "1000,1,1",
        "dur_ns": int(us * 1000),
        "flops": flops,
        "dram_bytes": moved,
        "weight_bytes": moved,
        "peak": "bf16",
        "s_compute": nan if compute is None else compute,
        "s_dram": nan if dram is None else dram,
        "arithmetic_intensity": flops / moved if moved else nan,
        **more,
    }
    return classify(pd.DataFrame([row]), ceilings).iloc[0]


def says(row: Any) -> tuple[str, float]:
    return row["bottleneck"], pytest.approx(row["bottleneck_confidence"])


@pytest.mark.parametrize(
    ("compute", "dram", "ceilings", "expected"),
    [
        (0.05, 0.85, MEASURED, ("dram", 0.8)),
        (0.05, 0.85, SPEC, ("dram", 0.65)),
        (0.85, 0.05, MEASURED, ("compute", 0.8)),
        (0.85, 0.05, SPEC, ("compute", 0.65)),
        (0.05, 0.65, MEASURED, ("dram", 0.8)),  # the other share is less than half of it
        (0.40, 0.65, MEASURED, ("dram", 0.65)),
        (0.05, 0.65, SPEC, ("dram", 0.5)),
        (0.05, 0.45, MEASURED, ("dram", 0.4)),
        (0.45, 0.05, MEASURED, ("compute", 0.4)),
        (0.05, 0.10, MEASURED, ("unknown", 0.3)),
    ],
)
def test_bands_of_the_larger_share(
    compute: float, dram: float, ceilings: Ceilings, expected: tuple[str, float]
) -> None:
    assert says(one(compute, dram, ceilings=ceilings)) == expected


def test_a_share_from_one_roof_alone_is_enough() -> None:
    assert one(None, 0.9)["bottleneck"] == "dram"
    assert one(0.9, None)["bottleneck"] == "compute"


def test_evidence_names_both_shares_the_roof_and_the_intensity() -> None:
    text = one(0.03, 0.87)["bottleneck_evidence"]
    assert text == "87 % of the measured DRAM roof (minimum traffic), 3 % of the bf16 roof, intensity 17.2"


def test_evidence_says_when_the_roof_is_a_data_sheet() -> None:
    assert "87 % of the spec DRAM roof" in one(0.03, 0.87, ceilings=SPEC)["bottleneck_evidence"]


def test_inefficient_kernels_lean_and_ask_for_counters() -> None:
    row = one(0.05, 0.4)
    assert row["flags"] == "inefficient"
    assert "needs counters" in row["bottleneck_evidence"]


def test_both_roofs_within_ten_points_are_balanced_and_the_larger_is_reported() -> None:
    row = one(0.68, 0.62)
    assert (row["bottleneck"], row["flags"]) == ("compute", "balanced")
    assert row["bottleneck_confidence"] <= 0.5


def test_near_the_ridge_no_side_is_asserted_below_sixty_percent() -> None:
    row = one(0.50, 0.45)
    assert (row["bottleneck"], row["flags"]) == ("unknown", "ridge")
    # log2(0.50 / 0.35) = 0.51 is outside of the band
    assert one(0.50, 0.35)["bottleneck"] == "compute"


def test_where_the_reachable_rate_is_published_the_bands_are_of_it() -> None:
    # An MI300X reaches 708 of 1307 TFLOP/s: 45 % of the data sheet is 83 % of that.
    peaks = {"bf16": Roof(spec=1e15, reach=708 / 1307, reach_known=True)}
    row = one(0.45, 0.05, ceilings=replace(SPEC, peaks=peaks))
    assert says(row) == ("compute", 0.65)
    assert row["bottleneck_evidence"].startswith("45 % of the spec bf16 roof (83 % of the reachable)")
    assert one(0.45, 0.05, ceilings=SPEC)["flags"] == "inefficient"


def test_more_than_the_roof_from_a_small_working_set_is_l2() -> None:
    # 5 us at 1.3 of 2 TB/s: 13 MB, under 0.6 of 50 MB
    assert says(one(0.05, 1.3, us=5)) == ("l2", 0.6)


def test_more_than_the_roof_from_a_large_working_set_is_a_wrong_model() -> None:
    row = one(0.05, 1.3)
    assert (row["bottleneck"], row["flags"]) == ("dram", "roof_or_model_wrong")
    assert row["bottleneck_confidence"] <= 0.3


def test_more_than_the_compute_roof_is_a_wrong_model() -> None:
    row = one(1.2, 0.1, us=5)
    assert (row["bottleneck"], row["flags"]) == ("compute", "roof_or_model_wrong")


def test_up_to_eight_percent_over_the_roof_is_still_the_roof() -> None:
    assert says(one(0.05, 1.07)) == ("dram", 0.8)


def test_measured_bytes_above_the_roof_are_never_called_l2() -> None:
    assert one(0.05, 1.3, us=5, dram_bytes_hw=13e6)["flags"] == "roof_or_model_wrong"


def test_small_activations_may_have_stayed_in_the_l2() -> None:
    row = one(0.01, 0.85, us=10, weight_bytes=0.0)
    assert (row["bottleneck"], row["flags"]) == ("dram", "l2_resident_possible")
    assert row["bottleneck_confidence"] == pytest.approx(0.65)


def test_a_part_empty_last_wave_explains_a_lower_share() -> None:
    # 110 blocks on 100 SMs: 1.1 waves take the time of 2; 0.5 / 0.55 = 0.91
    row = one(0.5, 0.1, grid="110,1,1")
    assert (row["bottleneck"], row["flags"]) == ("compute", "tail")
    assert "1.1 waves" in row["bottleneck_evidence"]


def test_full_waves_have_no_tail() -> None:
    assert one(0.5, 0.1, grid="200,1,1")["flags"] == "inefficient"


def test_vector_kernels_run_many_blocks_a_unit_and_get_no_tail() -> None:
    assert one(0.5, 0.1, grid="110,1,1", peak="vector")["flags"] == "inefficient"


@pytest.mark.parametrize(
    ("grid", "us", "confidence", "why"),
    [
        ("12,2,1", 100, 0.7, "24 thread blocks on 100 SMs"),
        ("90,1,1", 100, 0.5, "90 thread blocks on 100 SMs"),  # nearly a wave: explains little
        ("1000,1,1", 4.5, 0.7, "4.5 us is near the launch floor"),
        ("1000,1,1", 5.5, 0.7, "5.5 us is near the launch floor"),  # 4.95 us of it beyond the DRAM time
        ("12,2,1", 3.5, 0.8, "24 thread blocks on 100 SMs, 3.5 us is near the launch floor"),
    ],
)
def test_low_shares_with_few_blocks_or_little_time_are_latency(
    grid: str, us: float, confidence: float, why: str
) -> None:
    row = one(0.02, 0.1, us=us, grid=grid)
    assert says(row) == ("latency", confidence)
    assert row["bottleneck_evidence"].startswith(why)


def test_a_short_gemv_that_reaches_dram_is_dram_not_latency() -> None:
    assert one(0.01, 0.85, us=4.5, grid="12,1,1")["bottleneck"] == "dram"


@pytest.mark.parametrize("family", ["comm.nccl", "comm.custom_ar", "comm"])
def test_collectives_are_communication_by_family(family: str) -> None:
    row = one(None, None, family=family)
    assert says(row) == ("communication", 0.9)
    assert "waiting for peers" in row["bottleneck_evidence"]


def test_a_small_collective_far_below_its_link_is_marked() -> None:
    # 0.5 MB in 100 us is 5 GB/s of 450
    ceilings = replace(MEASURED, link=Roof(spec=450e9))
    row = one(None, None, family="comm.nccl", bus_bytes=5e5, ceilings=ceilings)
    assert row["flags"] == "comm_latency"
    assert "1 % of the link" in row["bottleneck_evidence"]


@pytest.mark.parametrize(
    ("name", "bottleneck"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "copy"),
        ("Memcpy DtoH (Device -> Pinned)", "copy"),
        ("Memcpy PtoP (Device -> Device)", "copy"),
        ("Memcpy DtoD (Device -> Device)", "dram"),
        ("CopyDeviceToDevice", "dram"),
    ],
)
def test_copies_by_direction(name: str, bottleneck: str) -> None:
    assert one(None, None, kind="memcpy", name=name, family="mem")["bottleneck"] == bottleneck


def test_a_fill_is_measured_against_dram() -> None:
    assert (
        one(None, 0.9, kind="memset", name="Memset (Device)", weight_bytes=float("nan"))["bottleneck"]
        == "dram"
    )
    assert one(None, None, us=1.2, kind="memset", name="Memset (Device)")["bottleneck"] == "latency"


@pytest.mark.parametrize(
    ("family", "phase", "bottleneck"),
    [
        ("gemv", "decode", "dram"),
        ("attn", "decode", "dram"),
        ("gemm", "decode", "dram"),
        ("gemm", "prefill", "compute"),
        ("attn.mla", "prefill", "compute"),
        ("norm", "prefill", "dram"),
        ("gemm", "mixed", "unknown"),
        ("other", "decode", "unknown"),
    ],
)
def test_without_work_a_name_is_only_a_prior(family: str, phase: str, bottleneck: str) -> None:
    row = one(None, None, family=family, phase=phase)
    assert row["bottleneck"] == bottleneck
    assert row["bottleneck_confidence"] <= 0.35
    assert row["flags"] == "no_work_model"


def test_without_work_a_launch_sized_kernel_is_latency() -> None:
    assert says(one(None, None, us=2.0)) == ("latency", 0.5)


def test_no_operations_and_unknown_bytes_say_nothing() -> None:
    row = one(0.0, None, family="other", us=100)
    assert (row["bottleneck"], row["flags"]) == ("unknown", "no_work_model")


def test_without_a_device_everything_is_a_prior_or_unknown() -> None:
    row = one(None, None, ceilings=Ceilings(), us=100, family="other")
    assert says(row) == ("unknown", 0.0)


CPU = Ceilings("cpu", {"fp32": Roof(measured=28e9)}, dram=Roof(measured=10e9), launch_floor_ns=9_000)


def test_cpu_ops_are_judged_on_measured_roofs() -> None:
    row = one(0.9, 0.1, us=5_000, kind="cpu_op", grid=None, peak="fp32", ceilings=CPU)
    assert says(row) == ("compute", 0.8)


@pytest.mark.parametrize("work", [(0.01, 0.01), (None, None)])
def test_cpu_ops_near_the_op_overhead_are_latency(work: tuple[float | None, float | None]) -> None:
    assert one(*work, us=15, kind="cpu_op", grid=None, ceilings=CPU)["bottleneck"] == "latency"


def test_cpu_ops_get_no_gpu_latency_threshold() -> None:
    fast = replace(CPU, launch_floor_ns=1_000)
    assert one(0.1, 0.1, us=4, kind="cpu_op", grid=None, ceilings=fast)["bottleneck"] == "unknown"


@pytest.mark.parametrize(
    ("sm", "memory", "waves", "expected"),
    [
        (85, 40, 8, ("compute", 0.95)),
        (40, 85, 8, ("dram", 0.95)),
        (75, 62, 8, ("compute", 0.85)),
        (65, 70, 8, ("dram", 0.6)),
        (20, 30, 0.5, ("latency", 0.8)),
        (20, 30, 8, ("latency", 0.6)),
    ],
)
def test_counters_decide_by_nvidias_rule(
    sm: float, memory: float, waves: float, expected: tuple[str, float]
) -> None:
    row = one(0.05, 0.85, hw_sm_pct=sm, hw_mem_pct=memory, hw_waves=waves, hw_dram_pct=memory, hw_l2_pct=20.0)
    assert says(row) == expected
    assert row["bottleneck_evidence"].startswith("counters: SM")


def test_counters_tell_l2_from_dram() -> None:
    row = one(0.05, 0.3, hw_sm_pct=30.0, hw_mem_pct=85.0, hw_waves=8.0, hw_dram_pct=25.0, hw_l2_pct=85.0)
    assert row["bottleneck"] == "l2"


def test_earlier_flags_are_kept() -> None:
    assert one(0.05, 0.4, flags="before_window")["flags"] == "before_window,inefficient"


def test_an_empty_table_stays_empty() -> None:
    frame = pd.DataFrame({"kind": [], "name": [], "dur_ns": [], "family": []})
    assert list(classify(frame, SPEC)["bottleneck"]) == []


def test_each_kernel_is_decided_on_its_own() -> None:
    rows = [one(0.05, 0.85), one(0.85, 0.05), one(None, None, family="comm.nccl")]
    assert [row["bottleneck"] for row in rows] == ["dram", "compute", "communication"]
    together = classify(pd.DataFrame(rows), MEASURED)
    assert list(together["bottleneck"]) == ["dram", "compute", "communication"]


def test_the_self_time_of_an_op_that_works_through_others_is_latency() -> None:
    row = one(0.0, 0.0, kind="cpu_op", grid=None, name="aten::rms_norm", family="norm")
    assert says(row) == ("latency", 0.7)
    assert "through other ops" in row["bottleneck_evidence"]
    # A kernel of which the model says nothing useful is another matter.
    assert says(one(0.0, 0.0))[0] == "unknown"


@pytest.mark.parametrize("share", [1.01, 1.5])
def test_nothing_above_a_roof_goes_unflagged(share: float) -> None:
    # A working set of 200 MB is in no cache: the class stands a little above the roof, and is doubted far above it.
    row = one(0.05, share, us=100)
    assert row["bottleneck"] == "dram"
    assert row["flags"] == ("above_roof" if share < 1.08 else "roof_or_model_wrong")
    assert says(one(0.05, 1.5, us=10, weight_bytes=0.0)) == ("l2", 0.6)
    assert one(0.05, 1.5, us=10, weight_bytes=0.0)["flags"] == "above_roof"


def test_what_stands_above_a_roof_names_its_likely_cause() -> None:
    product = one(0.05, 1.5, us=100)["bottleneck_evidence"]
    assert product.endswith("above the roof: the wrong model or the wrong device (--model, --device)")
    attention = one(0.05, 1.5, us=100, family="attn.flash")["bottleneck_evidence"]
    assert "above the roof: a sliding window that no size tells, the wrong model" in attention
