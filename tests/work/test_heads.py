"""Attention whose key lengths are device data: what the recorded sizes say of its heads, and what step sums make of them."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from tracekit.work import OpWork
from tracekit.work.attention import pairs
from tracekit.work.registered import Heads
from tracekit.work.sums import Sums, attention_from_sums

LATENT = Heads(128, 1, 576, 512, 2, 2.0, cached=576)
FA3 = "- " * 4
CASES = [
    # Plain heads: query heads, KV heads, sizes of a key and a value, bytes of a query and a cached element.
    ("_vllm_fa3_C::fwd bf16[32,64,64] fp8[1000,16,8,64] fp8[1000,16,8,64]", Heads(64, 8, 64, 64, 2, 1.0)),
    ("_C::paged_attention_v1 bf16[4,32,128] bf16[4,32,128] bf16[99,8,16,16,8] bf16[99,8,128,16]", Heads(32, 8, 128, 128, 2, 2.0)),
    ("_C::paged_attention_v1 bf16[4,32,128] bf16[4,32,128] bf16[99,8,8,16,8] bf16[99,8,128,16]", None),
    ("aiter::pa_fwd_asm bf16[4,32,128] fp8[99,8,8,16,16] fp8[99,8,1,128,16] int32[4,9] int32[4]", Heads(32, 8, 128, 128, 2, 1.0)),
    ("aiter::mha_batch_prefill bf16[40,32,128] bf16[99,16,8,128] bf16[99,16,8,128] int32[5] int32[5] int32[9] =10 =99 =0. =0.1 =0. =False =True =-1 =-1", Heads(32, 8, 128, 128, 2, 2.0)),
    ("aiter::mha_batch_prefill bf16[40,32,128] bf16[99,8,16,16,8] bf16[99,8,2,128,8] int32[5] int32[5] int32[9] =10 =99", Heads(32, 8, 128, 128, 2, 2.0)),
    ("aiter::paged_attention_v1 bf16[4,32,128] uint8[64] bf16[4,32,128] bf16[99,8,16,128] bf16[99,8,16,128] =0.1 int32[4,9] - int32[4] =99 - =auto =HND", Heads(32, 8, 128, 128, 2, 2.0)),
    ("aiter::paged_attention_v1 bf16[4,32,128] uint8[64] bf16[4,32,128] bf16[99,16,8,128] bf16[99,16,8,128] =0.1 int32[4,9] - int32[4] =99 - =auto =NHD", Heads(32, 8, 128, 128, 2, 2.0)),
    ("flashinfer::batch_decode_with_kv_cache_run uint8[9] uint8[9] =[1] bf16[4,32,128] bf16[99,16,8,128] bf16[99,16,8,128] int32[5] int32[9] int32[4] bf16[4,32,128] - =0 =-1 =False", Heads(32, 8, 128, 128, 2, 2.0)),
    ("flashinfer::batch_prefill_with_kv_cache_paged_run uint8[9] uint8[9] =[1] bf16[4,32,128] bf16[99,8,16,128] bf16[99,8,16,128] int32[5] int32[5] int32[9] int32[4] bf16[4,32,128] - =1 =1 =127", Heads(32, 8, 128, 128, 2, 2.0, window=128)),
    ("flashinfer::batch_prefill_with_kv_cache_ragged_run uint8[9] uint8[9] =[1] bf16[4,32,128] bf16[64,8,128] bf16[64,8,128] int32[5] int32[5] bf16[4,32,128] - =1 =0 =-1", Heads(32, 8, 128, 128, 2, 2.0, keys=64)),
    # A left window of 127 keys shows a query 128.
    (f"_vllm_fa3_C::fwd bf16[32,64,64] bf16[99,16,8,64] bf16[99,16,8,64] - - - bf16[32,64,64] int32[3] - - - int32[2] =16 =99 int32[2,9] {FA3}- - - - =0.1 =True =127 =0", Heads(64, 8, 64, 64, 2, 2.0, window=128)),
    ("_vllm_fa2_C::varlen_fwd bf16[32,64,64] bf16[99,16,8,64] bf16[99,16,8,64] - int32[3] - int32[2] int32[2,9] - =16 =99 =0. =0.1 =False =True =127 =0 =0. =False -", Heads(64, 8, 64, 64, 2, 2.0, window=128)),
    # Absorbed MLA: every head meets the latent of 512 and the rope part of 64; one row of the cache serves all.
    ("_flashmla_C::fwd_kvcache_mla bf16[4,1,128,576] bf16[99,64,1,576] =512 int32[4] int32[4,9] =0.1 =True int32[9,8] int32[5]", LATENT),
    ("_flashmla_C::fwd_kvcache_mla bf16[4,1,128,576] bf16[99,64,1,576] - =512 int32[4] int32[4,9] =0.1 =True int32[9,8] int32[5]", LATENT),
    ("_flashmla_C::fwd_kvcache_mla bf16[4,1,128,576] bf16[99,64,1,576] =-512 int32[4] int32[4,9]", None),
    ("sgl_kernel::dense_decode_fwd bf16[4,1,128,576] bf16[99,64,1,576] =512 int32[4] int32[4,9] =0.1 =True - -", LATENT),
    ("_flashmla_extension_C::fwd_kvcache_mla_fp8 fp8[4,1,128,576] fp8[99,64,1,576] =512 int32[4] int32[4,9] =0.1 =True int32[9,8] int32[5] fp32[1] fp32[1]", Heads(128, 1, 576, 512, 1, 1.0, cached=576)),
    ("sgl_kernel::cutlass_mla_decode bf16[4,128,512] bf16[4,128,512] bf16[4,128,64] bf16[99,128,576] int32[4] int32[4,9] uint8[9]", LATENT),
    ("_C::sm100_cutlass_mla_decode bf16[4,128,512] fp32[4,128] bf16[4,128,512] bf16[4,128,64] bf16[99,128,576] int32[4]", LATENT),
    ("vllm::rocm_aiter_mla_decode_fwd bf16[4,128,576] bf16[99,1,1,576] bf16[4,128,512] int32[5] =1 int32[5] int32[9]", LATENT),
    ("_C::mla_decode_kvcache bf16[4,128,512] bf16[4,128,576] bf16[99,16,576] =0.1 int32[4,9] int32[4]", LATENT),
    ("aiter::mla_prefill_asm_fwd bf16[4,128,576] bf16[99,1,1,576] int32[5] int32[5] int32[9] int32[4] =1 =0.1 fp32[4,2,128,512] fp32[4,2,128,1]", LATENT),
    # SGLang on a CPU: plain heads, and a latent of which the values are a part.
    ("sgl_kernel::decode_attention_cpu bf16[4,32,128] bf16[999,8,128] bf16[999,8,128] bf16[4,32,128]", Heads(32, 8, 128, 128, 2, 2.0)),
    ("sgl_kernel::decode_attention_cpu bf16[4,128,576] bf16[999,1,576] bf16[999,1,512] bf16[4,128,512]", LATENT),
    ("sgl_kernel::extend_attention_cpu bf16[4,32,128] bf16[4,8,128] bf16[4,8,128] bf16[4,32,128] fp8[999,8,128] fp8[999,8,128]", Heads(32, 8, 128, 128, 2, 1.0)),
    # FlashAttention 3 takes the latent as values and as a second part of the queries.
    ("sgl_kernel::fwd bf16[4,128,64] bf16[99,64,1,64] bf16[99,64,1,512] - - bf16[4,128,512]", LATENT),
]  # fmt: skip


@pytest.mark.parametrize(("text", "heads"), CASES, ids=[case[0] for case in CASES])
def test_heads(work_of: Callable[[str], OpWork | None], text: str, heads: Heads | None) -> None:
    work = work_of(text)
    assert (None if work is None else work.heads) == heads
    assert work is None or (work.flops is None and work.absorbed is None)


def steps(*requests: list[tuple[int, int]], classes: tuple[tuple[int, int], ...] = ()) -> Sums:
    """The sums of steps over requests of (query tokens, key tokens), and how many of them prefill and decode."""
    rows = []
    for lengths in requests:
        q, k = np.array(lengths, dtype=np.float64).T
        rows.append((q.sum(), k.sum(), (q * q).sum(), (q * k).sum()))
    frame = pd.DataFrame(rows, columns=["sum_q", "sum_k", "sum_qq", "sum_qk"]).assign(
        step_id=range(len(rows))
    )
    if classes:
        frame[["context_requests", "generation_requests"]] = classes
    return Sums.of(frame, np.arange(len(rows), dtype=np.float64))


MLA = "vllm::unified_mla_attention_with_output bf16[{t},128,192] bf16[{t},512] bf16[{t},1,64] bf16[{t},16384]"


def test_mla_is_absorbed_for_one_query_a_request_and_expanded_for_more(
    work_of: Callable[[str], OpWork | None],
) -> None:
    # DeepSeek-V3: decode of 1000 and 3000 keys, 2·128·4000·(2·512 + 64); prefill of 100 tokens, 5050 pairs of 192 and 128.
    sums = steps([(1, 1000), (1, 3000)], [(100, 100)])
    flops, _bytes, kv = attention_from_sums(work_of(MLA.format(t=102)), sums, 2.0)
    assert flops.tolist() == [2 * 128 * 4000 * 1088, 2 * 128 * 5050 * 320]
    assert kv.tolist() == [4000 * 576 * 2, 100 * 576 * 2]


def test_mla_of_a_mixed_step_is_unknown(work_of: Callable[[str], OpWork | None]) -> None:
    sums = steps([(1, 1000), (50, 50)], classes=((1, 1),))
    flops, dram_bytes, _kv = attention_from_sums(work_of(MLA.format(t=51)), sums, 2.0)
    assert np.isnan(flops).all()
    assert np.isnan(dram_bytes).all()


def test_mla_without_its_output_knows_the_absorbed_form_alone(
    work_of: Callable[[str], OpWork | None],
) -> None:
    work = work_of("vllm::unified_mla_attention bf16[2,128,192] bf16[2,512] bf16[2,1,64]")
    flops, _bytes, _kv = attention_from_sums(work, steps([(1, 1000), (1, 3000)], [(100, 100)]), 2.0)
    assert flops[0] == 2 * 128 * 4000 * 1088
    assert np.isnan(flops[1])


def test_a_recorded_window_bounds_pairs_and_keys() -> None:
    work = OpWork(None, None, "bf16", "bf16", heads=Heads(8, 2, 64, 64, 2, 2, window=128))
    sums = steps([(1, 1000), (1, 3000)], [(1, 50)], classes=((0, 2), (0, 1)))
    flops, _bytes, kv = attention_from_sums(work, sums)
    # Two queries see 128 keys each; one sees all of its 50.
    assert flops.tolist() == [4 * 8 * 64 * 256, 4 * 8 * 64 * 50]
    assert kv.tolist() == [256 * 2 * 128 * 2, 50 * 2 * 128 * 2]


def test_sums_over_other_keys_than_the_call_was_given_are_not_of_it(
    work_of: Callable[[str], OpWork | None],
) -> None:
    # New tokens against new tokens, where the step's requests also look back: the sums count pairs that this call has not.
    work = work_of(
        "flash_attn::_flash_attn_varlen_forward bf16[15,2,8] bf16[15,2,8] bf16[15,2,8] int32[4] int32[4] =9 =9 =0. =0.1 =True"
    )
    flops, _bytes, _kv = attention_from_sums(work, steps([(9, 9), (6, 6)], [(9, 59), (6, 6)]))
    assert flops[0] == 4 * 2 * 8 * (pairs(9, 9, causal=True) + pairs(6, 6, causal=True))
    assert np.isnan(flops[1])
