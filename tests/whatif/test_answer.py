"""Speed of light against published arithmetic, and the levers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tracekit.errors import UsageError
from tracekit.models import ModelConfig, preset
from tracekit.roofline import device_ceilings, load_devices
from tracekit.tables.ceilings import Ceilings, Roof
from tracekit.whatif.answer import Target, answer, what_if
from tracekit.whatif.floors import all_reduce_s, loads, ridge_batch
from tracekit.whatif.scenario import Scenario


def device(bf16: Any, dram: Any, memory: Any = 80e9) -> Any:
    peaks = {"bf16": Roof(spec=bf16), "fp8": Roof(spec=2 * bf16), "vector": Roof(spec=67e12)}
    return Target(Ceilings("test", peaks, Roof(spec=dram, reach=0.9), link=Roof(spec=450e9)), memory)


H100, A100 = device(989.4e12, 3352e9), device(312e12, 2039e9)
LLAMA = preset("Llama-3.1-8B")
# A model of one 4096-wide multi-head attention block: the article's H = 4096.
ARTICLE = ModelConfig("article", 1, 4096, 11008, 32, 32, 128, 32000)


def load_of(scenario: Any, target: Any, role: Any) -> Any:
    return next(part for part in loads(scenario, target.ceilings) if part.role == role)


def test_the_published_floor_of_llama_70b_on_h100_if_one_card_held_it() -> None:
    # 69.503e9 active parameters x 2 bytes / 3352e9 byte/s = 41.5 ms.
    assert answer(Scenario(preset("Llama-3.1-70B"), kv_len=0), H100).floor_s == pytest.approx(
        41.5e-3, rel=2e-3
    )


def test_the_published_floor_of_llama_8b_on_h100_is_its_weights_over_the_bandwidth() -> None:
    # 7.505e9 active parameters x 2 bytes / 3352e9 byte/s = 4.478 ms; the cache of one token adds 131 kB.
    found = answer(Scenario(LLAMA, kv_len=0), H100)
    assert found.floor_s == pytest.approx(4.478e-3, rel=2e-3)
    assert found.weight_bytes == pytest.approx(2 * 7.505e9, rel=1e-3)
    assert found.bound_by == "weights"


def test_the_all_reduce_of_a_decode_batch_is_a_few_microseconds() -> None:
    # 64 x 8192 x 2 bytes = 1 MiB; a ring of 8 moves 1.75 of it over 450e9 byte/s: 4.1 us, twice a layer.
    seconds, count = all_reduce_s(Scenario(preset("Llama-3.1-70B"), batch=64, ranks=8), H100.ceilings)
    assert count == 160
    assert seconds / count == pytest.approx(4.08e-6, rel=1e-3)


def test_decode_attention_of_the_article_reads_16_megabytes_at_one_flop_a_byte() -> None:
    attention = load_of(Scenario(ARTICLE, kv_len=999), H100, "attention")
    assert attention.kv_bytes == 1000 * 4096 * 2 * 2 == 16_384_000
    assert attention.flops == 4 * 4096 * 1000 == 16_384_000
    assert attention.dram_s(H100.ceilings, activations=False) == pytest.approx(4.89e-6, rel=1e-2)


@pytest.mark.parametrize("batch", [1, 64])
def test_the_intensity_of_decode_attention_does_not_rise_with_the_batch(batch: Any) -> None:
    attention = load_of(Scenario(ARTICLE, batch=batch, kv_len=999), H100, "attention")
    assert attention.flops / attention.kv_bytes == pytest.approx(1.0)


def test_weights_dominate_at_batch_1_and_the_cache_at_batch_64() -> None:
    # A layer of 405 MB of weights and 16.4 MB of cache a request: 4 % and 72 % of their sum.
    for batch, share in ((1, 0.039), (64, 0.721)):
        parts = loads(Scenario(ARTICLE, batch=batch, kv_len=999), H100.ceilings)
        kv = sum(part.kv_bytes for part in parts if part.role == "attention")
        weights = sum(
            part.weight_bytes for part in parts if part.group == "products" and part.role != "lm_head"
        )
        assert kv / (kv + weights) == pytest.approx(share, abs=0.002)


@pytest.mark.parametrize(("target", "ridge"), [(A100, 165), (H100, 345)])
def test_the_ridge_batch_of_a_square_product(target: Any, ridge: Any) -> None:
    # M = I*H/(H - 2 I) with H = 4096 and I = peak / bandwidth.
    scenario = Scenario(ARTICLE)
    parts = [part for part in loads(scenario, target.ceilings) if part.role == "out"]
    assert ridge_batch(parts, scenario, target.ceilings) == pytest.approx(ridge, abs=0.6)


def test_prefill_linears_of_512_tokens_are_right_of_every_ridge_but_attention_is_left() -> None:
    parts = {
        part.role: part
        for part in loads(Scenario(ARTICLE, "prefill", prompt_len=512, kv_len=0), H100.ceilings)
    }
    out, attention = parts["out"], parts["attention"]
    assert out.flops / (out.weight_bytes + out.moved) == pytest.approx(410, abs=1)
    assert attention.flops / (attention.kv_bytes + attention.moved) == pytest.approx(128, abs=1)
    assert out.compute_s(H100.ceilings) > out.dram_s(H100.ceilings)
    assert attention.compute_s(H100.ceilings) < attention.dram_s(H100.ceilings)


@pytest.mark.parametrize(
    ("key", "ridge"), [("a100-sxm4-80gb", 153), ("h100-sxm5-80gb", 295), ("h200-sxm", 206), ("mi300x", 246)]
)
def test_the_article_on_each_device_at_batch_1_and_64(key: str, ridge: int) -> None:
    # The table of docs/explanation/prefill-decode.md: products of a prompt of 512 are right of every ridge, its
    # attention and all of decode are left of it.
    ceilings = device_ceilings(next(row for row in load_devices() if row.key == key))
    assert round(ceilings.ridge("bf16") or 0) == ridge
    prefill = Scenario(ARTICLE, "prefill", prompt_len=512, kv_len=0)
    bounds = {part.role: part for part in loads(prefill, ceilings)}
    assert bounds["out"].compute_s(ceilings) > bounds["out"].dram_s(ceilings)
    assert bounds["attention"].compute_s(ceilings) < bounds["attention"].dram_s(ceilings)
    for batch, intensity in ((1, 1.0), (64, 62.0)):
        decode = {part.role: part for part in loads(Scenario(ARTICLE, batch=batch, kv_len=999), ceilings)}
        out, attention = decode["out"], decode["attention"]
        assert out.flops / (out.weight_bytes + out.moved) == pytest.approx(intensity, rel=0.01)
        assert attention.flops / attention.kv_bytes == pytest.approx(1.0)
        assert all(part.compute_s(ceilings) < part.dram_s(ceilings) for part in (out, attention))


def test_each_lever_of_decode_has_a_number() -> None:
    base = Scenario(LLAMA, batch=64, kv_len=8000)
    before = answer(base, H100)
    assert answer(replace(base, kv_dtype="fp8"), H100).kv_bytes == pytest.approx(before.kv_bytes / 2)
    int4 = answer(replace(base, weight_dtype="int4"), H100)
    # Norms and the head stay in bf16.
    head = 2 * 128256 * 4096
    assert int4.weight_bytes == pytest.approx(
        (before.weight_bytes - head) * (0.5 + 2 / 128) / 2 + head, rel=1e-3
    )
    assert answer(base, device(989.4e12, 4800e9)).floor_s == pytest.approx(
        before.floor_s * 3352 / 4800, rel=1e-2
    )
    assert {lever.lever for lever in what_if(base, H100).levers} >= {
        "kv-dtype fp8",
        "weight-dtype int4",
        "batch 128",
        "tp 2",
    }


def test_faster_memory_and_a_full_memory_are_levers() -> None:
    base = Scenario(LLAMA, batch=8, kv_len=4095)
    twice = device(989.4e12, 2 * 3352e9)
    found = {lever.lever: lever for lever in what_if(base, H100, other=twice).levers}
    # All of the floor is memory: twice the rate halves it; kernels at their least time stay.
    assert found["device test"].floor_s == pytest.approx(answer(base, H100).floor_s / 2, rel=1e-2)
    assert 1.5 < found["device test"].speedup < 2
    # (0.9 x 80e9 - 16.06e9) / (131072 x 4096) requests.
    assert "batch 104" in found
    assert not any(lever.lever.startswith("device") for lever in what_if(base, H100).levers)


def test_speculation_wins_the_tokens_of_a_geometric_series() -> None:
    # 1 + 0.5 + 0.25 tokens a step of two guesses.
    assert Scenario(LLAMA, draft=2, accept=0.5).tokens_won == pytest.approx(1.75)
    assert Scenario(LLAMA, draft=2, accept=1.0).tokens_won == 3


def test_memory_says_how_many_requests_fit() -> None:
    memory = answer(Scenario(LLAMA, kv_len=999), H100).memory
    # (0.9 x 80e9 - 2 x 8.030e9) / (131072 x 1000).
    assert memory.weight_bytes == pytest.approx(16.06e9, rel=1e-3)
    assert memory.most_requests == 426
    assert memory.fits
    assert not answer(Scenario(preset("Llama-3.1-70B")), H100).memory.fits


def test_expectation_is_never_below_the_floor_and_grows_with_the_cache() -> None:
    found = [answer(Scenario(LLAMA, batch=16, kv_len=length), H100) for length in (100, 1000, 10000)]
    assert all(one.floor_s <= one.expected_low_s <= one.expected_s <= one.expected_high_s for one in found)
    assert np.all(np.diff([one.expected_s for one in found]) > 0)


@pytest.mark.parametrize("wrong", [{"phase": "mixed"}, {"kv_dtype": "fp7"}, {"batch": 0}, {"accept": 2.0}])
def test_what_cannot_be_asked_is_wrong_usage(wrong: Any) -> None:
    with pytest.raises(UsageError):
        Scenario(LLAMA, **wrong).checked()
