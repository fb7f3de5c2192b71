"""Idle intervals of a step and their causes, on small inline timelines [us, stored as ns]."""

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.classify import find_gaps
from tracekit.tables import GAPS, CaptureInfo

US = 1_000


def kernel(start: float, end: float, launch: tuple[float, float] | None, **more: Any) -> dict[str, Any]:
    """A kernel from `start` to `end`, launched by a call from `launch[0]` to `launch[1]`."""
    return {
        "kind": "kernel",
        "name": "k",
        "family": "gemm",
        "rank": 0,
        "device": 0,
        "stream": 7,
        "correlation": int(start),
        "from_graph": False,
        "thread": 0,
        "ts_ns": int(start * US),
        "dur_ns": int((end - start) * US),
        "launch_ts_ns": None if launch is None else int(launch[0] * US),
        "launch_end_ns": None if launch is None else int(launch[1] * US),
        **more,
    }


def call(name: str, start: float, end: float, thread: int = 0) -> dict[str, Any]:
    return {"name": name, "ts_ns": int(start * US), "dur_ns": int((end - start) * US), "thread": thread}


def gaps(
    kernels: list[dict[str, Any]], calls: list[dict[str, Any]] | None = None, **more: Any
) -> pd.DataFrame:
    """The gaps of one step that spans all kernels of stream 7."""
    frame = pd.DataFrame(kernels).astype({"launch_ts_ns": "Int64", "launch_end_ns": "Int64"})
    main = frame[frame["stream"] == 7]
    start, end = main["ts_ns"].min(), (main["ts_ns"] + main["dur_ns"]).max()
    steps = pd.DataFrame(
        {"step_id": [3], "device": [0], "ts_ns": [start], "dur_ns": [end - start], "n_kernels": [len(main)]}
    )
    host = pd.DataFrame(calls or [], columns=["name", "ts_ns", "dur_ns", "thread"])
    return find_gaps(frame, steps, host, **more)


def only(frame: pd.DataFrame) -> tuple[float, float, str]:
    """Start, length and cause of the one gap."""
    assert len(frame) == 1
    row = frame.iloc[0]
    return row["ts_ns"] / US, row["dur_ns"] / US, row["cause"]


def test_a_launch_after_the_device_drained_is_the_hosts() -> None:
    found = gaps([kernel(10, 20, (0, 5)), kernel(50, 60, (40, 45))])
    assert only(found) == (20, 30, "host")
    assert found["evidence"].iloc[0] == "launched 25 us after the device drained"


def test_host_time_recorded_with_stacks_says_so() -> None:
    info = CaptureInfo("x", "kineto", options=frozenset({"with_stack"}))
    found = gaps([kernel(10, 20, (0, 5)), kernel(50, 60, (40, 45))], info=info)
    assert "Python stacks" in found["evidence"].iloc[0]


def test_a_launch_while_the_device_was_busy_is_a_dependency() -> None:
    found = gaps([kernel(10, 20, (0, 5)), kernel(22, 30, (6, 8))])
    assert only(found) == (20, 2, "dependency")
    assert found["evidence"].iloc[0] == "queued 12 us before; the device took this long to start it"


def test_a_wait_for_another_stream_is_a_dependency() -> None:
    found = gaps([kernel(10, 20, (0, 5), stream=9), kernel(9, 19, (0, 4)), kernel(25, 30, (6, 8))])
    assert only(found) == (20, 5, "dependency")
    assert "another stream" in found["evidence"].iloc[0]


def test_nodes_of_one_replay_wait_for_each_other_whenever_the_launch_call_returned() -> None:
    node = {"from_graph": True, "correlation": 11}
    assert only(gaps([kernel(10, 20, (0, 30), **node), kernel(22, 30, (0, 30), **node)])) == (
        20,
        2,
        "dependency",
    )


def test_two_replays_apart_by_a_late_launch_are_the_hosts() -> None:
    first, second = {"from_graph": True, "correlation": 1}, {"from_graph": True, "correlation": 2}
    assert only(gaps([kernel(10, 20, (0, 5), **first), kernel(50, 60, (40, 48), **second)]))[2] == "host"


def test_a_synchronise_that_ends_after_the_device_drained_is_the_cause() -> None:
    found = gaps(
        [kernel(10, 20, (0, 5)), kernel(50, 60, (40, 45))],
        [call("cudaStreamSynchronize", 6, 22)],
    )
    assert only(found) == (20, 30, "sync")
    assert "cudaStreamSynchronize" in found["evidence"].iloc[0]


def test_the_copy_to_the_host_before_a_synchronise_is_named() -> None:
    copy = kernel(18, 20, (4, 5), kind="memcpy", name="Memcpy DtoH (Device -> Pageable)")
    found = gaps(
        [kernel(10, 18, (0, 3)), copy, kernel(50, 60, (40, 45))], [call("cudaStreamSynchronize", 6, 22)]
    )
    assert "after a copy to the host" in found["evidence"].iloc[0]


@pytest.mark.parametrize(
    ("sync", "why"),
    [
        (call("cudaStreamSynchronize", 6, 15), "ended before the device drained"),
        (call("cudaStreamSynchronize", 6, 22, thread=1), "another thread's"),
        (call("cudaMemcpyAsync", 6, 22), "does not wait"),
        (call("cudaDeviceSynchronize", 46, 49), "after the launch"),
    ],
)
def test_other_synchronisations_are_not_the_cause(sync: dict[str, Any], why: str) -> None:
    assert only(gaps([kernel(10, 20, (0, 5)), kernel(50, 60, (40, 45))], [sync]))[2] == "host", why


def test_long_host_work_after_a_synchronise_is_the_hosts() -> None:
    assert (
        only(
            gaps(
                [kernel(10, 20, (0, 5)), kernel(900, 960, (800, 805))], [call("cudaStreamSynchronize", 6, 22)]
            )
        )[2]
        == "host"
    )


def test_a_queued_collective_is_communication() -> None:
    found = gaps([kernel(10, 20, (0, 5)), kernel(24, 30, (6, 8), family="comm.nccl")])
    assert only(found)[2] == "communication"


def test_a_buffer_flush_is_the_profilers() -> None:
    found = gaps([kernel(10, 20, (0, 5)), kernel(50, 60, (40, 45))], [call("Activity Buffer Flush", 21, 40)])
    assert only(found)[2] == "profiler"


def test_without_a_launch_record_the_cause_is_unknown() -> None:
    assert only(gaps([kernel(10, 20, (0, 5)), kernel(50, 60, None)]))[2] == "unknown"


def test_work_of_another_stream_is_not_idle() -> None:
    assert gaps([kernel(10, 20, (0, 5)), kernel(15, 45, (0, 5), stream=9), kernel(45, 60, (40, 44))]).empty


def test_a_lone_early_kernel_of_another_stream_opens_no_gap() -> None:
    assert gaps(
        [kernel(0, 1, (0, 0.5), stream=2), kernel(400, 410, (300, 301)), kernel(410, 420, (302, 303))]
    ).empty


def test_gaps_and_busy_time_add_up_to_the_window() -> None:
    rows = [
        kernel(0, 10, (0, 1)),
        kernel(5, 12, (0, 1), stream=9),
        kernel(15, 20, (13, 14)),
        kernel(21, 30, (13, 14)),
    ]
    assert gaps(rows)["dur_ns"].sum() == (30 - (12 + 5 + 9)) * US


def test_steps_without_kernels_and_host_ops_have_no_gaps() -> None:
    op = kernel(0, 10, None, kind="cpu_op")
    frame = pd.DataFrame([op, {**op, "ts_ns": 50_000}])
    steps = pd.DataFrame({"step_id": [0], "ts_ns": [0], "dur_ns": [60_000], "n_kernels": [0]})
    calls = pd.DataFrame(columns=["name", "ts_ns", "dur_ns", "thread"])
    assert find_gaps(frame, steps, calls).empty
    assert list(find_gaps(frame, steps, calls).columns) == GAPS.names


def test_each_device_has_its_own_gaps() -> None:
    rows = [kernel(0, 10, (0, 1)), kernel(20, 30, (15, 16)), kernel(5, 30, (0, 1), device=1)]
    assert list(gaps(rows)["device"]) == [0]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.integers(1, 40), st.sampled_from([7, 9])), min_size=1, max_size=25
    )
)
def test_gaps_partition_the_idle_time_of_any_timeline(spans: list[tuple[int, int, int]]) -> None:
    rows = [kernel(start, start + length, (start, start), stream=stream) for start, length, stream in spans]
    rows.append(kernel(0, 1, (0, 0)))
    main = [row for row in rows if row["stream"] == 7]
    low = min(row["ts_ns"] for row in main) // US
    high = max(row["ts_ns"] + row["dur_ns"] for row in main) // US
    busy = {t for row in rows for t in range(row["ts_ns"] // US, (row["ts_ns"] + row["dur_ns"]) // US)}
    assert gaps(rows)["dur_ns"].sum() == US * len(set(range(low, high)) - busy)
