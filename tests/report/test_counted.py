"""Measured beside modelled: factors are of the kernels that have both figures, and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracekit.report import Result

Make = Callable[..., Result]
KERNEL = {"dur_ns": 100, "phase": "decode"}


def made(make_result: Make, rows: list[dict[str, Any]], **internal: list[Any]) -> Result:
    """A result whose kernels carry the internal columns of the join."""
    result = make_result(
        [{"name": f"k{at}", "ts_ns": 100 * at, **KERNEL, **row} for at, row in enumerate(rows)]
    )
    return replace(result, all_kernels=result.all_kernels.assign(**internal))


def test_factors_leave_out_what_has_only_one_figure(make_result: Make) -> None:
    result = made(
        make_result,
        [
            {"dram_bytes": 10, "dram_bytes_hw": 20, "flops": 100, "flops_hw": 110, "hw_status": "measured"},
            {"dram_bytes": 5, "flops": 7, "hw_status": "failed"},
            {"dram_bytes_hw": 1000, "hw_status": "measured"},
            {"hw_status": "unsupported"},
        ],
        hw_level=["range", None, "mean", None],
        hw_l2_hit_pct=[80.0, None, 20.0, None],
        hw_l2_bytes=[300.0, None, 100.0, None],
    )
    phase = result.overview.phases[0]
    found = phase.counters
    assert found is not None
    assert (found.least_bytes, found.moved_bytes, found.dram_over_least) == (10, 20, 2)
    assert found.flops_over_model == pytest.approx(1.1)
    # 80 % of 300 bytes and 20 % of 100: 260 of 400.
    assert found.l2_hit == pytest.approx(0.65)
    assert found.time_share == 0.5
    assert found.status == {"measured": 0.5, "failed": 0.25, "unsupported": 0.25}
    assert found.joined == {"range": 0.5, "mean": 0.5}
    # All that was measured is in the phase's sum, with or without a model.
    assert phase.dram_bytes_hw == 1020
    groups = result.by_name.set_index("name")
    assert groups["over_least"].dropna().to_dict() == {"k0": 2}
    assert groups["hw_status"].astype(str).to_dict() == {
        "k0": "measured",
        "k1": "failed",
        "k2": "measured",
        "k3": "unsupported",
    }


def test_without_counters_there_is_no_row_and_no_column(make_result: Make) -> None:
    result = made(make_result, [{"dram_bytes": 10}])
    assert result.overview.phases[0].counters is None
    assert "counted_ns" not in result.by_name


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(1, 1e9), st.floats(0.25, 4), st.booleans()), min_size=1, max_size=8))
def test_the_phases_factor_lies_between_those_of_its_kernels(
    make_result: Make, kernels: list[tuple[float, float, bool]]
) -> None:
    rows = [
        {
            "dram_bytes": least,
            "dram_bytes_hw": least * factor if counted else None,
            "hw_status": "measured" if counted else "not_collected",
        }
        for least, factor, counted in kernels
    ]
    found = made(make_result, rows).overview.phases[0].counters
    factors = [factor for _, factor, counted in kernels if counted]
    if not factors:
        assert found is None
        return
    assert found is not None
    assert found.dram_over_least is not None
    assert min(factors) * (1 - 1e-9) <= found.dram_over_least <= max(factors) * (1 + 1e-9)
    assert found.time_share == pytest.approx(len(factors) / len(kernels))
