"""How far the host runs ahead, by phase."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from tracekit.report import Result
from tracekit.report.html.queue import deepest_in_bins, queue_figures
from tracekit.report.launching import launch_rows


def row(ts: int, launch: float | None, done: float | None, **more: Any) -> dict[str, Any]:
    return {
        "phase": "decode", "rank": 0, "kind": "kernel", "ts_ns": ts, "launch_ts_ns": launch, "launch_end_ns": done,
        "correlation": launch, **more,
    }  # fmt: skip


def test_delays_and_waiting_launches_are_told_by_phase() -> None:
    found = launch_rows(
        pd.DataFrame(
            [
                row(10_000, 1_000, 6_000),
                row(40_000, 7_000, 9_000),
                row(90_000, 20_000, 22_000),
                row(200_000, 190_000, 195_000, phase="prefill"),
            ]
        )
    )
    decode = found["decode"]
    # 4 us, 31 us and 68 us after their calls; the third is launched while the second still waits.
    assert (decode.n, decode.delay_ns, decode.call_ns) == (3, 31_000, 2_000)
    assert decode.queued == pytest.approx(2 / 3)
    assert decode.deepest == 2
    assert (found["prefill"].deepest, found["prefill"].queued) == (1, 0.0)


def test_a_replay_is_one_launch_however_many_kernels_it_has() -> None:
    kernels = [row(10_000 + 1_000 * at, 1_000, 2_000, correlation=7) for at in range(50)]
    found = launch_rows(pd.DataFrame(kernels))["decode"]
    assert (found.n, found.deepest) == (1, 1)


def test_without_launch_records_there_is_nothing_to_tell() -> None:
    assert launch_rows(pd.DataFrame([row(10, None, None)])) == {}


def test_the_deepest_queue_of_each_span_of_time_is_kept() -> None:
    depth = pd.DataFrame({"ts_ns": [0, 10, 20, 25, 70, 100], "depth": [1, 3, 0, 2, 1, 0]})
    starts, most = deepest_in_bins(depth, 4)
    # From 0, 25, 50 and 75: what was waiting when a span begins counts in it.
    assert list(starts) == [0, 25, 50, 75]
    assert list(most) == [3, 2, 2, 1]


def test_a_chart_shows_how_far_the_host_runs_ahead(make_result: Callable[..., Result]) -> None:
    kernels = [
        {"name": "a", "phase": "decode", "ts_ns": at, "dur_ns": 10, "launch_ts_ns": launch, "rank": rank}
        for rank in (0, 1)
        for at, launch in ((100, 50), (150, 60), (300, 280))
    ]
    made = make_result(kernels, [{"phase": "decode", "ts_ns": 40, "dur_ns": 400}])
    result = replace(made, all_kernels=made.all_kernels.assign(correlation=[1, 2, 3, 1, 2, 3]))
    (figure,) = queue_figures(result)
    # One waits from 50 on, two from 60 to 100, one until 150, another from 280 to 300: of 400 ns none for 280.
    assert figure.reading.startswith("At most 2 launches wait at once; for 70.0 % of the time none does")
    values = figure.spec["layer"][0]["data"]["values"]
    assert {value["rank"] for value in values} == {"rank 0", "rank 1"}
    assert max(value["depth"] for value in values) == 2
    assert values[0]["start"] == 0.0


def test_without_launches_no_chart_is_drawn(make_result: Callable[..., Result]) -> None:
    kernels = [{"name": "a", "phase": "decode", "ts_ns": 0, "dur_ns": 10, "launch_ts_ns": None}]
    assert not list(queue_figures(make_result(kernels, [{"phase": "decode", "ts_ns": 0, "dur_ns": 10}])))
