"""Attention: exact causal pairs, key-value heads for K and V, and lengths from the sums of a step."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from tracekit.work import OpWork
from tracekit.work.attention import combine, mla_absorbed, pairs, step_attention, window_pairs
from tracekit.work.registered import Heads

# call, FLOPs, DRAM bytes, K and V bytes among them
CASES = [
    # 4·B·h·d·Lq·Lk = 4·2·4·8·16·16; q, k, v and out of 2·4·16·8 elements each.
    ("aten::_scaled_dot_product_flash_attention_for_cpu fp32[2,4,16,8] fp32[2,4,16,8] fp32[2,4,16,8] =0. =False", 65_536, 4 * 1024 * 4, 8192),
    # Causal: L(L + 1)/2 = 136 of 256 pairs.
    ("aten::_scaled_dot_product_flash_attention_for_cpu fp32[2,4,16,8] fp32[2,4,16,8] fp32[2,4,16,8] =0. =True", 34_816, 4 * 1024 * 4, 8192),
    # A causal chunk of 4 queries over 16 keys, bottom right: 4·16 - 4·3/2 = 58 pairs.
    ("aten::_scaled_dot_product_flash_attention fp16[1,2,4,8] fp16[1,2,16,8] fp16[1,2,16,8] =0. =True =False", 4 * 2 * 8 * 58, (64 + 256 + 256 + 64) * 2, 1024),
    # Grouped queries: K and V count at 2 heads, operations at 8.
    ("aten::scaled_dot_product_attention bf16[1,8,16,64] bf16[1,2,16,64] bf16[1,2,16,64] - =0. =False - =True", 4 * 8 * 64 * 256, (8192 + 2048 + 2048 + 8192) * 2, 8192),
    # Expanded heads (stride 0) are stored once.
    ("aten::scaled_dot_product_attention bf16[1,8,16,64]/8192,1024,64,1 bf16[1,8,16,64]/1024,0,64,1 bf16[1,8,16,64]/1024,0,64,1 - =0. =False", 4 * 8 * 64 * 256, (8192 + 1024 + 1024 + 8192) * 2, 4096),
    # One query needs no flag: causal or not, it sees every key. 16.4 MF and 16.4 MB of K and V (worked table: L = 1000, 32 x 128).
    ("aten::scaled_dot_product_attention bf16[1,32,1,128] bf16[1,32,1000,128] bf16[1,32,1000,128]", 16_384_000, 16_384_000 + 2 * 8192, 16_384_000),
    ("aten::scaled_dot_product_attention bf16[1,32,2,128] bf16[1,32,1000,128] bf16[1,32,1000,128]", None, 16_384_000 + 2 * 16_384, 16_384_000),
    # A mask is read: [1, 1, 16, 16] of fp32.
    ("aten::_scaled_dot_product_efficient_attention fp32[1,2,16,8] fp32[1,2,16,8] fp32[1,2,16,8] fp32[1,1,16,16] =False =0. =False", 4 * 2 * 8 * 256, (4 * 256 + 256) * 4, 2048),
    ("aten::_scaled_dot_product_cudnn_attention bf16[1,2,16,8] bf16[1,2,16,8] bf16[1,2,16,8] - =False =0. =True =False", 4 * 2 * 8 * 136, 4 * 256 * 2, 1024),
    ("aten::_scaled_dot_product_fused_attention_overrideable bf16[1,2,16,8] bf16[1,2,16,8] bf16[1,2,16,8] - =0. =True", 4 * 2 * 8 * 136, 4 * 256 * 2, 1024),
    # Values narrower than keys (192 and 128, as in unabsorbed MLA): 2·A·h·(192 + 128).
    ("aten::scaled_dot_product_attention bf16[1,2,16,192] bf16[1,2,16,192] bf16[1,2,16,128] - =0. =True", 2 * 136 * 2 * 320, (6144 + 6144 + 4096 + 4096) * 2, 20_480),
    # flash orders [B, L, h, d]: the same sizes mean 4 queries of 16 heads.
    ("aten::_flash_attention_forward bf16[16,559,16,64] bf16[16,559,16,64] bf16[16,559,16,64] - - =559 =559 =0. =True =False =0.125", 4 * 16 * 16 * 64 * 156_520, 4 * 16 * 559 * 16 * 64 * 2, 36_634_624),
    ("flash_attn::_flash_attn_forward bf16[1,4,2,8] bf16[1,16,2,8] bf16[1,16,2,8] =0. =0.1 =True =-1 =-1", 4 * 2 * 8 * 58, (64 + 256 + 256 + 64) * 2, 1024),
    # A left window of 7 lets a query see 8 keys: 4 queries at 13..16 see 8 each, and 11 keys are touched.
    ("flash_attn::_flash_attn_forward bf16[1,4,2,8] bf16[1,16,2,8] bf16[1,16,2,8] =0. =0.1 =True =7 =0", 4 * 2 * 8 * 32, (64 + 176 + 176 + 64) * 2, 704),
    # FlashAttention 3 over a dense batch, the flag behind 21 absent arguments; with lengths in a cache nothing is known.
    ("flash_attn_3::fwd bf16[1,4,2,8] bf16[1,16,2,8] bf16[1,16,2,8] - - - - - - - - - - - - - - - - - - - - - =True =-1 =-1", 4 * 2 * 8 * 58, (64 + 256 + 256 + 64) * 2, 1024),
    ("flash_attn_3::_flash_attn_forward bf16[1,4,2,8] bf16[1,16,2,8] bf16[1,16,2,8] - - - - - - - - - - - - - - - - - - - - - =False =-1 =-1", 4 * 2 * 8 * 64, (64 + 256 + 256 + 64) * 2, 1024),
    ("flash_attn_3::fwd bf16[1,4,2,8] bf16[1,16,2,8] bf16[1,16,2,8] - - - - - - - - int32[1] - - - - - - - - - - - - =True =-1 =-1", None, None, 0),
    # Efficient attention: mask type 0 none, 1 and 2 causal; [B, L, h, d].
    ("aten::_efficient_attention_forward fp32[1,16,2,8] fp32[1,16,2,8] fp32[1,16,2,8] - - - =16 =16 =0. =2", 4 * 2 * 8 * 136, 4 * 256 * 4, 2048),
    ("aten::_efficient_attention_forward fp32[1,16,2,8] fp32[1,16,2,8] fp32[1,16,2,8] - - - =16 =16 =0. =0", 4 * 2 * 8 * 256, 4 * 256 * 4, 2048),
    # Ragged batches: three requests of 5 tokens are even, so the pairs are known: 3·15.
    ("flash_attn::_flash_attn_varlen_forward bf16[15,2,8] bf16[15,2,8] bf16[15,2,8] int32[4] int32[4] =5 =5 =0. =0.1 =True", 4 * 2 * 8 * 45, 4 * 240 * 2, 960),
    # ... and uneven ones are not: only bytes.
    ("flash_attn::_flash_attn_varlen_forward bf16[15,2,8] bf16[15,2,8] bf16[15,2,8] int32[4] int32[4] =9 =9 =0. =0.1 =True", None, 4 * 240 * 2, 960),
    ("aten::_flash_attention_forward bf16[15,2,8] bf16[15,2,8] bf16[15,2,8] int32[4] int32[4] =5 =5 =0. =False", 4 * 2 * 8 * 75, 4 * 240 * 2, 960),
    # A paged cache shows its capacity, never the used length.
    ("vllm::unified_attention_with_output bf16[32,64,64] bf16[32,8,64] bf16[32,8,64] bf16[32,64,64]", None, None, 0),
    ("_C::cpu_attention_with_kv_cache fp32[4,8,64] fp32[100,2,16,64] fp32[100,2,16,64] fp32[4,8,64] int32[3] int32[2]", None, None, 0),
    ("_vllm_fa3_C::fwd bf16[32,64,64] bf16[1000,16,8,64] bf16[1000,16,8,64]", None, None, 0),
    # AITER's dense form orders [B, L, h, d] as flash does.
    ("aiter::mha_fwd bf16[1,4,2,8] bf16[1,16,2,8] bf16[1,16,2,8] =0. =0.1 =True =-1 =-1 =0 =True =False", 4 * 2 * 8 * 58, (64 + 256 + 256 + 64) * 2, 1024),
    # Keys of three sizes are no cache: two requests of 5 tokens are even, 2·15 pairs.
    ("aiter::mha_varlen_fwd bf16[10,2,8] bf16[10,2,8] bf16[10,2,8] int32[3] int32[3] =5 =5 =0 =0. =0.1 =0. =False =True =-1 =-1", 4 * 2 * 8 * 30, 4 * 160 * 2, 640),
    (f"_vllm_fa2_C::varlen_fwd bf16[10,2,8] bf16[10,2,8] bf16[10,2,8] - int32[3] int32[3] {'- ' * 4}=5 =5 =0. =0.1 =False =True =-1 =0 =0. =False =0 -", 4 * 2 * 8 * 30, 4 * 160 * 2, 640),
    # One part of a split attention (not causal, over a cache) says nothing, whatever the step's sums are.
    ("_vllm_fa2_C::varlen_fwd bf16[10,2,8] bf16[9,16,2,8] bf16[9,16,2,8] - int32[3] - int32[2] - int32[2,4] - =5 =99 =0. =0.1 =False =False =-1 =0 =0. =False =0 -", None, None, 0),
    # Sparse MLA names its keys: 1 query, 2048 keys, 128 heads of 576 and 512: 2·2048·128·1088; a row of the 8-bit cache is 656 B.
    (f"sgl_kernel::fwd_kvcache_mla bf16[1,1,128,576] int8[9,64,1,656] =512 int32[1] int32[1,9] =0.1 =False int32[1] int32[1] =True int32[1,1,2048] {'- ' * 5}", 2 * 2048 * 128 * 1088, 2048 * 656 + 128 * 576 * 2 + 2048 * 4 + 128 * 512 * 2, 2048 * 656),
    ("sgl_kernel::sparse_prefill_fwd bf16[7,16,576] bf16[99,1,576] int32[7,1,64] =0.1 =512 - -", 2 * 7 * 64 * 16 * 1088, None, 0),
    ("sglang::sparse_mla_q8kv8_prefill fp8[7,16,576] fp8[99,1,576] int32[7,1,64] fp32[7,16] fp32[99] bf16[7,16,512] fp32[7,16] fp32[7,16] =7 =99 =16 =1 =576 =512 =64 =0.1 =0", 2 * 7 * 64 * 16 * 1088, None, 0),
    # FlashMLA's dense prefill: keys of 192, values of 128, causal by mask 1: 2 even requests of 5.
    ("_flashmla_C::dense_prefill_fwd uint8[64] bf16[10,2,192] bf16[10,2,192] bf16[10,2,128] int32[3] int32[3] bf16[10,2,128] fp32[2,10] =1 =0.1 =5 =5 =True", 2 * 30 * 2 * 320, (3840 + 3840 + 2560 + 2560) * 2, (3840 + 2560) * 2),
    # Backward: five products over 136 causal pairs; gradient, result, q, k, v read and three gradients written.
    ("aten::_scaled_dot_product_flash_attention_for_cpu_backward fp32[1,2,16,8] fp32[1,2,16,8] fp32[1,2,16,8] fp32[1,2,16,8] fp32[1,2,16,8] fp32[1,2,16] =0. =True", 10 * 136 * 2 * 8, 8 * 256 * 4, 2048),
]  # fmt: skip


@pytest.mark.parametrize(("text", "flops", "dram_bytes", "kv_bytes"), CASES, ids=[case[0] for case in CASES])
def test_attention(
    work_of: Callable[[str], OpWork | None],
    text: str,
    flops: float | None,
    dram_bytes: float | None,
    kv_bytes: float,
) -> None:
    work = work_of(text)
    assert (work.flops, work.dram_bytes, work.kv_bytes) == (flops, dram_bytes, kv_bytes)


@pytest.mark.parametrize(
    ("queries", "keys", "causal", "expected"),
    [
        (5, 5, False, 25),
        (5, 5, True, 15),
        (1, 9, True, 9),
        (4, 16, True, 58),
        (3, 2, True, 3),
        (512, 512, True, 131_328),
    ],
)
def test_pairs_count_what_a_bottom_right_mask_leaves(
    queries: int, keys: int, causal: bool, expected: float
) -> None:
    assert pairs(queries, keys, causal=causal) == expected


def test_pairs_agree_with_a_mask_drawn_out() -> None:
    for queries in range(1, 7):
        for keys in range(1, 7):
            mask = np.tri(queries, keys, keys - queries)
            assert pairs(queries, keys, causal=True) == mask.sum()


def test_window_pairs_agree_with_a_banded_mask_drawn_out() -> None:
    for keys in range(1, 9):
        for queries in range(1, keys + 1):
            for window in range(1, 10):
                past = keys - queries
                band = np.tri(queries, keys, past) - np.tri(queries, keys, past - window)
                assert window_pairs(queries, keys, window) == band.sum()


def sums(lengths: list[tuple[int, int]]) -> tuple[npt.NDArray[np.float64], ...]:
    """Sums over requests of (query tokens, key tokens)."""
    q, k = np.array(lengths, dtype=np.float64).T
    return q.sum(), k.sum(), (q * q).sum(), (q * k).sum()


def test_a_mixed_step_from_its_sums_equals_its_requests_one_by_one() -> None:
    requests = [(16, 16), (4, 20), (1, 300), (1, 7)]
    flops, dram_bytes, kv = step_attention(Heads(8, 2, 64, 64, 2, 2), *sums(requests))
    assert flops == sum(4 * 8 * 64 * pairs(q, k, causal=True) for q, k in requests)
    assert kv == 2 * 2 * 64 * 2 * (16 + 20 + 300 + 7)
    assert dram_bytes == kv + 2 * 8 * 64 * 2 * (16 + 4 + 1 + 1)


@pytest.mark.parametrize(
    ("batch", "kv_heads", "flops", "kv_bytes"),
    # The worked table: L = 1000, 32 heads of 128, bf16: 16.4 MF and 16.4 MB; 64 requests 1.05 GF and 1.05 GB; 8 KV heads 263 MB.
    [(1, 32, 16.4e6, 16.4e6), (64, 32, 1.05e9, 1.05e9), (64, 8, 1.05e9, 263e6)],
)
def test_the_worked_table_of_decode_attention(
    batch: int, kv_heads: int, flops: float | None, kv_bytes: float
) -> None:
    found, _bytes, kv = step_attention(Heads(32, kv_heads, 128, 128, 2, 2), *sums([(1, 1000)] * batch))
    assert found == pytest.approx(flops, rel=0.005)
    assert kv == pytest.approx(kv_bytes, rel=0.005)


def test_the_worked_table_of_causal_prefill(work_of: Callable[[str], OpWork | None]) -> None:
    # L = 512: 2.1 GF, 16.8 MB, I = 128; L = 8192: 550 GF, 268 MB, I = 2048.
    for length, flops, size, intensity in ((512, 2.1e9, 16.8e6, 128), (8192, 550e9, 268e6, 2048)):
        tensor = f"bf16[1,32,{length},128]"
        work = work_of(f"aten::scaled_dot_product_attention {tensor} {tensor} {tensor} - =0. =True")
        assert work.flops == pytest.approx(flops, rel=0.03)
        assert work.dram_bytes == pytest.approx(size, rel=0.005)
        assert work.flops / work.dram_bytes == pytest.approx(intensity, rel=0.005)


def test_absorbed_mla_decode_has_an_intensity_near_242() -> None:
    # DeepSeek-V3: 128 heads, latent 512, rope 64, bf16: 2·128·(1024 + 64)/(576·2) = 241.8 FLOP/byte.
    flops, size = mla_absorbed(128, 1000.0, 512, 64, 2.0)
    assert flops == 278_528_000
    assert flops / size == pytest.approx(242, rel=0.001)


def test_combining_splits_adds_three_operations_an_element() -> None:
    assert combine(2, 4, 8, 16) == (3 * 2 * 4 * 8 * 16, 2 * 4 * 8 * 17 * 8)
