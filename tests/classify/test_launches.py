"""Launch delays and queue depth on inline timelines [us]."""

from typing import Any

import pandas as pd
import pytest

from tracekit.classify.launches import launch_delays, queue_depth

US = 1_000


def kernel(launch: float, returned: float, start: float, correlation: int, **more: Any) -> dict[str, Any]:
    return {
        "kind": "kernel",
        "phase": "decode",
        "correlation": correlation,
        "launch_ts_ns": int(launch * US),
        "launch_end_ns": int(returned * US),
        "ts_ns": int(start * US),
        **more,
    }


def test_delays_from_the_end_of_the_call_to_the_start() -> None:
    rows = [kernel(0, 5, 8, 1), kernel(5, 9, 40, 2), kernel(10, 14, 60, 3)]
    (row,) = launch_delays(pd.DataFrame(rows)).to_dict("records")
    assert (row["n"], row["median_ns"], row["call_ns"]) == (3, 31 * US, 4 * US)
    assert row["queued"] == pytest.approx(2 / 3)


def test_delays_are_exact_on_a_clock_that_counts_from_1970() -> None:
    rows = pd.DataFrame([kernel(0, 5, 8, 1)])
    rows[["launch_ts_ns", "launch_end_ns", "ts_ns"]] += [1_764_000_000_123_456_789] * 3
    (row,) = launch_delays(rows).to_dict("records")
    assert (row["median_ns"], row["call_ns"]) == (3 * US, 5 * US)


def test_a_replay_counts_once_by_its_first_kernel() -> None:
    rows = [kernel(0, 5, 8, 1), kernel(0, 5, 20, 1), kernel(0, 5, 30, 1)]
    (row,) = launch_delays(pd.DataFrame(rows)).to_dict("records")
    assert (row["n"], row["median_ns"]) == (1, 3 * US)


def test_a_kernel_that_starts_before_its_call_returned_has_no_delay() -> None:
    assert launch_delays(pd.DataFrame([kernel(0, 9, 4, 1)]))["median_ns"].iloc[0] == 0


def test_kernels_without_a_launch_record_are_left_out() -> None:
    rows = pd.DataFrame(
        [kernel(0, 5, 8, 1), {**kernel(0, 0, 9, 2), "launch_ts_ns": None, "launch_end_ns": None}]
    )
    assert launch_delays(rows)["n"].sum() == 1


def test_queue_depth_counts_launches_not_yet_started() -> None:
    depth = queue_depth(pd.DataFrame([kernel(0, 1, 10, 1), kernel(2, 3, 12, 2), kernel(20, 21, 25, 3)]))
    assert list(zip(depth["ts_ns"] // US, depth["depth"], strict=True)) == [
        (0, 1),
        (2, 2),
        (10, 1),
        (12, 0),
        (20, 1),
        (25, 0),
    ]
