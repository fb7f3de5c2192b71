"""The decoder computes what a decoder computes, in each of its forms."""

import os
import shutil
from dataclasses import replace
from typing import Any

import pytest

from tracekit.models import Latent, ModelConfig, parameters, preset, presets

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.torch

DENSE = ModelConfig("t", layers=2, hidden=16, intermediate=32, heads=4, kv_heads=2, head_dim=8, vocab=64)
MODELS = {
    "grouped": DENSE,
    "tied": replace(DENSE, tied=True),
    "biases and norms": replace(DENSE, qkv_bias=True, output_bias=True, mlp_bias=True, qk_norm=True),
    "experts": replace(DENSE, intermediate=0, experts=4, experts_per_token=2, expert_intermediate=8),
    "shared expert after a dense layer": replace(
        DENSE, experts=4, experts_per_token=2, expert_intermediate=8, shared_experts=1, first_dense=1
    ),
    "window": replace(DENSE, sliding_window=3, windowed=(True, False)),
    "sinks": replace(DENSE, sinks=True),
    "latent": replace(DENSE, kv_heads=4, head_dim=12, latent=Latent(10, 6, 8, 4, 5)),
    "latent, queries as they are": replace(DENSE, kv_heads=4, head_dim=12, latent=Latent(0, 6, 8, 4, 5)),
}


def decoder(config: ModelConfig, attention: str = "sdpa", dtype: Any = torch.float64) -> Any:
    from collectors.decoder import initialised  # noqa: PLC0415 - needs torch, which may be absent

    generator = torch.Generator().manual_seed(1)
    return initialised(config, attention=attention, dtype=dtype, positions=32, generator=generator)


def logits(
    model: Any, config: ModelConfig, tokens: Any, lengths: list[int], dtype: Any = torch.float64
) -> Any:
    """The last step's logits, where the tokens of two requests are run in pieces of the given lengths."""
    from collectors.decoder import Group, StepInput, allocate  # noqa: PLC0415 - as above

    caches = allocate(config, 2, 32, dtype, torch.Generator().manual_seed(2))
    past, seen = 0, []
    hook = model.norm.register_forward_hook(lambda _module, _args, out: seen.append(out))
    with torch.inference_mode():
        for length in lengths:
            step = StepInput.of((Group(2, length, past, caches),), torch.device("cpu"))
            model(tokens[:, past : past + length].reshape(-1), step)
            past += length
    hook.remove()
    return seen[-1]


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_decoding_a_token_equals_prefilling_it(config: ModelConfig) -> None:
    model = decoder(config)
    tokens = torch.randint(64, (2, 9), generator=torch.Generator().manual_seed(3))
    whole = logits(model, config, tokens, [9])
    stepped = logits(model, config, tokens, [6, 1, 1, 1])
    chunked = logits(model, config, tokens, [4, 5])
    torch.testing.assert_close(stepped, whole)
    torch.testing.assert_close(chunked, whole)


@pytest.mark.parametrize("name", ["grouped", "window", "biases and norms"])
def test_eager_attention_equals_the_fused_one(name: str) -> None:
    config = MODELS[name]
    tokens = torch.randint(64, (2, 9), generator=torch.Generator().manual_seed(3))
    fused, eager = (logits(decoder(config, kind), config, tokens, [7, 1, 1]) for kind in ("sdpa", "eager"))
    torch.testing.assert_close(eager, fused)


@pytest.mark.parametrize("name", ["grouped", "window", "latent"])
def test_the_flash_kernel_equals_what_pytorch_chooses(name: str) -> None:
    config = MODELS[name]
    tokens = torch.randint(64, (2, 9), generator=torch.Generator().manual_seed(3))
    chosen, flash = (logits(decoder(config, kind), config, tokens, [7, 1, 1]) for kind in ("sdpa", "flash"))
    torch.testing.assert_close(flash, chosen)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("g++") is None or not os.environ.get("TRACEKIT_SLOW"),
    reason="flex_attention is compiled: a C++ compiler, and minutes where cores are shared: set TRACEKIT_SLOW=1",
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # TorchInductor's own imports
def test_flex_attention_equals_what_pytorch_chooses() -> None:
    # A window shorter than the prompt, grouped heads, a second piece behind cached tokens, then single tokens.
    config = MODELS["window"]
    tokens = torch.randint(64, (2, 16), generator=torch.Generator().manual_seed(3))
    chosen, flex = (
        logits(decoder(config, kind, torch.float32), config, tokens, [9, 5, 1, 1], torch.float32)
        for kind in ("sdpa", "flex")
    )
    torch.testing.assert_close(flex, chosen, atol=1e-4, rtol=1e-4)


def test_a_window_changes_the_result_only_beyond_its_length() -> None:
    # Two layers with a window of 3: the fifth token sees its window's windows, the first three see all.
    tokens = torch.randint(64, (2, 9), generator=torch.Generator().manual_seed(3))
    windowed = MODELS["window"]
    plain = replace(windowed, windowed=(False, False))
    model, full = decoder(windowed), decoder(plain)
    torch.testing.assert_close(logits(model, windowed, tokens, [3]), logits(full, plain, tokens, [3]))
    assert not torch.allclose(logits(model, windowed, tokens, [9]), logits(full, plain, tokens, [9]))


def test_groups_beside_each_other_do_not_see_each_other() -> None:
    from collectors.decoder import Group, StepInput, allocate  # noqa: PLC0415 - as above

    model = decoder(DENSE)
    tokens = torch.randint(64, (9,), generator=torch.Generator().manual_seed(3))

    def groups() -> list[Any]:
        caches = [allocate(DENSE, n, 16, torch.float64, torch.Generator().manual_seed(4)) for n in (1, 2)]
        return [Group(1, 7, 0, caches[0]), Group(2, 1, 5, caches[1])]

    with torch.inference_mode():
        together = model(tokens, StepInput.of(tuple(groups()), torch.device("cpu")))
        first, second = groups()
        prompt = model(tokens[:7], StepInput.of((first,), torch.device("cpu")))
        decoded = model(tokens[7:], StepInput.of((second,), torch.device("cpu")))
    assert together.tolist() == [*prompt.tolist(), *decoded.tolist()]


def test_each_token_visits_its_experts_and_no_other() -> None:
    from collectors.decoder.moe import MixtureOfExperts  # noqa: PLC0415 - as above

    config = MODELS["experts"]
    layer = MixtureOfExperts(config).double()
    generator = torch.Generator().manual_seed(5)
    for weight in layer.parameters():
        weight.data.normal_(generator=generator)
    x = torch.randn(6, 16, dtype=torch.float64, generator=generator)
    score, chosen = layer.router(x).topk(2, dim=-1)
    share = score.softmax(dim=-1)
    expected = torch.zeros_like(x)
    for token in range(6):
        for rank in range(2):
            expert = chosen[token, rank]
            gate, up = (layer.gate_up[expert] @ x[token]).chunk(2)
            value = layer.down[expert] @ (torch.nn.functional.silu(gate) * up)
            expected[token] += share[token, rank] * value
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("name", [*presets()])
def test_the_modules_hold_the_parameters_that_the_dimensions_say(name: str) -> None:
    from collectors.decoder import Decoder  # noqa: PLC0415 - as above

    with torch.device("meta"):
        model = Decoder(preset(name))
    assert sum(weight.numel() for weight in model.parameters()) == parameters(preset(name)).total


def test_the_same_seed_gives_the_same_weights_and_no_zeros() -> None:
    first, second = (dict(decoder(DENSE).named_parameters()) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(bool((weight != 0).all()) for weight in first.values())
