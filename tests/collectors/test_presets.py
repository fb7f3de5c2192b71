"""Every preset, truncated to two layers: what fits runs, what does not is refused with its estimate."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from collectortools import Recorder, quick_collect

import tracekit
from tracekit.errors import UnsupportedError
from tracekit.formats import CollectRequest, RunManifest, Workload
from tracekit.models import ModelConfig, parameters, preset, presets, weight_bytes

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.torch

LARGEST = 8 << 30
SMALL = ("tiny-cpu", "Qwen3-0.6B")
WORKLOAD = Workload(
    model="any", dtype="fp32", kv_dtype="fp32", phases=("prefill", "decode"), batch=1, prompt_len=64, kv_len=64,
    decode_steps=4, warmup=1, repeats=1, seed=0, device="cpu", attention="sdpa",
)  # fmt: skip


def two_layers(name: str) -> ModelConfig:
    return preset(name).truncated(2)


FITTING = [name for name in presets() if weight_bytes(two_layers(name), "fp32") <= LARGEST]


def test_seven_presets_fit_eight_gib_at_two_layers() -> None:
    assert [*FITTING] == [
        "Llama-2-7B", "Llama-3.1-8B", "Mistral-7B-v0.3", "Qwen3-0.6B", "Qwen3-8B", "Qwen3-30B-A3B", "tiny-cpu",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [*presets()])
def test_a_preset_is_refused_with_its_estimate_and_with_what_would_fit(name: str) -> None:
    from collectors.memory import check, estimate  # noqa: PLC0415 - needs torch, which may be absent

    config = preset(name)
    needed = estimate(config, WORKLOAD)
    assert needed.weights == 4 * parameters(config).total
    # Where the whole model fits, it is not refused; of a byte less than it needs, it is.
    check(config, WORKLOAD, needed, int(needed.total / 0.9) + 2)
    one_less = int((needed.total - 1) / 0.9)
    with pytest.raises(UnsupportedError) as caught:
        check(config, WORKLOAD, needed, one_less)
    assert f"{config.name} in fp32 needs {needed.total / 1e9:.1f} GB" in caught.value.message
    layers = re.search(r"--layers (\d+) would fit", caught.value.hint)
    assert layers, caught.value.hint
    fits = int(layers[1])
    assert fits == config.layers - 1
    assert estimate(config.truncated(fits), WORKLOAD).total <= one_less


@pytest.mark.parametrize("name", [name for name in presets() if name not in FITTING])
def test_a_preset_that_does_not_fit_at_two_layers_is_refused_by_the_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from collectors import command  # noqa: PLC0415 - as above

    monkeypatch.setattr(command, "available_memory", lambda _device: LARGEST)
    request = CollectRequest(
        tmp_path / "run", models=(name,), layers=2, device="cpu", prompt_lens=(64,), kv_lens=(64,)
    )
    with pytest.raises(UnsupportedError) as caught:
        quick_collect()(request, Recorder())
    assert re.search(r"needs \d+\.\d GB \(weights \d+\.\d GB", caught.value.message)
    assert re.search(r"--layers 1 would fit|even", caught.value.hint)
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize("name", [*presets()])
def test_two_layers_of_a_preset_compute_on_the_meta_device(name: str) -> None:
    """Shapes alone, so that every preset can be tried anywhere; experts only where no count of tokens is asked for."""
    from collectors.decoder import Decoder, Group, LayerCache, StepInput  # noqa: PLC0415 - as above

    config = two_layers(name)
    # Two layers without experts stand for attention; what routing sends where is data, which no meta tensor has.
    dense = replace(config, experts=0, intermediate=config.intermediate or config.expert_intermediate)
    with torch.device("meta"):
        model = Decoder(dense)
        model.rotary.build(64, torch.float32, torch.device("meta"))
        if config.latent is None:
            shape = (2, config.kv_heads, 64, config.head_dim)
            caches = tuple(LayerCache(torch.empty(shape), torch.empty(shape)) for _ in range(2))
        else:
            width = config.latent.kv_rank + config.latent.rope_dim
            latents = torch.empty(2, 1, 64, width)
            caches = (LayerCache(latents, latents[..., : config.latent.kv_rank]),) * 2
        for queries, past in ((16, 0), (1, 16)):
            step = StepInput.of((Group(2, queries, past, caches),), torch.device("meta"))
            model.prepare(step)
            assert model(torch.zeros(2 * queries, dtype=torch.long), step).shape == (2,)


def run(name: str, folder: Path) -> None:
    request = CollectRequest(
        folder, models=(name,), layers=2, device="cpu", prompt_lens=(64,), kv_lens=(64,), decode_steps=4,
        repeats=1, warmup=1, threads=1,
    )  # fmt: skip
    quick_collect()(request, Recorder())
    assert RunManifest.read(folder).parameters == parameters(two_layers(name)).total
    summary = tracekit.analyze([str(folder)]).summary
    assert summary["coverage"]["phase_known"] == 1.0
    assert summary["coverage"]["work_known"] >= 0.95
    assert {row["phase"] for row in summary["phases"]} == {"prefill", "decode"}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_preset_runs_and_is_reported(name: str, tmp_path: Path) -> None:
    run(name, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("TRACEKIT_SLOW"), reason="minutes and 10 GB of memory: set TRACEKIT_SLOW=1"
)
@pytest.mark.parametrize("name", [name for name in FITTING if name not in SMALL])
def test_a_preset_that_fits_runs_and_is_reported(name: str, tmp_path: Path) -> None:
    run(name, tmp_path / "run")
