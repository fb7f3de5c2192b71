"""Kernels put together: sums, rates over sums, and the class of most time."""

from collections.abc import Callable

import pytest

from tracekit.report import Result
from tracekit.report.groups import BY_NAME, BY_SHAPE, grouped

Make = Callable[..., Result]


def test_rates_are_sums_over_sums_and_the_class_is_that_of_most_time(make_result: Make) -> None:
    result = make_result([
        {"name": "mm", "ts_ns": 0, "dur_ns": 1000, "flops": 1e6, "dram_bytes": 1e6, "peak": "bf16", "bottleneck": "dram"},
        {"name": "mm", "ts_ns": 1000, "dur_ns": 3000, "flops": 1e6, "dram_bytes": 1e6, "peak": "bf16", "bottleneck": "dram", "bottleneck_evidence": "longest"},
        {"name": "mm", "ts_ns": 4000, "dur_ns": 3500, "bottleneck": "latency"},
        {"name": "add", "ts_ns": 7500, "dur_ns": 100},
    ])  # fmt: skip
    mm, add = grouped(result.rows, result.ceilings, BY_NAME).to_dict("records")
    assert (mm["name"], mm["count"], mm["own_ns"], mm["share"]) == ("mm", 3, 7500, 7500 / 7600)
    assert (mm["bottleneck"], mm["bottleneck_evidence"]) == ("dram", "longest")
    # 2e6 in 4000 ns, not the mean of 1 and 1/3 TFLOP/s.
    assert mm["flops_per_s"] == pytest.approx(5e11)
    assert mm["s_dram"] == pytest.approx(5e11 / 2e12)
    assert add["flops_per_s"] != add["flops_per_s"]


def test_shapes_of_one_name_stand_apart_though_they_have_no_grid(make_result: Make) -> None:
    result = make_result(
        [
            {"name": "aten::mm", "kind": "cpu_op", "ts_ns": 0, "dur_ns": 100 + at, "flops": flops, "dram_bytes": 8.0, "bottleneck": "compute"}
            for at, flops in enumerate((1e6, 1.1e6, 9e6))
        ]
    )  # fmt: skip
    shapes = grouped(result.rows, result.ceilings, BY_SHAPE)
    assert shapes["count"].tolist() == [2, 1]
    assert shapes["bottleneck"].tolist() == ["compute", "compute"]


def test_no_kernels_make_no_groups(make_result: Make) -> None:
    result = make_result([])
    assert grouped(result.rows, result.ceilings, BY_SHAPE).empty
