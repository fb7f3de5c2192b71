"""Ramp-up left out on request, and ranks read off file names."""

from pathlib import Path

import pytest
from tracebuilder import TraceBuilder

import tracekit


def step(trace: TraceBuilder, at: float, batch: int) -> None:
    trace.annotation(f"execute_context_0(0)_generation_{batch}({batch})", at, 50)
    trace.launched(f"kernel at batch {batch}", at + 5, at + 20, 10)


@pytest.fixture
def ramp(tmp_path: Path) -> str:
    trace = TraceBuilder()
    for number, batch in enumerate((1, 4, 8, 8, 8)):
        step(trace, number * 100, batch)
    return trace.write(tmp_path / "ramp.json")


def test_steady_leaves_out_decode_steps_below_the_median_batch(ramp: str) -> None:
    whole = tracekit.analyze([ramp])
    kept = tracekit.analyze([ramp], tracekit.Options(steady=True))
    assert whole.steps["generation_requests"].tolist() == [1, 4, 8, 8, 8]
    assert kept.steps["generation_requests"].tolist() == [8, 8, 8]
    assert set(kept.kernels["name"]) == {"kernel at batch 8"}
    noted = kept.quality.set_index("code").loc["ramp_up"]
    assert (noted["count"], noted["time_ns"]) == (2, 20_000)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("dp0_pp0_tp3_dcp0_ep3_rank3.1780000000000000000.pt.trace.json", 3),
        ("1780000000.5-TP-2-DECODE.trace.json", 2),
        ("trace.json", None),
    ],
)
def test_the_rank_is_read_off_the_file_name(name: str, rank: int | None, tmp_path: Path) -> None:
    trace = TraceBuilder()
    step(trace, 0, 4)
    result = tracekit.analyze([trace.write(tmp_path / name)])
    assert result.kernels["rank"].dropna().tolist() == ([] if rank is None else [rank])
    evidence = result.summary["captures"][0]["evidence"]
    assert (f"rank{rank}" in evidence) == (rank is not None)
