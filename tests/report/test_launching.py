"""How far the host runs ahead, by phase."""

from typing import Any

import pandas as pd
import pytest

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
