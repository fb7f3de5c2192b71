"""The engine collector against a real vLLM on the CPU; set TRACEKIT_VLLM_PYTHON to a Python that has vLLM."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from collectortools import Recorder

import tracekit
from collectors.engines.client import Client, ServerError
from collectors.engines.command import collect
from tracekit.errors import UnsupportedError
from tracekit.formats import EngineRequest

PYTHON = os.environ.get("TRACEKIT_VLLM_PYTHON")
READY_S = 180.0

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(PYTHON is None, reason="TRACEKIT_VLLM_PYTHON names no Python with vLLM"),
]

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 2048,
    "max_position_embeddings": 2048,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@contextmanager
def vllm(folder: Path, profiler: dict[str, object] | None) -> Iterator[str]:
    """A vLLM with random weights on a free port; gives its URL when it is ready."""
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(MODEL))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        *(
            str(PYTHON),
            "-m",
            "vllm.entrypoints.openai.api_server",
            "--model",
            str(model),
            "--load-format",
            "dummy",
        ),
        *(
            "--served-model-name",
            "tiny",
            "--skip-tokenizer-init",
            "--dtype",
            "float32",
            "--max-model-len",
            "2048",
        ),
        *("--max-num-seqs", "16", "--enforce-eager", "--host", "127.0.0.1", "--port", str(port)),
        *(() if profiler is None else ("--profiler-config", json.dumps(profiler))),
    ]
    environment = {
        **os.environ,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=environment)
        try:
            url = f"http://127.0.0.1:{port}"
            _until_ready(server, url, folder / "server.log")
            yield url
        finally:
            server.terminate()
            server.wait(60)


def _until_ready(server: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    client = Client(url, timeout_s=2.0)
    until = time.monotonic() + READY_S
    while time.monotonic() < until and server.poll() is None:
        try:
            client.get("/version")
        except ServerError:
            time.sleep(1.0)
        else:
            return
    pytest.fail(f"vLLM did not start:\n{log.read_text()[-3000:]}")


def request_to(url: str, folder: Path, traces: Path) -> EngineRequest:
    return EngineRequest(
        "vllm",
        url,
        folder / "run",
        trace_dir=traces,
        phases=("prefill", "decode", "mixed"),
        batch=3,
        prompt_len=150,
        kv_len=80,
        decode_steps=12,
        warmup=1,
        repeats=1,
    )


@pytest.mark.parametrize("stacks", [False, True], ids=["no-stacks", "stacks"])
@pytest.mark.parametrize("detailed", [False, True], ids=["plain", "detailed"])
def test_from_a_running_vllm_to_a_report_with_the_right_phases(
    tmp_path: Path, detailed: bool, stacks: bool
) -> None:
    traces = tmp_path / "traces"
    profiler = {
        "profiler": "torch",
        "torch_profiler_dir": str(traces),
        "torch_profiler_record_shapes": True,
        "torch_profiler_with_stack": stacks,
        "detailed_trace_annotation": detailed,
    }
    traces.mkdir()
    with vllm(tmp_path, profiler) as url:
        run = collect(request_to(url, tmp_path, traces), Recorder())
    assert [(file.rank, file.complete) for file in run.files] == [(0, True)]
    result = tracekit.analyze([str(tmp_path / "run")])
    steps = result.steps
    phases = steps["phase"].astype(str)
    context, generation = steps["context_requests"], steps["generation_requests"]
    # What the scheduler wrote into each step is what the step is called.
    assert phases[(context > 0) & (generation == 0)].eq("prefill").all()
    assert phases[(context == 0) & (generation > 0)].eq("decode").all()
    assert phases[(context > 0) & (generation > 0)].eq("mixed").all()
    assert phases[(context == 0) & (generation == 0)].eq("other").all()
    assert {"prefill", "decode", "mixed", "other"} == set(phases)
    assert (phases == "decode").sum() >= 12
    assert steps.loc[phases == "prefill", "context_tokens"].sum() == 3 * 150
    assert steps.loc[phases != "other", "sum_qk"].notna().all() == detailed
    assert result.summary["coverage"]["phase_known"] == pytest.approx(1.0, abs=0.01)


def test_a_vllm_without_profiling_gets_the_flag_that_turns_it_on(tmp_path: Path) -> None:
    with vllm(tmp_path, None) as url, pytest.raises(UnsupportedError) as caught:
        collect(request_to(url, tmp_path, tmp_path), Recorder())
    assert "--profiler-config" in caught.value.hint
