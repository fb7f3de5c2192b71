"""What a pass kept of its work: a part of it is asked for once more, then said."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from collectortools import Recorder, quick_collect

from tracekit.errors import CaptureError
from tracekit.formats import CollectRequest, RunManifest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.torch

STEP = "execute_1_context_0(sq0sk0sqsq0sqsk0)_generation_1(sq1sk25sqsq1sqsk25)"


@pytest.mark.parametrize(
    ("kept", "kernels", "device", "stopped", "says"),
    [
        (8, 0, "cpu", False, None),
        (8, 40, "cuda", False, None),
        (3, 0, "cpu", False, "the profiler kept 3 of 8 steps"),
        (8, 0, "cuda", False, "no kernel of the GPU was recorded"),
        (8, 40, "cuda", True, "the GPU's activity buffers overflowed: kernels of the last steps are missing"),
        (3, 0, "cuda", True, "the profiler kept 3 of 8 steps; no kernel of the GPU was recorded"),
    ],
)
def test_what_a_pass_lacks(kept: int, kernels: int, device: str, stopped: bool, says: str | None) -> None:
    from collectors.profiling import lacking  # noqa: PLC0415 - needs torch, which may be absent

    assert lacking(kept, 8, kernels, device, stopped=stopped) == says


def stepping(counts: list[int]) -> tuple[Callable[[], int], list[int]]:
    """Work that runs fewer annotated steps at its first calls, as a profiler that drops some would leave it."""
    calls: list[int] = []

    def work() -> int:
        calls.append(counts[min(len(calls), len(counts) - 1)])
        for _ in range(calls[-1]):
            with torch.profiler.record_function(STEP):
                torch.ones(4).add_(1.0)
        return len(calls)

    return work, calls


def record(work: Callable[[], int], target: Path) -> Any:
    from collectors import profiling  # noqa: PLC0415 - as above

    return profiling.record(work, torch.device("cpu"), shapes=False, target=target, run={}, steps=4)


@pytest.mark.parametrize(
    ("counts", "calls", "says"),
    [
        ([4], 1, None),
        ([2, 4], 2, None),
        ([2, 3], 2, "the profiler kept 3 of 4 steps"),
    ],
    ids=["whole", "whole at the second try", "a part, twice"],
)
def test_a_part_is_asked_for_once_more(
    counts: list[int], calls: int, says: str | None, tmp_path: Path
) -> None:
    work, seen = stepping(counts)
    recorded = record(work, tmp_path / "timing.trace.json.gz")
    assert (len(seen), recorded.result, recorded.lacking) == (calls, calls, says)
    assert (tmp_path / "timing.trace.json.gz").is_file()


def test_nothing_twice_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    work, seen = stepping([0])
    with pytest.raises(CaptureError, match="kept none of 4 steps, twice"):
        record(work, tmp_path / "timing.trace.json.gz")
    assert len(seen) == 2
    assert not list(tmp_path.iterdir())


def test_a_partial_pass_is_in_the_manifest_and_in_the_notes(
    tiny_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from collectors import profiling  # noqa: PLC0415 - as above

    real = profiling._clean

    def losing(exported: Path, target: Path) -> Any:
        kept = real(exported, target)
        return replace(kept, steps=kept.steps - 1) if target.name.startswith("shapes") else kept

    # The exporter's file is whole; what stands in is a profiler that lost a step of it.
    monkeypatch.setattr(profiling, "_clean", losing)
    request = CollectRequest(
        tmp_path / "run", models=(str(tiny_config),), prompt_lens=(8,), kv_lens=(8,), decode_steps=2,
        repeats=1, device="cpu",
    )  # fmt: skip
    (outcome,) = quick_collect()(request, Recorder())
    records = {record.name: record.partial for record in RunManifest.read(request.output).files}
    assert records["timing.trace.json.gz"] is None
    assert records["shapes.trace.json.gz"] == "the profiler kept 2 of 3 steps"
    assert any("shapes.trace.json.gz is only a part" in note for note in outcome.manifest.notes)
