"""Ranks: what each device's time goes into, and who waits for whom."""

from collections.abc import Callable
from typing import Any

import pytest

from tracekit.report import Result
from tracekit.report.html.ranks import rank_figures, ranks

Make = Callable[..., Result]


def two(make_result: Make) -> Result:
    """Rank 0 reaches the all-reduce at 100 ns and waits until rank 1 is there at 300; both leave at 400."""
    comm = {"name": "ncclAllReduce", "family": "comm.allreduce", "bottleneck": "communication"}
    rows: list[dict[str, Any]] = [
        {"rank": 0, "name": "mm", "ts_ns": 0, "dur_ns": 100},
        {"rank": 0, "ts_ns": 100, "dur_ns": 300, **comm},
        {"rank": 1, "device": 1, "name": "mm", "ts_ns": 0, "dur_ns": 300},
        {"rank": 1, "device": 1, "ts_ns": 300, "dur_ns": 100, **comm},
    ]
    steps = [
        {"rank": 0, "phase": "decode", "ts_ns": 0, "dur_ns": 500},
        {"rank": 1, "phase": "decode", "device": 1, "ts_ns": 0, "dur_ns": 500},
    ]
    gaps = [{"rank": 0, "step_id": 0, "ts_ns": 400, "dur_ns": 50, "cause": "host"}]
    return make_result(rows, steps, gaps)


def test_a_ranks_time_is_divided_and_waiting_is_told_from_transfer(make_result: Make) -> None:
    first, second = ranks(two(make_result))
    parts = ("time", "communication", "waiting", "copies", "idle")
    assert [first[name] for name in parts] == [400, 300, 200, 0, 50]
    assert [second[name] for name in parts] == [400, 100, 0, 0, 0]
    assert (first["rank"], first["share"]) == ("0", 0.75)


def test_the_chart_says_who_is_waited_for_and_that_the_work_is_uneven(make_result: Make) -> None:
    (figure,) = rank_figures(ranks(two(make_result)))
    assert figure.reading == (
        "Communication holds 50.0 % of the kernel time of 2 devices, 50.0 % of it waiting for peers; rank 1 device 1 "
        "waits least, so it is the one that the others wait for; other kernels take between 100 ns and 300 ns: the "
        "work is uneven."
    )
    bars = figure.spec["layer"][0]["data"]["values"]
    assert sum(bar["ms"] for bar in bars) == pytest.approx((400 + 50 + 400) / 1e6)


def test_one_rank_is_a_sentence_and_no_chart(make_result: Make) -> None:
    rows = ranks(make_result([{"name": "mm", "ts_ns": 0, "dur_ns": 100}]))
    assert list(rank_figures(rows)) == []
    assert rows[0]["waiting"] is None
