"""Collect, then report: for each kind of attention and MLP nearly all of the time has a phase, a family and work."""

import json
from dataclasses import replace

import pytest
from collectortools import Recorder, quick_collect

import tracekit
from tracekit.formats import CollectRequest
from tracekit.models import Latent, ModelConfig, preset

pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.torch

LEAST = 0.95


def small(name: str, **changes: object) -> ModelConfig:
    """A preset's kind of model at dimensions that run in a second."""
    config = preset(name)
    heads = 8
    dims = {
        "layers": 2,
        "hidden": 256,
        "intermediate": 704 if config.intermediate else 0,
        "heads": heads,
        "kv_heads": max(1, heads * config.kv_heads // config.heads),
        "head_dim": 32,
        "vocab": 2048,
        "expert_intermediate": 192 if config.experts else 0,
        "experts": min(config.experts, 8),
        "experts_per_token": min(config.experts_per_token, 2),
        "first_dense": min(config.first_dense, 1),
        "windowed": config.windowed[:2],
        "params_total": None,
    }
    return replace(config, **{**dims, **changes})  # type: ignore[arg-type]  # fields by name


MODELS = {
    "dense": small("Llama-2-7B"),
    "grouped queries": small("Llama-3.1-8B"),
    "queries and keys normed": small("Qwen3-8B"),
    "experts": small("Qwen3-30B-A3B"),
    "latent": small("DeepSeek-V3", kv_heads=8, head_dim=48, latent=Latent(96, 64, 32, 16, 32)),
    "sliding window": replace(small("Mistral-7B-v0.3"), sliding_window=48, windowed=(True, True)),
    "sinks and windows": small("gpt-oss-20b"),
}


@pytest.fixture(scope="module", params=MODELS, ids=[*MODELS])
def summary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    from collectors.huggingface import document_of  # noqa: PLC0415 - needs torch, which may be absent

    folder = tmp_path_factory.mktemp("coverage")
    (folder / "config.json").write_text(json.dumps(document_of(MODELS[request.param])))
    asked = CollectRequest(
        folder / "run", models=(str(folder / "config.json"),), device="cpu", prompt_lens=(96,), kv_lens=(96,),
        decode_steps=3, repeats=1, threads=1, phases=("prefill", "decode", "mixed"),
    )  # fmt: skip
    quick_collect()(asked, Recorder())
    return tracekit.analyze([str(asked.output)]).summary


def test_nearly_all_of_the_time_is_labelled_and_modelled(summary: dict[str, dict[str, float]]) -> None:
    coverage = summary["coverage"]
    assert coverage["phase_known"] == 1.0
    assert coverage["work_known"] >= LEAST
    assert coverage["linked"] == 1.0


def test_nearly_all_of_the_time_has_a_family(summary: dict[str, list[dict[str, float]]]) -> None:
    rows = summary["families"]
    unnamed = sum(row["time_ns"] for row in rows if row["family"] == "other")
    assert unnamed <= (1 - LEAST) * sum(row["time_ns"] for row in rows)


def test_each_phase_knows_its_work(summary: dict[str, list[dict[str, float]]]) -> None:
    known = {str(row["phase"]): row["work_known"] for row in summary["phases"]}
    assert set(known) == {"prefill", "decode", "mixed"}
    assert min(known.values()) >= LEAST
