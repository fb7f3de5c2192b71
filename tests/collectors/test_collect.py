"""A tiny model, collected end to end on the CPU."""

import gzip
import json
import re
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from collectortools import Collect, Recorder, quick_collect

from tracekit.errors import CaptureError, UnsupportedError
from tracekit.formats import (
    CEILINGS,
    INDEX,
    RUN,
    SHAPES_TRACE,
    TIMING_TRACE,
    CollectRequest,
    FileRecord,
    MeasuredCeilings,
    RunManifest,
)

pytestmark = pytest.mark.torch

PREFILL = "execute_16_context_1(sq16sk16sqsq256sqsk256)_generation_0(sq0sk0sqsq0sqsk0)"
DECODE = [
    f"execute_1_context_0(sq0sk0sqsq0sqsk0)_generation_1(sq1sk{keys}sqsq1sqsk{keys})" for keys in (25, 26, 27)
]


@dataclass(frozen=True)
class Captured:
    folder: Path
    outcome: Any
    progress: Recorder


def tiny_request(config: Path, output: Path) -> CollectRequest:
    """A prompt of 16 tokens, then three decode steps on 24 cached ones, twice over."""
    return CollectRequest(
        output=output,
        models=(str(config),),
        prompt_lens=(16,),
        kv_lens=(24,),
        decode_steps=3,
        warmup=1,
        repeats=2,
        device="cpu",
    )


@pytest.fixture
def request_(tmp_path: Path, tiny_config: Path) -> CollectRequest:
    return tiny_request(tiny_config, tmp_path / "run")


@pytest.fixture
def collect() -> Collect:
    return quick_collect()


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory, tiny_config: Path) -> Captured:
    """One capture for all tests that only read it."""
    request = tiny_request(tiny_config, tmp_path_factory.mktemp("captured") / "run")
    progress = Recorder()
    (outcome,) = quick_collect()(request, progress)
    return Captured(request.output, outcome, progress)


def events(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    return found


def annotations(file: Path) -> list[str]:
    return [event["name"] for event in events(file) if event.get("cat") == "user_annotation"]


def test_a_capture_folder_holds_two_passes_of_the_same_steps(captured: Captured) -> None:
    folder = captured.folder
    assert {entry.name for entry in folder.iterdir()} == {RUN, CEILINGS, TIMING_TRACE, SHAPES_TRACE}
    assert annotations(folder / TIMING_TRACE) == [PREFILL, *DECODE] * 2
    assert annotations(folder / SHAPES_TRACE) == [PREFILL, *DECODE] * 2
    assert captured.outcome.manifest == RunManifest.read(folder)


def test_only_the_shape_pass_has_shapes(captured: Captured) -> None:

    def shapes(name: str) -> list[Any]:
        found = [event for event in events(captured.folder / name) if event["name"] == "aten::mm"]
        return [event["args"].get("Input Dims") for event in found]

    assert set(map(str, shapes(TIMING_TRACE))) == {"None"}
    # Fused QKV of a prompt: [16, 32] x [32, (4 + 2 * 2) * 8].
    assert [[16, 32], [32, 64]] in shapes(SHAPES_TRACE)


def test_both_passes_call_the_same_ops(captured: Captured) -> None:
    timing, shapes = (
        [event["name"] for event in events(captured.folder / name) if event.get("cat") == "cpu_op"]
        for name in (TIMING_TRACE, SHAPES_TRACE)
    )
    assert timing == shapes


def test_nothing_names_the_host_or_a_folder(captured: Captured) -> None:
    for file in captured.folder.iterdir():
        raw = file.read_bytes()
        text = (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode()
        assert str(captured.folder) not in text
        assert not re.search(rf'"{re.escape(socket.gethostname())}"', text)
        assert set(re.findall(r'"(?:host_name|username|traceName)"\s*:\s*("[^"]*")', text)) <= {'""'}
        assert text.isascii()


def test_the_trace_says_what_made_it(captured: Captured) -> None:
    document = json.loads(gzip.decompress((captured.folder / TIMING_TRACE).read_bytes()))
    assert document["tracekit"].items() >= {"pass": "timing", "kv_len": 24}.items()


def test_the_manifest_says_what_ran(captured: Captured) -> None:
    manifest = RunManifest.read(captured.folder)
    # Two layers of 32*64 + 32*32 + 3*32*64 + 2*32, the last norm, embedding and head: counted by hand.
    assert manifest.parameters == 2 * (2048 + 1024 + 6144 + 64) + 32 + 2 * 96 * 32
    assert manifest.weight_bytes == 4 * manifest.parameters
    assert manifest.kv_bytes_per_token == 2 * 2 * 2 * 8 * 4
    assert [rate.test for rate in manifest.rates] == ["pp16", "tg3@d24"]
    assert all(rate.step_ns > 0 and rate.tokens_per_s > 0 for rate in manifest.rates)
    assert manifest.workload.dtype == "fp32"
    assert manifest.command.startswith("tracekit collect --model tiny-llama")


def test_ceilings_are_positive(captured: Captured) -> None:
    found = MeasuredCeilings.read(captured.folder)
    assert set(found.flops_per_s()) == {"fp32"}
    assert found.flops_per_s()["fp32"] > 0
    assert found.launch_overhead_ns > 0
    assert found.device["kind"] == "cpu"


def test_progress_reaches_its_totals(captured: Captured) -> None:
    last = dict(captured.progress.tasks)
    assert {
        "weights and caches",
        "warm-up",
        "run without a profiler",
        "timing pass",
        "shapes pass",
    } <= last.keys()
    assert last["timing pass"] == captured.progress.done["timing pass"] == 8


def test_a_mixed_step_has_both_sides(collect: Collect, progress: Recorder, request_: CollectRequest) -> None:
    collect(replace(request_, phases=("mixed",), batches=(2,), repeats=1), progress)
    first = annotations(request_.output / TIMING_TRACE)[0]
    assert first == "execute_18_context_1(sq16sk16sqsq256sqsk256)_generation_2(sq2sk50sqsq2sqsk50)"


def test_lists_make_a_sweep_that_goes_on_where_it_stopped(
    collect: Collect, progress: Recorder, request_: CollectRequest
) -> None:
    sweep = replace(request_, batches=(1, 2), prompt_lens=(8, 16))
    outcomes = collect(sweep, progress)
    names = [outcome.folder.name for outcome in outcomes]
    assert names == [f"tiny-llama_fp32_b{b}_pp{p}_kv24" for b in (1, 2) for p in (8, 16)]
    (request_.output / names[2] / RUN).unlink()
    again = collect(sweep, progress)
    assert [outcome.resumed for outcome in again] == [True, True, False, True]
    index = json.loads((request_.output / INDEX).read_text())
    assert [entry["folder"] for entry in index["captures"]] == names
    assert index["captures"][1]["rates"][0]["test"] == "pp16"


def test_a_capture_of_a_sweep_that_fails_leaves_the_others(
    collect: Collect, progress: Recorder, request_: CollectRequest
) -> None:
    outcomes = collect(replace(request_, kv_lens=(24, 10**12)), progress)
    assert outcomes[0].manifest is not None
    assert "needs" in outcomes[1].error.message


def test_what_does_not_fit_is_refused_with_what_would(
    collect: Collect, progress: Recorder, request_: CollectRequest
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        collect(replace(request_, models=("Llama-3.1-405B",), layers=126), progress)
    assert "needs 1623." in caught.value.message  # 405.853e9 parameters of 4 bytes
    assert re.search(r"--layers \d+ would fit|even the weights of one layer", caught.value.hint)
    assert not (request_.output / RUN).exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"models": ("llama-9",)}, "no model preset"),
        ({"layers": 3}, "has 2 layers, not 3"),
        ({"device": "tpu"}, "device 'tpu'"),
        ({"dtypes": ("fp7",)}, "--dtype 'fp7'"),
        ({"phases": ("training",)}, "--phase 'training'"),
        ({"attention": "linear"}, "--attention 'linear'"),
        ({"batches": (0,)}, "--batch must be at least 1"),
        ({"kv_lens": (0,)}, "--kv-len must be at least 1"),
        ({"tensor_parallel": 3}, "3 tensor-parallel ranks"),
    ],
)
def test_what_cannot_run_is_refused(
    collect: Collect, progress: Recorder, request_: CollectRequest, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(says)):
        collect(replace(request_, **change), progress)


def test_a_file_in_the_place_of_the_folder_is_refused(
    collect: Collect, progress: Recorder, request_: CollectRequest
) -> None:
    request_.output.write_text("mine")
    with pytest.raises(CaptureError, match="cannot be written"):
        collect(request_, progress)
    assert request_.output.read_text() == "mine"


def test_a_folder_of_other_things_is_left_alone(
    collect: Collect, progress: Recorder, request_: CollectRequest
) -> None:
    request_.output.mkdir()
    (request_.output / "thesis.tex").touch()
    with pytest.raises(CaptureError, match="is not empty"):
        collect(request_, progress)


def test_a_capture_is_collected_over_an_earlier_one(
    collect: Collect, progress: Recorder, request_: CollectRequest
) -> None:
    collect(request_, progress)
    (outcome,) = collect(replace(request_, prompt_lens=(8,)), progress)
    assert outcome.manifest.workload.prompt_len == 8


def test_nothing_of_an_earlier_capture_is_read_as_the_new_one(
    collect: Collect, progress: Recorder, request_: CollectRequest
) -> None:
    (outcome,) = collect(request_, progress)
    stale = [FileRecord("donor.trace.json.gz", "donor"), FileRecord("counters-dram.csv", "counters")]
    mine = request_.output / "counters-mine.csv"
    outside = request_.output.parent / "outside.csv"
    for path in (*(request_.output / record.name for record in stale), mine, outside):
        path.write_text("of another workload")
    files = (*outcome.manifest.files, *stale, FileRecord("../outside.csv", "counters"))
    replace(outcome.manifest, files=files).write(request_.output)
    collect(replace(request_, prompt_lens=(8,)), progress)
    assert not any((request_.output / record.name).exists() for record in stale)
    assert mine.exists()
    assert outside.exists()


@pytest.mark.parametrize(
    ("change", "cache", "heads"),
    [
        ({"kv_dtype": "bf16"}, 2 * 2 * 2 * 8 * 2, 4),
        ({"kv_dtype": "fp8"}, 2 * 2 * 2 * 8, 4),
        ({"tensor_parallel": 2}, 2 * 2 * 1 * 8 * 4, 2),
        ({"attention": "eager"}, 2 * 2 * 2 * 8 * 4, 4),
        ({"dtypes": ("fp64",)}, 2 * 2 * 2 * 8 * 8, 4),
    ],
    ids=["bf16 cache", "fp8 cache", "one rank of two", "eager attention", "fp64"],
)
def test_each_option_reaches_the_model(
    collect: Collect,
    progress: Recorder,
    request_: CollectRequest,
    change: dict[str, Any],
    cache: int,
    heads: int,
) -> None:
    (outcome,) = collect(replace(request_, repeats=1, warmup=0, **change), progress)
    assert outcome.manifest.kv_bytes_per_token == cache
    assert outcome.manifest.model["heads"] == heads
    assert annotations(request_.output / TIMING_TRACE) == [PREFILL, *DECODE]
