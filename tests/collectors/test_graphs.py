"""Decode steps as CUDA graphs, with a stand-in for torch.cuda that records a capture and repeats it."""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from collectortools import Recorder, quick_collect
from tracebuilder import TraceBuilder

import tracekit
from tracekit.errors import UnsupportedError
from tracekit.formats import (
    DONOR_TRACE,
    SHAPES_TRACE,
    TIMING_TRACE,
    CollectRequest,
    RequestSums,
    RunManifest,
    Workload,
    step_annotation,
)
from tracekit.models import ModelConfig

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.torch

CONFIG = ModelConfig("t", layers=2, hidden=16, intermediate=32, heads=4, kv_heads=2, head_dim=8, vocab=64)
WORKLOAD = Workload(
    model="t", dtype="fp32", kv_dtype="fp32", phases=("prefill", "decode"), batch=2, prompt_len=8, kv_len=12,
    decode_steps=3, warmup=1, repeats=2, seed=5, device="cpu", attention="sdpa",
)  # fmt: skip


class StandIn:
    """torch.cuda as far as a capture needs it: what runs inside `graph` is not computed, only repeated by `replay`."""

    def __init__(self, forward: Any, *, refuses: bool = False) -> None:
        self.forward = forward
        self.refuses = refuses
        self.capturing: Any = None
        self.pools: list[Any] = []

    def run(self, tokens: Any, inputs: Any) -> Any:
        """The model, as the code under test calls it."""
        if self.capturing is None:
            return self.forward(tokens, inputs)
        # Memory is given and nothing is written to it: a number that no vocabulary has.
        out = torch.full((inputs.groups[0].requests,), 10**9)
        self.capturing.work = lambda: out.copy_(self.forward(tokens, inputs))
        return out

    def CUDAGraph(self) -> Any:  # noqa: N802 - torch's name
        class Graph:
            work: Any = None

            def replay(self) -> None:
                self.work()

            def pool(self) -> str:
                return "pool of the first"

        return Graph()

    @contextmanager
    def graph(self, graph: Any, pool: Any = None) -> Any:
        if self.refuses:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore of it")
        self.pools.append(pool)
        self.capturing = graph
        yield
        self.capturing = None

    def Stream(self) -> Any:  # noqa: N802 - torch's name
        class Stream:
            def wait_stream(self, _other: Any) -> None: ...

        return Stream()

    def current_stream(self) -> Any:
        return self.Stream()

    @contextmanager
    def stream(self, _stream: Any) -> Any:
        yield


def captured(runner: Any, *, refuses: bool = False) -> tuple[Any, StandIn]:
    from collectors import graphs  # noqa: PLC0415 - needs torch, which may be absent

    cuda = StandIn(runner.model.forward, refuses=refuses)
    steps = [(step.tokens, step.inputs) for step in runner.plan["decode"]]
    with torch.inference_mode():
        return graphs.capture(cuda.run, steps, lambda: None, cuda), cuda


@pytest.fixture
def runner() -> Any:
    from collectors.workload import Runner  # noqa: PLC0415 - as above

    return Runner(CONFIG, WORKLOAD, torch.device("cpu"))


def test_replays_choose_what_eager_steps_choose(runner: Any) -> None:
    eager, chosen = [], None
    with torch.inference_mode():
        for step in runner.plan["decode"]:
            chosen = runner.forward("decode", step, chosen)
            eager.append(chosen.tolist())
        replays, cuda = captured(runner)
        for _ in range(2):
            assert [replay.run().tolist() for replay in replays] == eager
    assert cuda.pools == [None, "pool of the first", "pool of the first"]


def test_a_pass_replays_decode_alone_unless_it_is_eager(runner: Any) -> None:
    runner.replays, _ = captured(runner)
    calls: list[int] = []
    counted = tuple(replace(replay, graph=_Counting(replay.graph, calls)) for replay in runner.replays)
    runner.replays = counted
    assert [timed.phase for timed in runner.run()] == ["prefill", "decode"] * 2
    assert len(calls) == 2 * 3
    timed = runner.run(phases=("decode",), repeats=1, eager=True)
    assert [(part.phase, part.steps, part.tokens) for part in timed] == [("decode", 3, 6)]
    assert len(calls) == 2 * 3
    assert "3 decode steps replay a CUDA graph each" in runner.notes[0]


class _Counting:
    def __init__(self, graph: Any, calls: list[int]) -> None:
        self.graph = graph
        self.calls = calls

    def replay(self) -> None:
        self.calls.append(1)
        self.graph.replay()


def test_a_step_that_no_graph_can_hold_is_one_line(runner: Any) -> None:
    with pytest.raises(UnsupportedError, match="cannot be captured as a CUDA graph: CUDA error") as caught:
        captured(runner, refuses=True)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("device", "experts", "decodes", "says"),
    [
        ("cpu", False, True, "needs a CUDA device"),
        ("cuda", True, True, "mixture of experts"),
        ("cuda", False, False, "replays decode steps, and --phase has none"),
    ],
)
def test_what_cannot_be_captured_is_refused_before_any_work(
    device: str, experts: bool, decodes: bool, says: str
) -> None:
    from collectors.graphs import check_graphs  # noqa: PLC0415 - as above

    with pytest.raises(UnsupportedError, match=says):
        check_graphs(torch.device(device), experts=experts, decodes=decodes)


def test_the_command_refuses_graphs_on_a_cpu(tmp_path: Path) -> None:
    request = CollectRequest(tmp_path / "run", device="cpu", cuda_graphs=True)
    with pytest.raises(UnsupportedError, match="--cuda-graphs needs a CUDA device"):
        quick_collect()(request, Recorder())
    assert not (tmp_path / "run" / "run.json").exists()


GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
NORM = "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>()"
STEP = step_annotation(RequestSums(), RequestSums.of([(1, 25)]))


def test_the_eager_donor_pass_lends_replayed_kernels_their_work(tmp_path: Path) -> None:
    """A folder as a graph run leaves it: replays without ops, and the same kernels from ops with sizes."""
    timing = TraceBuilder().annotation(STEP, 0, 100)
    replay = timing.launch(5, 5, name="cudaGraphLaunch")
    for at, name in zip(range(20, 100, 10), (NORM, GEMM) * 4, strict=True):
        timing.kernel(name, at, 8, replay)
    donor = TraceBuilder().annotation(STEP, 0, 800)
    for n, name in enumerate((NORM, GEMM) * 4):
        at = 10 + 80 * n
        sizes = [[1, 512], [512, 1024]] if name == GEMM else [[1, 512], [512]]
        op = "aten::mm" if name == GEMM else "aten::rms_norm"
        donor.op(op, at, 50, dims=sizes, types=["c10::BFloat16"] * 2).launched(name, at + 5, at + 20, 8)
    timing.write(tmp_path / TIMING_TRACE)
    donor.write(tmp_path / SHAPES_TRACE)
    donor.write(tmp_path / DONOR_TRACE)
    workload = replace(WORKLOAD, device="cuda", cuda_graphs=True)
    RunManifest(workload, CONFIG.to_json(), 1, 1, 1, {}, {}, "tracekit collect").write(tmp_path)
    kernels = tracekit.analyze([str(tmp_path)]).kernels
    products = kernels[kernels["name"] == GEMM]
    assert products["flops"].tolist() == [2 * 512 * 1024] * 4
    assert set(products["flops_source"].astype(str)) == {"donor"}


@pytest.mark.gpu
def test_a_graph_run_on_a_gpu_knows_its_work(tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA GPU")
    request = CollectRequest(
        tmp_path / "run", models=("Qwen3-0.6B",), layers=2, device="cuda", cuda_graphs=True, decode_steps=4
    )
    quick_collect()(request, Recorder())
    found = tracekit.analyze([str(request.output)])
    decode = found.kernels[found.kernels["phase"] == "decode"]
    assert decode["from_graph"].all()
    known = decode.loc[decode["flops_source"].notna(), "dur_ns"].sum() / decode["dur_ns"].sum()
    assert known >= 0.95
