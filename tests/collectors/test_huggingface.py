"""Hugging Face's own classes as a workload: their configuration, their weights, their cache."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from collectortools import Recorder, quick_collect

import tracekit
from tracekit.errors import CaptureError, UnsupportedError
from tracekit.formats import CollectRequest, RunManifest, Workload
from tracekit.models import Latent, ModelConfig, from_hf_config, parameters, preset, presets

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.torch

DENSE = ModelConfig(
    "dense", layers=2, hidden=64, intermediate=128, heads=4, kv_heads=2, head_dim=16, vocab=96
)
EXPERTS = replace(
    DENSE,
    name="experts",
    intermediate=0,
    experts=4,
    experts_per_token=2,
    expert_intermediate=32,
    qk_norm=True,
)
SINKS = replace(
    EXPERTS,
    name="sinks",
    qk_norm=False,
    sinks=True,
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    router_bias=True,
    sliding_window=8,
    windowed=(True, False),
)
LATENT = replace(
    DENSE, name="latent", kv_heads=4, head_dim=24, latent=Latent(32, 16, 16, 8, 16), experts=4,
    experts_per_token=2, expert_intermediate=32, shared_experts=1, first_dense=1,
)  # fmt: skip
WORKLOAD = Workload(
    model="dense", dtype="fp32", kv_dtype="fp32", phases=("prefill", "decode"), batch=2, prompt_len=16, kv_len=24,
    decode_steps=3, warmup=1, repeats=2, seed=5, device="cpu", attention="sdpa", backend="transformers",
)  # fmt: skip
DIMENSIONS = (
    "layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocab", "tied", "experts", "experts_per_token",
    "expert_intermediate", "shared_experts", "first_dense", "sliding_window", "windowed", "latent", "qkv_bias",
    "output_bias", "mlp_bias", "router_bias", "qk_norm", "sinks", "rope_theta",
)  # fmt: skip


@pytest.fixture(scope="module")
def package() -> Any:
    pytest.importorskip("transformers", reason="Hugging Face transformers is not installed")
    from collectors.huggingface import transformers  # noqa: PLC0415 - needs torch, which may be absent

    return transformers()


def loaded(config: ModelConfig, checkpoint: Path | None = None, **changes: Any) -> Any:
    from collectors.huggingface import load  # noqa: PLC0415 - as above

    return load(config, replace(WORKLOAD, **changes), {}, checkpoint, seed=5)


@pytest.mark.parametrize("name", [*presets()])
def test_the_configuration_of_a_preset_says_its_dimensions(name: str) -> None:
    from collectors.huggingface import document_of  # noqa: PLC0415 - as above

    known = preset(name)
    found = from_hf_config(document_of(known))
    assert {field: getattr(found, field) for field in DIMENSIONS} == {
        field: getattr(known, field) for field in DIMENSIONS
    }


def test_a_truncated_shard_keeps_what_its_document_says_besides() -> None:
    from collectors.huggingface import document_of  # noqa: PLC0415 - as above

    given = {
        "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 96, "rms_norm_eps": 1e-5,
        "quantization_config": {"quant_method": "fp8"}, "auto_map": {"AutoModelForCausalLM": "theirs.Code"}, "eos_token_id": 95,
    }  # fmt: skip
    document = document_of(from_hf_config(given).truncated(1).sharded(2), given)
    assert document["rms_norm_eps"] == 1e-5
    assert (document["num_hidden_layers"], document["num_attention_heads"], document["vocab_size"]) == (
        1,
        2,
        48,
    )
    assert not {"quantization_config", "auto_map", "eos_token_id"} & document.keys()


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("name", [*presets()])
def test_the_classes_hold_the_parameters_that_the_dimensions_say(name: str, package: Any) -> None:
    from collectors.huggingface import document_of  # noqa: PLC0415 - as above

    config = preset(name)
    values = document_of(config)
    settings = package.AutoConfig.for_model(values.pop("model_type"), **values)
    with torch.device("meta"):
        model = package.AutoModelForCausalLM.from_config(settings)
    model.tie_weights()
    assert sum(weight.numel() for weight in model.parameters()) == parameters(config).total


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("config", [DENSE, EXPERTS, SINKS, LATENT], ids=lambda config: config.name)
def test_no_weight_is_constant_and_the_seed_decides_all(config: ModelConfig) -> None:
    first, second = (dict(loaded(config).named_parameters()) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert [name for name, weight in first.items() if not weight.isfinite().all() or weight.std() == 0] == []
    assert all(torch.isfinite(buffer).all() for _, buffer in loaded(config).named_buffers())


@pytest.mark.usefixtures("package")
def test_a_tied_head_is_the_embedding() -> None:
    model = loaded(replace(DENSE, tied=True))
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert sum(weight.numel() for weight in model.parameters()) == parameters(replace(DENSE, tied=True)).total


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("config", [DENSE, EXPERTS, SINKS, LATENT], ids=lambda config: config.name)
def test_decode_stands_behind_a_cache_of_the_depth_and_each_repeat_begins_there(config: ModelConfig) -> None:
    from collectors.workload import Runner  # noqa: PLC0415 - as above

    runner = Runner(config, WORKLOAD, torch.device("cpu"))
    steps = runner.plan["decode"]

    def run() -> list[list[int]]:
        chosen, found = None, []
        with torch.inference_mode():
            for step in steps:
                chosen = runner.forward("decode", step, chosen)
                found.append(chosen.tolist())
        return found

    first = run()
    cache = steps[0].inputs.groups[0].caches
    assert cache.current.get_seq_length(1) == 24 + 3
    assert cache.begun.get_seq_length(1) == 24
    assert run() == first
    assert [len(each) for each in first] == [2, 2, 2]


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(("config", "least"), [(DENSE, 0.95), (EXPERTS, 0.95)], ids=["dense", "experts"])
def test_a_capture_is_labelled_and_modelled(config: ModelConfig, least: float, tmp_path: Path) -> None:
    from collectors.huggingface import document_of  # noqa: PLC0415 - as above

    # Wide enough for arithmetic to outlast the Python around it, as in any real model.
    wide = replace(config, hidden=256, heads=8, head_dim=32, kv_heads=4, vocab=2048)
    wide = replace(wide, **({"expert_intermediate": 192} if wide.experts else {"intermediate": 704}))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(document_of(wide)))
    request = CollectRequest(
        tmp_path / "run", models=(str(path),), backend="transformers", device="cpu", prompt_lens=(128,),
        kv_lens=(128,), decode_steps=4, repeats=2, threads=1,
    )  # fmt: skip
    known: list[float] = []
    # Another process that interrupts one op makes it long: the better of two captures counts.
    while len(known) < 2 and max(known, default=0.0) < least:
        quick_collect()(request, Recorder())
        summary = tracekit.analyze([str(request.output)]).summary
        known.append(summary["coverage"]["work_known"])
    assert max(known) >= least
    assert summary["coverage"]["phase_known"] == 1.0
    assert {row["phase"] for row in summary["phases"]} == {"prefill", "decode"}
    manifest = RunManifest.read(request.output)
    assert "--backend transformers" in manifest.command
    assert "transformers" in manifest.versions


@pytest.mark.usefixtures("package")
def test_a_local_checkpoint_is_loaded_and_its_folder_is_written_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "my-checkpoint"
    model = loaded(DENSE)
    model.save_pretrained(folder)
    again = loaded(DENSE, folder)
    assert torch.equal(again.lm_head.weight, model.lm_head.weight)
    request = CollectRequest(
        tmp_path / "run", models=(str(folder),), backend="transformers", device="cpu", prompt_lens=(8,),
        kv_lens=(8,), decode_steps=2, repeats=1,
    )  # fmt: skip
    (outcome,) = quick_collect()(request, Recorder())
    assert "weights of the local checkpoint" in outcome.manifest.notes
    assert str(tmp_path) not in (request.output / "run.json").read_text()


@pytest.mark.usefixtures("package")
def test_a_checkpoint_of_another_shape_is_one_line(tmp_path: Path) -> None:
    loaded(DENSE).save_pretrained(tmp_path / "other")
    (tmp_path / "other" / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(CaptureError, match="cannot be loaded") as caught:
        loaded(DENSE, tmp_path / "other")
    assert "\n" not in caught.value.message


@pytest.mark.usefixtures("package")
def test_a_profiler_of_counters_is_given_the_same_model(tmp_path: Path) -> None:
    from collectors import counted  # noqa: PLC0415 - as above
    from collectors.building import Origin  # noqa: PLC0415 - as above
    from collectors.huggingface import document_of  # noqa: PLC0415 - as above

    loaded(DENSE).save_pretrained(tmp_path / "weights")
    origin = Origin(document_of(DENSE), tmp_path / "weights")
    spoken = json.loads(counted.specification(DENSE, WORKLOAD, origin))
    assert Origin.from_json(spoken["origin"]) == origin
    assert counted.run(DENSE, WORKLOAD, origin) == 1 + 3


def test_without_transformers_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from collectors.huggingface import check_backend  # noqa: PLC0415 - as above

    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UnsupportedError, match="transformers is not installed") as caught:
        check_backend(WORKLOAD)
    assert "tracekit-llm[transformers]" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"compile": True}, "--compile is for"),
        ({"cuda_graphs": True}, "--cuda-graphs is for"),
        ({"attention": "flex"}, "--attention flex is for"),
        ({"kv_dtype": "bf16"}, "--kv-dtype"),
        ({"phases": ("mixed",)}, "a mixed step"),
    ],
)
def test_options_of_the_own_decoder_are_refused(change: dict[str, Any], says: str) -> None:
    from collectors.huggingface import check_backend  # noqa: PLC0415 - as above

    with pytest.raises(UnsupportedError, match=says):
        check_backend(replace(WORKLOAD, **change))
