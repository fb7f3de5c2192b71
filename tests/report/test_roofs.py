"""Shares of measured roofs and of data-sheet roofs, apart: in the summary and on the screen."""

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest

from tracekit.report import Result, print_summary
from tracekit.report.markdown import render_markdown
from tracekit.tables.ceilings import Ceilings, Roof

Make = Callable[..., Result]

# Half of the data sheet's FLOP/s and three quarters of its byte/s were measured.
BOTH = Ceilings(
    "bench",
    {"bf16": Roof(measured=500e12, spec=1000e12), "vector": Roof(spec=50e12)},
    dram=Roof(measured=1.5e12, spec=2e12),
)
MM: dict[str, Any] = {
    "name": "mm", "ts_ns": 0, "dur_ns": 1000, "phase": "prefill", "flops": 1e8, "dram_bytes": 3e5, "peak": "bf16",
    "flops_source": "shape", "weight_bytes": 3e5,
}  # fmt: skip
STEP = {"phase": "prefill", "ts_ns": 0, "dur_ns": 2000}


def shown(result: Result) -> str:
    out = StringIO()
    print_summary(result, stream=out)
    return out.getvalue()


def test_a_phase_has_its_shares_of_both_kinds(make_result: Make) -> None:
    # 1e8 FLOP in 1 us: 1e14 FLOP/s; 3e5 bytes in 1 us: 3e11 byte/s. The step takes 2 us.
    phase = make_result([MM], [STEP], ceilings=BOTH).overview.phases[0]
    measured, spec = phase.of_measured, phase.of_spec
    assert measured is not None
    assert spec is not None
    assert (measured.compute, measured.dram) == (pytest.approx(0.2), pytest.approx(0.2))
    assert (spec.compute, spec.dram) == (pytest.approx(0.1), pytest.approx(0.15))
    assert (measured.mfu, measured.mbu) == (pytest.approx(0.1), pytest.approx(0.1))
    assert (spec.mfu, spec.mbu) == (pytest.approx(0.05), pytest.approx(0.075))
    assert (phase.compute_roof_share, phase.mfu) == (pytest.approx(0.2), pytest.approx(0.1))


def test_one_kind_alone_is_the_one_that_is_used(make_result: Make) -> None:
    phase = make_result([MM], [STEP]).overview.phases[0]
    assert phase.of_measured is None
    assert phase.of_spec is not None
    assert phase.of_spec.compute == phase.compute_roof_share


def test_a_sum_over_some_types_is_not_shown_as_one_over_all(make_result: Make) -> None:
    norm = {**MM, "name": "norm", "ts_ns": 1000, "peak": "vector", "flops": 1e6}
    phase = make_result([MM, norm], [STEP], ceilings=BOTH).overview.phases[0]
    assert phase.of_measured is not None
    assert phase.of_measured.compute is None
    assert phase.of_measured.dram == pytest.approx(0.2)


def test_kernels_have_a_share_of_each_kind(make_result: Make) -> None:
    row = make_result([MM], [STEP], ceilings=BOTH).by_name.iloc[0]
    assert row["roof_measured"] == pytest.approx(0.2)
    assert row["roof_spec"] == pytest.approx(0.15)
    assert row["roof_share"] == pytest.approx(0.2)


def test_no_operations_and_no_bandwidth_are_no_share(make_result: Make) -> None:
    copy = {**MM, "name": "copy", "flops": 0.0, "peak": None}
    row = make_result([copy], ceilings=Ceilings("bench", {"bf16": Roof(spec=1e15)})).by_name.iloc[0]
    assert row[["roof_share", "roof_spec"]].isna().all()


def test_both_kinds_fit_eighty_columns_and_are_named(make_result: Make) -> None:
    row = {**MM, "name": "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64>()"}
    text = shown(make_result([row], [STEP], ceilings=BOTH))
    assert max(map(len, text.splitlines())) <= 80
    assert "%meas" in text
    assert "%spec" in text
    assert "20% meas" in text
    assert "10% spec" in text


def test_markdown_names_both_kinds(make_result: Make) -> None:
    text = render_markdown(make_result([MM], [STEP], ceilings=BOTH))
    assert "20% meas, 10% spec" in text
    assert "| Of measured roof | Of spec roof |" in text


@pytest.mark.parametrize(
    ("given", "told"),
    [
        # The device waits 1,200 ns of the step for the host.
        (1_500, "500 ns are the profiler's, 41.7 % of the 1.20 us that the device waits for the host"),
        (2_500, "nothing of it is the profiler's"),
        (500, "can have cost at most the 1.20 us that the device waits for the host"),
    ],
)
def test_a_time_without_the_profiler_tells_its_part(make_result: Make, given: float, told: str) -> None:
    gap = {"step_id": 0, "ts_ns": 500, "dur_ns": 1200, "cause": "host"}
    result = make_result([MM], [STEP], [gap], unprofiled={"prefill": given})
    part = result.overview.phases[0].profiler
    assert part is not None
    assert (part.profiled_ns, part.host_ns) == (2000, 1200)
    assert part.profiler_ns == max(0, min(1200, 2000 - given))
    assert told in " ".join(shown(result).split())
    assert told in render_markdown(result)


def test_a_phase_that_mostly_waits_is_bound_by_what_it_waits_for(make_result: Make) -> None:
    gap = {"step_id": 0, "ts_ns": 500, "dur_ns": 1200, "cause": "host"}
    text = " ".join(shown(make_result([MM], [STEP], [gap])).split())
    assert "bound by the host: the device is idle 60.0 % of the wall time" in text
    assert "60% idle" in text
