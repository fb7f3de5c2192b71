"""Work from a model's dimensions: whole steps against parameter counts, and kernels by their place in the step."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tracekit.models import ModelConfig, parameters, presets
from tracekit.models.config import Latent
from tracekit.tables import LINKED
from tracekit.work import Stored, Traits, apply_config, identify, matmul_flops, slope_test, step_sizes, traits
from tracekit.work.attention import pairs
from tracekit.work.config import _weight_items
from tracekit.work.slope import slope_notes

DENSE = ModelConfig("dense", layers=2, hidden=16, intermediate=32, heads=4, kv_heads=2, head_dim=8, vocab=100)
WORK = ["flops", "dram_bytes", "weight_bytes", "kv_bytes", "bus_bytes", "expected_bytes"]


def steps(*requests: list[tuple[int, int]]) -> pd.DataFrame:
    """One step a list of (query tokens, key tokens) of requests."""
    rows = []
    for number, lengths in enumerate(requests):
        q, k = np.array(lengths, dtype=np.float64).T
        context = q > 1
        rows.append(
            {
                "step_id": number,
                "phase": "prefill" if context.any() else "decode",
                "context_requests": int(context.sum()),
                "context_tokens": int(q[context].sum()),
                "generation_requests": int((~context).sum()),
                "generation_tokens": int(q[~context].sum()),
                "sum_q": q.sum(),
                "sum_k": k.sum(),
                "sum_qq": (q * q).sum(),
                "sum_qk": (q * k).sum(),
                "context_sum_k": k[context].sum(),
                "context_sum_qq": (q * q)[context].sum(),
                "context_sum_qk": (q * k)[context].sum(),
            }
        )
    return pd.DataFrame(rows)


def kernels(families: list[str], **columns: Any) -> pd.DataFrame:
    count = len(families)
    frame = LINKED.conform(
        pd.DataFrame(
            {
                "kernel_id": range(count),
                "kind": "kernel",
                "name": columns.pop("name", families),
                "ts_ns": range(count),
                "dur_ns": columns.pop("dur_ns", 1),
                "from_graph": True,
            }
        )
    )
    unknown = pd.Categorical([None] * count)
    texts = dict.fromkeys(("dtype", "peak", "flops_source", "dram_bytes_source"), unknown)
    return frame.assign(family=families, step_id=0, **dict.fromkeys(WORK, np.nan), **texts).assign(**columns)


def listed(column: pd.Series) -> list[Any]:
    return [None if pd.isna(value) else value for value in column]


@pytest.mark.parametrize("name", sorted(presets()))
@pytest.mark.parametrize(
    "requests",
    [[(512, 512)], [(1, 1000)] * 8, [(64, 300), (1, 40), (1, 7)]],
    ids=["prefill", "decode", "mixed"],
)
def test_each_weight_meets_each_token_once(name: str, requests: list[tuple[int, int]]) -> None:
    config = presets()[name]
    tokens, sampled = sum(q for q, _k in requests), len(requests)
    products = parameters(config).active - config.vocab * config.hidden
    latent = config.latent
    key = config.head_dim if latent is None else latent.nope_dim + latent.rope_dim
    value = config.head_dim if latent is None else latent.value_dim
    seen = 0.0
    for layer in range(config.layers):
        window = config.window(layer)
        full = sum(pairs(q, k, causal=True) for q, k in requests)
        seen += full if window is None else min(full, window * tokens)
    expected = (
        2 * products * tokens
        + 2 * config.vocab * config.hidden * sampled
        + 2 * seen * config.heads * (key + value)
    )
    (found,) = matmul_flops(config, step_sizes(steps(requests)))
    # Norm weights, biases and sinks are parameters and no products: below 0.5 %.
    assert found == pytest.approx(expected, rel=0.005)


def test_products_in_order_are_the_layers_in_order() -> None:
    # 3 tokens: qkv 64 x 16, out 16 x 32, gate_up 64 x 16, down 16 x 32 for two layers, then 100 x 16 for one request.
    filled = apply_config(kernels(["gemm"] * 9), steps([(3, 3)]), DENSE)
    layer = [2 * 3 * 64 * 16, 2 * 3 * 16 * 32, 2 * 3 * 64 * 16, 2 * 3 * 16 * 32]
    assert listed(filled.flops) == [*layer, *layer, 2 * 1 * 100 * 16]
    assert listed(filled.weight_bytes) == [2048, 1024, 2048, 1024] * 2 + [3200]
    assert filled.dram_bytes[0] == 2048 + 3 * (64 + 16) * 2
    assert set(filled.flops_source) == {"config"}
    assert set(filled.peak) == {"bf16"}


@pytest.mark.parametrize(("count", "products"), [(8, 8), (9, 9), (14, 14), (15, 15)])
def test_engines_that_fuse_less_are_told_by_their_number_of_kernels(count: int, products: int) -> None:
    filled = apply_config(kernels(["gemm"] * count), steps([(3, 3)]), DENSE)
    assert filled.flops.notna().sum() == products
    head = 2 * 100 * 16 if count % 2 else 0
    assert filled.flops.sum() == 2 * 2 * 3 * (64 * 16 + 16 * 32 + 64 * 16 + 16 * 32) + head


def test_a_number_of_kernels_that_fits_no_fusion_says_nothing() -> None:
    assert listed(apply_config(kernels(["gemm"] * 7), steps([(3, 3)]), DENSE).flops) == [None] * 7


def test_a_whole_decode_step() -> None:
    # Two requests with 10 and 20 keys: A = 30; K and V of 30 tokens, 2·2·8 elements of 2 B each.
    layer = ["norm", "gemm", "rope", "kv", "attn", "attn.combine", "gemm", "norm", "gemm", "act", "gemm"]
    filled = apply_config(kernels([*layer, *layer, "norm", "gemm"]), steps([(1, 10), (1, 20)]), DENSE)
    assert filled.flops.notna().all()
    attention = filled[filled.family == "attn"]
    assert listed(attention.flops) == [4 * 4 * 8 * 30] * 2
    assert listed(attention.kv_bytes) == [30 * 32 * 2] * 2
    assert listed(attention.dram_bytes) == [30 * 32 * 2 + 2 * 4 * 16 * 2] * 2
    writes = filled[filled.family == "kv"]
    assert listed(writes.kv_bytes) == [2 * 32 * 2] * 2
    combine = filled[filled.family == "attn.combine"]
    assert (listed(combine.flops), listed(combine.dram_bytes)) == ([0, 0], [None, None])
    assert listed(filled[filled.family == "act"].flops) == [5 * 2 * 32] * 2
    assert listed(filled[filled.family == "rope"].flops) == [3 * 2 * 6 * 8] * 2
    assert listed(filled[filled.family == "norm"].flops) == [4 * 2 * 16] + [5 * 2 * 16] * 4


def test_experts_read_the_weights_that_are_touched() -> None:
    # T = 2, k = 2 of E = 4: 3 experts expected; mxfp4 in the name stores 17/32 B a weight.
    config = ModelConfig("moe", 1, 16, 0, 4, 2, 8, 100, experts=4, experts_per_token=2, expert_intermediate=8)
    named = ["_matmul_ogs_bf16xbf16xmxfp4_swiglu", "_matmul_ogs_bf16xbf16xmxfp4"]
    filled = apply_config(kernels(["moe.gemm"] * 2, name=named), steps([(2, 2)]), config)
    assert listed(filled.flops) == [2 * 4 * 16 * 16, 2 * 4 * 16 * 8]
    assert listed(filled.weight_bytes) == [3 * 256 * 17 / 32, 3 * 128 * 17 / 32]
    fused = apply_config(kernels(["moe.gemm"]), steps([(2, 2)]), config)
    assert listed(fused.flops) == [2 * 4 * 16 * 24]


def test_inputs_of_experts_are_quantised_by_blocks() -> None:
    # Two tokens of 16: read in bf16, a byte each and 1/32 of a scale written; another kernel of the family is none of them.
    config = ModelConfig("moe", 1, 16, 0, 4, 2, 8, 100, experts=4, experts_per_token=2, expert_intermediate=8)
    mxfp8 = "void tensorrt_llm::kernels::quantize_with_block_size<(tensorrt_llm::BlockScaleQuantizationType)2, __nv_bfloat16, 32, true>(int)"
    filled = apply_config(kernels(["quant"] * 2, name=["scaled_fp8_quant", mxfp8]), steps([(2, 2)]), config)
    assert listed(filled.flops) == [None, 3 * 2 * 16]
    assert listed(filled.dram_bytes) == [None, 32 * 2 + 32 + 1]


MLA = ModelConfig(
    "mla",
    1,
    16,
    32,
    4,
    4,
    12,
    100,
    latent=Latent(query_rank=6, kv_rank=8, nope_dim=8, rope_dim=4, value_dim=8),
)


def test_latent_attention_is_absorbed_in_decode() -> None:
    # T = 2, h = 4, dc = 8, dn = dv = 8, dr = 4: keys of 12 and values of 8 meet 30 cached tokens of 12 elements.
    families = ["gemm"] * 4 + ["attn.mla"] + ["gemm"] * 4
    filled = apply_config(kernels(families), steps([(1, 10), (1, 20)]), MLA)
    products = [(6 + 12, 16), (4 * 12, 6), (4 * 8, 8), (4 * 8, 8), (16, 32), (64, 16), (16, 32), (100, 16)]
    assert listed(filled[filled.family == "gemm"].flops) == [2 * 2 * out * inner for out, inner in products]
    (attention,) = filled[filled.family == "attn.mla"].to_dict("records")
    assert attention["flops"] == 2 * 4 * 30 * (2 * 8 + 4)
    assert attention["kv_bytes"] == 30 * 12 * 2
    assert attention["dram_bytes"] == 30 * 12 * 2 + 2 * 4 * 20 * 2


def test_latent_attention_is_expanded_in_prefill() -> None:
    # 3 tokens and 6 pairs: keys of 8 + 4, values of 8; the expansion is one product of 64 x 8.
    filled = apply_config(kernels(["gemm"] * 7 + ["attn", "kv", "rope"] + ["norm"] * 5), steps([(3, 3)]), MLA)
    assert filled.flops[2] == 2 * 3 * 4 * (8 + 8) * 8
    assert listed(filled.flops[[7, 9]]) == [2 * 4 * 6 * (12 + 8), 3 * 3 * (4 + 1) * 4]
    assert filled.kv_bytes[8] == 3 * 12 * 2
    # Input, both latents (6 and 8), after attention, last; residuals are added in the last two.
    assert listed(filled.flops[10:]) == [4 * 3 * 16, 4 * 3 * 6, 4 * 3 * 8, 5 * 3 * 16, 5 * 3 * 16]


def test_latent_attention_of_a_mixed_step_is_expanded_for_prefill_and_absorbed_for_decode() -> None:
    # One request prefills 3 tokens (6 pairs), two decode over 30 keys; each layer has a kernel a side, prefill's first.
    mixed = steps([(3, 3), (1, 10), (1, 20)])
    filled = apply_config(kernels(["gemm"] * 9 + ["attn", "attn.mla"]), mixed, MLA)
    latents = [2 * 5 * 18 * 16, 2 * 5 * 48 * 6]
    forms = [2 * 3 * 64 * 8, 2 * 2 * 4 * 8 * 8, 2 * 2 * 4 * 8 * 8]
    rest = [2 * 5 * 16 * 32, 2 * 5 * 64 * 16, 2 * 5 * 16 * 32, 2 * 3 * 100 * 16]
    assert listed(filled.flops[:9]) == [*latents, *forms, *rest]
    assert listed(filled.flops[9:]) == [2 * 4 * 6 * (12 + 8), 2 * 4 * 30 * (2 * 8 + 4)]
    assert listed(filled.kv_bytes[9:]) == [3 * 12 * 2, 30 * 12 * 2]
    # One kernel for both sides could be of either form, and sides that are not told apart have no sums.
    assert listed(apply_config(kernels(["attn"]), mixed, MLA).flops) == [None]
    whole = mixed.drop(columns=["context_sum_k", "context_sum_qq", "context_sum_qk"])
    assert listed(apply_config(kernels(["attn", "attn.mla"]), whole, MLA).flops) == [None, None]


def test_windowed_layers_see_no_more_than_their_window() -> None:
    config = ModelConfig("swa", 2, 16, 32, 4, 2, 8, 100, sliding_window=16, windowed=(True, False))
    filled = apply_config(kernels(["attn", "attn"]), steps([(1, 100), (1, 50)]), config)
    assert listed(filled.flops) == [4 * 4 * 8 * 32, 4 * 4 * 8 * 150]
    assert listed(filled.kv_bytes) == [32 * 32 * 2, 150 * 32 * 2]


def test_attention_from_sums_gives_way_where_layers_are_windowed() -> None:
    config = ModelConfig("swa", 2, 16, 32, 4, 2, 8, 100, sliding_window=16, windowed=(True, False))
    summed = kernels(["attn", "attn"], flops=9.0, flops_source=pd.Categorical(["annotation"] * 2))
    assert listed(apply_config(summed, steps([(1, 100)]), config).flops) == [4 * 4 * 8 * 16, 4 * 4 * 8 * 100]
    assert listed(apply_config(summed, steps([(1, 100)]), DENSE).flops) == [9.0, 9.0]


def test_steps_without_sums_leave_attention_unknown() -> None:
    unsummed = steps([(3, 3)]).assign(sum_k=np.nan, sum_qk=np.nan)
    filled = apply_config(kernels(["attn"] * 2 + ["gemm"] * 8), unsummed, DENSE)
    assert listed(filled.flops[:2]) == [None, None]
    assert filled.flops[2:].notna().all()


def test_kernels_outside_steps_stay_unknown() -> None:
    outside = kernels(["gemm"] * 9).assign(step_id=pd.array([None] * 9, dtype="Int64"))
    assert listed(apply_config(outside, steps([(3, 3)]), DENSE).flops) == [None] * 9


def test_the_name_tells_the_type_of_the_math_and_how_weights_are_stored() -> None:
    filled = apply_config(kernels(["gemm"] * 8, name_dtype="fp8"), steps([(3, 3)]), DENSE)
    assert set(filled.peak) == {"fp8"}
    names = pd.Series(
        ["sm90_fp8_gemm_1d2d", "Marlin<1>", "bmm_E2m1E2m1", "Cijk_BBS", "bmm_MxE4m3_MxE2m1MxE4m3"]
    )
    assert _weight_items(names, Stored()).tolist() == [1.0, 0.515625, 0.5625, 2.0, 0.53125]


def recorded(*rows: tuple[str, str, str]) -> Traits:
    columns = ["op", "dims", "types"]
    return traits(pd.DataFrame(rows, columns=columns).assign(strides=None, concrete=None))


BF16 = '["c10::BFloat16", "c10::BFloat16"]'
QWEN3_8B = [
    ("aten::mm", "[[32, 4096], [4096, 151936]]", BF16),
    ("aten::mm", "[[32, 4096], [4096, 6144]]", BF16),
    ("aten::mm", "[[32, 4096], [4096, 24576]]", BF16),
    ("aten::mm", "[[32, 12288], [12288, 4096]]", BF16),
]


def test_sizes_that_one_preset_alone_explains_name_it() -> None:
    found = identify(recorded(*QWEN3_8B), presets().values())
    assert found is not None
    assert found.name == "Qwen3-8B"


def test_a_head_alone_a_foreign_weight_or_two_presets_name_nothing() -> None:
    assert identify(recorded(QWEN3_8B[0]), presets().values()) is None
    foreign = ("aten::mm", "[[32, 4096], [4096, 5000]]", BF16)
    assert identify(recorded(*QWEN3_8B, foreign), presets().values()) is None
    twins = [config for config in presets().values() if config.name == "Qwen3-8B"] * 2
    assert identify(recorded(*QWEN3_8B), twins) is None


def decoding() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Six decode steps of growing length: attention of 100 ns and 0.5 ns a key token, a product that does not grow."""
    decode = steps(*([(1, 1000 * (number + 1))] for number in range(6)))
    frames = [
        kernels(["attn", "gemm"], dur_ns=[int(100 + 0.5 * keys), 700]).assign(step_id=number)
        for number, keys in enumerate(decode["sum_k"])
    ]
    return pd.concat(frames), decode


def test_the_slope_over_key_tokens_is_the_rate_of_reading_the_cache() -> None:
    # 128 B of K and V a token (2 layers, 2 heads of 8, bf16: 2·2·2·8·2) at 0.5 ns a token: 256 GB/s.
    (fit,) = slope_test(*decoding(), DENSE)
    assert (fit.name, fit.steps, fit.proportional) == ("attn", 6, True)
    assert fit.ns_per_token == pytest.approx(0.5)
    assert fit.intercept_ns == pytest.approx(100)
    assert fit.bytes_per_s == pytest.approx(256e9)


def test_the_slope_is_said_with_its_fit_and_without_a_model_too() -> None:
    (note,) = slope_notes(*decoding(), DENSE)
    assert (note.code, note.count) == ("kv_slope", 6)
    assert (
        "0.5 ns more for each key token over 6 decode steps (R² 1.000), so it reads the cache at 256 GB/s"
        in note.message
    )
    (bare,) = slope_notes(*decoding())
    assert bare.message.endswith("(R² 1.000)")
    grown, decode = decoding()
    assert slope_notes(grown[grown.family == "gemm"], decode, DENSE) == []


def test_too_few_steps_or_equal_lengths_give_no_slope() -> None:
    one = kernels(["attn"])
    assert slope_test(one, steps([(1, 10)])) == []
    same = pd.concat([one.assign(step_id=number) for number in range(8)])
    assert slope_test(same, steps(*([(1, 10)] for _ in range(8)))) == []
