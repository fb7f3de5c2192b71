"""torch.compile on a CPU: what it needs, what it says of itself, and what a report reads of it."""

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from collectortools import Recorder, quick_collect

import tracekit
from tracekit.errors import UnsupportedError
from tracekit.formats import CollectRequest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.torch

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None or not os.environ.get("TRACEKIT_SLOW"),
    reason="a C++ compiler, and minutes where cores are shared: set TRACEKIT_SLOW=1",
)


@pytest.fixture
def request_(tiny_config: Path, tmp_path: Path) -> CollectRequest:
    return CollectRequest(
        tmp_path / "run", models=(str(tiny_config),), layers=1, prompt_lens=(8,), kv_lens=(24,), decode_steps=3,
        repeats=2, device="cpu", threads=1,
    )  # fmt: skip


@pytest.mark.parametrize("change", [{"compile": True}, {"attention": "flex"}])
def test_without_a_compiler_it_is_refused_before_any_work(
    request_: CollectRequest, change: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UnsupportedError, match="needs a C\\+\\+ compiler on a CPU") as caught:
        quick_collect()(replace(request_, **change), Recorder())  # type: ignore[arg-type]  # fields by name
    assert "CXX" in caught.value.hint
    assert not (request_.output / "run.json").exists()


def test_without_triton_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from collectors.compiling import check_compiler  # noqa: PLC0415 - needs torch, which may be absent

    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr("collectors.compiling.find_spec", lambda _name: None)
    with pytest.raises(UnsupportedError, match="--compile needs Triton"):
        check_compiler("--compile", torch.device("cuda"))


@pytest.mark.slow
@needs_compiler
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # TorchInductor's own imports
def test_a_compiled_run_is_compiled_in_its_warm_up_and_its_kernels_are_named(
    request_: CollectRequest,
) -> None:
    (outcome,) = quick_collect()(replace(request_, phases=("decode",), compile=True), Recorder())
    (said,) = [note for note in outcome.manifest.notes if note.startswith("compiled:")]
    assert "no graph break" in said
    assert "while times were taken" not in said
    assert outcome.manifest.command.endswith("--compile")
    kernels = tracekit.analyze([str(request_.output)]).kernels
    generated = kernels[kernels["name"].astype(str).str.contains("cpp_fused")]
    assert {"norm", "act"} <= set(generated["family"].astype(str))
    assert "other" not in set(generated["family"].astype(str))
    products = kernels[kernels["family"] == "gemm"]
    assert products["flops"].notna().all()
