"""Sums, shares and rates of the summary, by hand."""

import json
from collections.abc import Callable

import pytest

from tracekit.report import Result
from tracekit.tables.ceilings import Ceilings, Roof

Make = Callable[..., Result]


def test_an_overlap_between_streams_is_counted_once(make_result: Make) -> None:
    summary = make_result([
        {"name": "a", "ts_ns": 0, "dur_ns": 100, "stream": 7, "phase": "decode"},
        {"name": "b", "ts_ns": 60, "dur_ns": 100, "stream": 8, "phase": "prefill"},
    ]).summary  # fmt: skip
    assert {row["phase"]: row["time_ns"] for row in summary["phases"]} == {"prefill": 60, "decode": 100}
    assert [row["share"] for row in summary["phases"]] == [60 / 160, 100 / 160]


def test_two_devices_do_not_hide_each_other(make_result: Make) -> None:
    rows = [{"name": "a", "ts_ns": 0, "dur_ns": 100, "device": device} for device in (0, 1)]
    assert make_result(rows).summary["phases"][0]["time_ns"] == 200


def test_a_cpu_op_keeps_its_self_time(make_result: Make) -> None:
    rows = [
        {"name": "aten::mm", "kind": "cpu_op", "device": None, "ts_ns": 0, "dur_ns": 50} for _ in range(3)
    ]
    assert make_result(rows).summary["phases"][0]["time_ns"] == 150


def test_rates_count_only_kernels_whose_work_is_known(make_result: Make) -> None:
    phase = make_result(
        [
            {"name": "mm", "ts_ns": 0, "dur_ns": 1000, "phase": "prefill", "flops": 4e8, "dram_bytes": 1e6, "peak": "bf16", "flops_source": "shape", "weight_bytes": 6e5},
            {"name": "norm", "ts_ns": 1000, "dur_ns": 1000, "phase": "prefill", "flops": 1e7, "dram_bytes": 1e6, "peak": "vector", "flops_source": "shape", "kv_bytes": 2e5},
            {"name": "mystery", "ts_ns": 2000, "dur_ns": 2000, "phase": "prefill"},
        ],
        steps=[{"phase": "prefill", "ts_ns": 0, "dur_ns": 5000, "n_kernels": 3, "context_tokens": 10}],
        gaps=[{"step_id": 0, "ts_ns": 4000, "dur_ns": 1000, "cause": "host"}],
    ).summary["phases"][0]  # fmt: skip
    assert phase["work_known"] == 0.5
    assert phase["flops_per_s"] == pytest.approx(4.1e8 / 2e-6)
    assert phase["dram_bytes_per_s"] == pytest.approx(2e6 / 2e-6)
    assert phase["arithmetic_intensity"] == pytest.approx(205)
    # 4e8 / 1000e12 + 1e7 / 50e12 = 400 ns + 200 ns at the roofs, of 2000 ns known and 5000 ns wall.
    assert phase["compute_roof_share"] == pytest.approx(600 / 2000)
    assert phase["mfu"] == pytest.approx(600 / 5000)
    # 8e5 bytes at 2e12 byte/s are 400 ns.
    assert phase["mbu"] == pytest.approx(400 / 5000)
    assert (phase["wall_ns"], phase["wall_from"]) == (5000, "steps")
    assert phase["tokens_per_s"] == pytest.approx(10 / 5e-6)
    assert phase["idle_ns"] == {"host": 1000}
    assert phase["work_sources"] == {"none": 0.5, "shape": 0.5}


def test_a_kernel_hidden_behind_one_of_unknown_work_does_not_raise_the_rate(make_result: Make) -> None:
    phase = make_result([
        {"name": "mystery", "ts_ns": 0, "dur_ns": 1000, "stream": 8},
        {"name": "mm", "ts_ns": 0, "dur_ns": 1000, "flops": 1e6, "dram_bytes": 1e6, "peak": "bf16"},
    ]).summary["phases"][0]  # fmt: skip
    assert phase["flops_per_s"] == pytest.approx(1e12)
    assert phase["time_ns"] == 1000


def test_measured_bytes_make_the_bandwidth_and_modelled_ones_the_intensity(make_result: Make) -> None:
    phase = make_result(
        [{"name": "mm", "ts_ns": 0, "dur_ns": 1000, "flops": 4e6, "dram_bytes": 1e6, "dram_bytes_hw": 1.5e6}]
    ).summary["phases"][0]
    assert phase["dram_bytes_per_s"] == pytest.approx(1.5e12)
    assert phase["arithmetic_intensity"] == pytest.approx(4)
    assert (phase["dram_bytes"], phase["dram_bytes_hw"]) == (1e6, 1.5e6)


def test_without_steps_the_wall_is_the_span_and_says_so(make_result: Make) -> None:
    phase = make_result([{"name": "a", "ts_ns": start, "dur_ns": 10} for start in (100, 300)]).summary[
        "phases"
    ][0]
    assert (phase["wall_ns"], phase["wall_from"]) == (210, "span")


def test_shares_and_coverage_are_by_time(make_result: Make) -> None:
    summary = make_result([
        {"name": "a", "ts_ns": 0, "dur_ns": 300, "phase": "decode", "bottleneck": "dram", "flops": 0, "dram_bytes": 8},
        {"name": "b", "ts_ns": 300, "dur_ns": 100, "launch_ts_ns": None, "phase_evidence": "before_window"},
    ]).summary  # fmt: skip
    assert summary["coverage"] == {
        "linked": 0.75,
        "phase_known": 0.75,
        "work_known": 0.75,
        "classified": 0.75,
    }
    assert [(row["phase"], row["bottlenecks"], row["evidence"]) for row in summary["phases"]] == [
        ("decode", {"dram": 1.0}, {"annotation": 1.0}),
        ("unknown", {"unknown": 1.0}, {"before_window": 1.0}),
    ]


def test_roof_used_is_measured_only_where_every_roof_in_force_is(make_result: Make) -> None:
    rows = [{"name": "mm", "ts_ns": 0, "dur_ns": 10, "flops": 1.0, "dram_bytes": 1.0, "peak": "bf16"}]
    measured = Roof(measured=1e12, spec=2e12)
    both = Ceilings(peaks={"bf16": measured, "fp8": Roof(spec=4e12)}, dram=measured)
    one = Ceilings(peaks={"bf16": measured}, dram=Roof(spec=1e12))
    used = [make_result(rows, ceilings=ceilings).summary["roof_used"] for ceilings in (both, one, Ceilings())]
    assert used == ["measured", "spec", None]


def test_nothing_at_all_is_still_a_summary(make_result: Make) -> None:
    summary = make_result([]).summary
    assert summary["phases"] == []
    assert summary["coverage"]["linked"] is None
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_phase_shares_partition_the_time(big_result: Make) -> None:
    summary = big_result().summary
    assert [row["phase"] for row in summary["phases"]] == ["prefill", "decode", "mixed"]
    assert sum(row["share"] for row in summary["phases"]) == pytest.approx(1)
    assert sum(row["time_ns"] for row in summary["families"]) == sum(
        row["time_ns"] for row in summary["phases"]
    )
    json.dumps(summary, allow_nan=False)
