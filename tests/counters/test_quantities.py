"""What the formulas make of metrics, by hand-computed numbers and published ones."""

import counterbuilder as build
import numpy as np
import pytest

from tracekit.counters import derive

SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"


def derived(metrics: dict[str, float]) -> dict[str, float]:
    """The quantities of one launch."""
    found = derive(build.counters([{"name": "k", "grid": "1,1,1"}], [metrics]))
    return {str(name): value for name, value in found.iloc[0].items()}


@pytest.mark.parametrize(
    "metrics",
    [
        {"dram__bytes.sum": 4.0e6},
        {"dram__bytes_read.sum": 3.0e6, "dram__bytes_write.sum": 1.0e6},
        {"dram__bytes_op_read.sum": 3.0e6, "dram__bytes_op_write.sum": 1.0e6},
        {"dram__bytes.sum.per_second": 2.0e12, "gpu__time_duration.sum": 2.0e-6},
        {"dram__sectors_read.sum": 100_000.0, "dram__sectors_write.sum": 25_000.0},
    ],
)
def test_dram_bytes_have_one_meaning_under_every_name(metrics: dict[str, float]) -> None:
    assert derived(metrics)["dram_bytes"] == pytest.approx(4.0e6)


def test_reads_without_writes_are_not_the_traffic() -> None:
    assert np.isnan(derived({"dram__bytes_read.sum": 3.0e6})["dram_bytes"])


def test_fp32_operations_are_adds_multiplies_and_twice_multiply_adds() -> None:
    # The counts of a public torch.profiler trace of an A100: 79.7 GFLOP.
    found = derived(
        {
            SASS.format("fadd"): 964_651_656,
            SASS.format("fmul"): 430_063_616,
            SASS.format("ffma"): 39_142_369_720,
        }
    )
    assert found["fp32_flops"] == 964_651_656 + 430_063_616 + 2 * 39_142_369_720
    assert found["fp32_flops"] == pytest.approx(79.7e9, rel=1e-3)


def test_peaks_follow_the_clock_of_the_measurement() -> None:
    # An A100-SXM4-40GB whose report says 77.058 % of DRAM: 1198.3 GB/s of 1555.1 GB/s.
    found = derived(
        {
            "dram__bytes.sum.per_second": 1198.3e9,
            "dram__bytes.sum.peak_sustained": 1280.0,
            "dram__cycles_elapsed.avg.per_second": 1.2149e9,
            "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 6912.0,
            "sm__cycles_elapsed.avg.per_second": 1.091e9,
        }
    )
    assert found["dram_peak"] == pytest.approx(1555.1e9, rel=1e-4)
    assert found["dram_pct"] == pytest.approx(77.058, rel=1e-3)
    assert found["fp32_peak"] == pytest.approx(15.1e12, rel=2e-3)


def test_one_counter_that_holds_fp8_and_fp4_is_not_added_twice() -> None:
    merged = {"sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32.sum": 500.0}
    alone = {"sm__ops_path_tensor_src_fp4_dst_fp32.sum": 200.0}
    assert derived(merged | alone)["tensor_flops"] == 500
    assert derived(alone)["tensor_flops"] == 200


def test_a_negative_count_is_a_failure() -> None:
    assert np.isnan(derived({"dram__bytes.sum": -32.0})["dram_bytes"])
