"""The parts of a phase's time add up, and each is what its name says."""

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.classify.case import own_time
from tracekit.classify.waterfall import waterfall

GAP_COLUMNS = ["step_id", "dur_ns", "cause"]


def kernel(start: int, end: int, bound: float | None = None, **more: Any) -> dict[str, Any]:
    return {
        "kind": "kernel",
        "family": "gemm",
        "phase": "decode",
        "device": 0,
        "ts_ns": start,
        "dur_ns": end - start,
        "bound_ns": float("nan") if bound is None else bound,
        "bottleneck": "dram",
        **more,
    }


def parts(
    rows: list[dict[str, Any]], gaps: list[tuple[int, int, str]] | None = None
) -> dict[tuple[str, str], float]:
    steps = pd.DataFrame({"step_id": [0], "phase": ["decode"]})
    out = waterfall(pd.DataFrame(rows), steps, pd.DataFrame(gaps or [], columns=GAP_COLUMNS))
    return {(row.part, row.detail): row.time_ns for row in out.itertuples()}


def test_from_the_wall_to_the_roof() -> None:
    rows = [
        kernel(0, 100, 60),
        kernel(100, 130, family="norm"),
        kernel(120, 200, family="comm.nccl", bottleneck="communication"),
        kernel(300, 310, kind="memcpy", family="mem", bottleneck="copy"),
    ]
    assert parts(rows, [(0, 100, "host")]) == {
        ("idle", "host"): 100,
        ("communication", "exposed"): 70,
        ("copy", "exposed"): 10,
        ("unmodelled", "norm"): 30,
        ("excess", "gemm"): 40,
        ("roof", "bound"): 60,
    }


def test_communication_behind_compute_is_overlapped() -> None:
    # The collective starts first and owns 0..100; the product behind it covers 50..150.
    rows = [kernel(0, 100, family="comm.nccl", bottleneck="communication"), kernel(50, 150, 100)]
    assert parts(rows) == {
        ("communication", "exposed"): 50,
        ("overlapped", "transfers"): 50,
        ("roof", "bound"): 50,
    }


def test_a_kernel_above_its_roof_has_no_negative_excess() -> None:
    assert parts([kernel(0, 100, 130)]) == {("roof", "bound"): 100}


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 300),
            st.integers(1, 60),
            st.sampled_from(["dram", "communication", "copy"]),
            st.one_of(st.none(), st.floats(0, 80)),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_parts_add_up_to_exclusive_and_idle_time(spans: list[tuple[int, int, str, float | None]]) -> None:
    rows = [kernel(start, start + size, bound, bottleneck=word) for start, size, word, bound in spans]
    total = own_time(pd.DataFrame(rows)).sum() + 7
    assert sum(parts(rows, [(0, 7, "sync")]).values()) == pytest.approx(total)
