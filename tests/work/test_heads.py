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
    # FlashInfer's compiled modules name the op; a mask that is not causal (code 0) is one part of a split attention.
    ("batch_decode_with_kv_cache_dtype_q_bf16_head_dim_qk_128::run uint8[9] uint8[9] int64[9] bf16[4,32,128] bf16[99,16,8,128] bf16[99,16,8,128] int32[5] int32[9] int32[4] bf16[4,32,128] - =0 =-1 =False", Heads(32, 8, 128, 128, 2, 2.0)),
    ("batch_prefill_with_kv_cache_dtype_q_bf16_sm90::paged_run uint8[9] uint8[9] int64[9] bf16[4,32,128] bf16[99,16,8,128] bf16[99,16,8,128] int32[5] int32[5] int32[9] int32[4] bf16[4,32,128] - =1 =0 =-1", Heads(32, 8, 128, 128, 2, 2.0)),
    ("batch_prefill_with_kv_cache_dtype_q_bf16_sm90::paged_run uint8[9] uint8[9] int64[9] bf16[4,32,128] bf16[99,16,8,128] bf16[99,16,8,128] int32[5] int32[5] int32[9] int32[4] bf16[4,32,128] - =0 =0 =-1", None),
    ("batch_prefill_with_kv_cache_dtype_q_bf16::ragged_run uint8[9] uint8[9] int64[9] bf16[4,32,128] bf16[64,8,128] bf16[64,8,128] int32[5] int32[5] bf16[4,32,128] - =1 =0 =-1", Heads(32, 8, 128, 128, 2, 2.0, keys=64)),
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


def totals(lengths: list[tuple[int, int]]) -> list[float]:
    """Query tokens, keys, squared queries, and queries times keys, summed over requests."""
    q, k = np.array(lengths or [(0, 0)], dtype=np.float64).T
    return [q.sum(), k.sum(), (q * q).sum(), (q * k).sum()]


def steps(*requests: list[tuple[int, int]], classes: tuple[tuple[int, int], ...] = ()) -> Sums:
    """The sums of steps over requests of (query tokens, key tokens), and how many of them prefill and decode."""
    frame = pd.DataFrame(map(totals, requests), columns=["sum_q", "sum_k", "sum_qq", "sum_qk"]).assign(
        step_id=range(len(requests))
    )
    if classes:
        frame[["context_requests", "generation_requests"]] = classes
    return Sums.of(frame, np.arange(len(requests), dtype=np.float64))


def mixed(context: list[tuple[int, int]], generation: list[tuple[int, int]]) -> Sums:
    """The sums of one step whose engine says those of its prefilling and of its decoding requests apart."""
    whole, part = totals([*context, *generation]), totals(context)
    names = ["sum_q", "sum_k", "sum_qq", "sum_qk"]
    sides = ["context_tokens", "context_sum_k", "context_sum_qq", "context_sum_qk"]
    counts = ["context_requests", "generation_requests"]
    row = [*whole, *part, len(context), len(generation)]
    return Sums.of(pd.DataFrame([row], columns=[*names, *sides, *counts]).assign(step_id=0), np.zeros(1))


MLA = "vllm::unified_mla_attention_with_output bf16[{t},128,192] bf16[{t},512] bf16[{t},1,64] bf16[{t},16384]"


def test_mla_is_absorbed_for_one_query_a_request_and_expanded_for_more(
    work_of: Callable[[str], OpWork | None],
) -> None:
    # DeepSeek-V3: decode of 1000 and 3000 keys, 2·128·4000·(2·512 + 64); prefill of 100 tokens, 5050 pairs of 192 and 128.
    sums = steps([(1, 1000), (1, 3000)], [(100, 100)])
    flops, _bytes, kv = attention_from_sums(work_of(MLA.format(t=102)), sums, 2.0)
    assert flops.tolist() == [2 * 128 * 4000 * 1088, 2 * 128 * 5050 * 320]
    assert kv.tolist() == [4000 * 576 * 2, 100 * 576 * 2]


def test_mla_of_a_mixed_step_adds_both_forms(work_of: Callable[[str], OpWork | None]) -> None:
    # Two requests decode over 1000 and 3000 keys, absorbed: 2·128·4000·(2·512 + 64). One prefills 50 tokens on 30
    # cached ones, expanded: 50·30 + 50·51/2 = 2775 pairs of keys of 192 and values of 128.
    sums = mixed([(50, 80)], [(1, 1000), (1, 3000)])
    flops, dram_bytes, kv = attention_from_sums(work_of(MLA.format(t=52)), sums, 2.0)
    assert flops.tolist() == [2 * 128 * 4000 * 1088 + 2 * 128 * 2775 * 320]
    # Each key's latent and rope part once; absorbed queries and results are of 576 and 512, expanded of 192 and 128.
    assert kv.tolist() == [4080 * 576 * 2]
    assert dram_bytes.tolist() == [4080 * 576 * 2 + 2 * 128 * 1088 * 2 + 50 * 128 * 320 * 2]


def test_mla_of_a_mixed_step_is_unknown_where_its_sides_are_not_told_apart(
    work_of: Callable[[str], OpWork | None],
) -> None:
    sums = steps([(1, 1000), (50, 50)], classes=((1, 1),))
    # Two query tokens a request, as in verification: whether they are absorbed is not known.
    for unclear in (sums, mixed([(50, 50)], [(2, 1000)])):
        flops, dram_bytes, _kv = attention_from_sums(work_of(MLA.format(t=51)), unclear, 2.0)
        assert np.isnan(flops).all()
        assert np.isnan(dram_bytes).all()


def test_a_call_for_one_side_of_a_mixed_step_takes_the_sums_of_that_side(
    work_of: Callable[[str], OpWork | None],
) -> None:
    sums = mixed([(50, 80)], [(1, 1000), (1, 3000)])

    def flops_of(text: str, given: Sums = sums) -> float:
        return float(attention_from_sums(work_of(text), given)[0][0])

    paged = "_vllm_fa3_C::fwd bf16[{t},64,64] bf16[1000,16,8,64] bf16[1000,16,8,64]"
    pair = 4 * 64 * 64
    assert flops_of(paged.format(t=2)) == pair * 4000
    assert flops_of(paged.format(t=50)) == pair * 2775
    # All of the step, also where its tokens are padded to the size of a captured graph.
    assert flops_of(paged.format(t=52)) == flops_of(paged.format(t=64)) == pair * 6775
    assert np.isnan(flops_of(paged.format(t=20)))
    # As many tokens on each side: it could be either.
    assert np.isnan(flops_of(paged.format(t=2), mixed([(2, 9)], [(1, 1000), (1, 3000)])))
    # Sides that the engine does not tell apart.
    assert np.isnan(flops_of(paged.format(t=2), steps([(50, 80), (1, 1000), (1, 3000)], classes=((1, 2),))))
    mla = "_flashmla_C::fwd_kvcache_mla bf16[2,1,128,576] bf16[99,64,1,576] =512 int32[2] int32[2,9]"
    assert flops_of(mla) == 2 * 128 * 4000 * 1088
    # Keys and values handed over, not cached, are those of one side as well.
    varlen = "flash_attn::_flash_attn_varlen_forward bf16[50,2,8] bf16[{k},2,8] bf16[{k},2,8] int32[2] int32[2] =50 =99 =0. =0.1 =True"
    assert flops_of(varlen.format(k=80)) == 4 * 2 * 8 * 2775
    assert np.isnan(flops_of(varlen.format(k=50), mixed([(50, 80), (1, 7)], [(1, 1000)])))


# Where each argument of TensorRT-LLM's fused attention stands, as release 1.0 registers it; what is not named is absent.
ARGUMENTS = (
    "q k v output output_sf out_dtype workspace sequence_length past context_lengths host_context_lengths request_types "
    "blocks host_blocks pools mapping indirection orig_quant quant_orig out_scale inv_freq cos_sin latent_cache q_pe "
    "block_ids sinks fused update predicted layer heads kv_heads size tokens_per_block requests longest window sink beams "
    "mask quant_mode scaling position rotary_dim rotary_base rotary_type rotary_scales rotary_max paged_context "
    "input_type mla q_rank kv_rank nope rope value mrope_cos mrope_deltas paged_kv paged_offsets chunk stats spec spec_tensors"
)
PLAIN = {
    "fused": "=True", "update": "=True", "predicted": "=1", "layer": "=0", "heads": "=32", "kv_heads": "=8", "size": "=128",
    "tokens_per_block": "=32", "requests": "=64", "longest": "=8192", "window": "=8192", "sink": "=0", "beams": "=1",
    "mask": "=1", "quant_mode": "=0", "scaling": "=1.", "position": "=0", "rotary_dim": "=128", "rotary_base": "=10000.",
    "rotary_type": "=0", "rotary_scales": "=[1.,1.,1.]", "rotary_max": "=[8192,8192]", "paged_context": "=False",
    "input_type": "=0", "mla": "=False", "spec": "=[False,False,False]", "sequence_length": "int32[4]",
}  # fmt: skip


def trtllm(q: str, output: str = "-", without: tuple[str, ...] = (), **given: object) -> str:
    said = PLAIN | {"q": q, "output": output} | {name: f"={value}" for name, value in given.items()}
    return " ".join(
        [
            "trtllm::attention_inplace",
            *(said.get(name, "-") for name in ARGUMENTS.split() if name not in without),
        ]
    )


MLA_SIZES = {"q_rank": 1536, "kv_rank": 512, "nope": 128, "rope": 64, "value": 128, "mla": True}
TRTLLM_CASES = [
    # Queries, keys and values in one tensor: (32 + 2·8)·128 = 6144.
    (trtllm("bf16[4,6144]", "bf16[4,4096]"), Heads(32, 8, 128, 128, 2, 2.0, window=8192)),
    (trtllm("bf16[4,4096]", "bf16[4,4096]", fused=False), Heads(32, 8, 128, 128, 2, 2.0, window=8192)),
    # An fp8 cache (bit 7), fp8 results, a window of 4096 keys.
    (trtllm("bf16[4,6144]", "fp8[4,4096]", quant_mode=128, window=4096), Heads(32, 8, 128, 128, 1.5, 1.0, window=4096)),
    # A cache of NVFP4 (bit 13): half a byte, and a scale a block of 16.
    (trtllm("bf16[4,6144]", "bf16[4,4096]", quant_mode=8192), Heads(32, 8, 128, 128, 2, 0.5625, window=8192)),
    # Older releases have neither scales of the output nor sinks.
    (trtllm("bf16[4,6144]", "bf16[4,4096]", ("output_sf", "sinks")), Heads(32, 8, 128, 128, 2, 2.0, window=8192)),
    # MLA: absorbed in generation, h·(512 + 64) wide; expanded in context, 2·h·192 + h·128 wide.
    (trtllm("bf16[4,73728]", "bf16[4,65536]", heads=128, kv_heads=1, size=576, input_type=2, **MLA_SIZES), LATENT),
    (trtllm("bf16[9,65536]", "bf16[9,16384]", heads=128, kv_heads=128, size=192, input_type=1, **MLA_SIZES), Heads(128, 128, 192, 128, 2, 2.0, cached=576)),
    # A width that its heads do not give, beams, a mask that is not causal, chunks of 8192, MLA of both sides at once.
    (trtllm("bf16[4,6145]"), None),
    (trtllm("bf16[4,6144]", beams=4), None),
    (trtllm("bf16[4,6144]", mask=0), None),
    (trtllm("bf16[4,6144]", chunk=8192), None),
    (trtllm("bf16[4,73728]", heads=128, kv_heads=1, size=576, **MLA_SIZES), None),
    ("trtllm::attention_inplace bf16[4,6144] - - bf16[4,4096]", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "heads"), TRTLLM_CASES)
def test_heads_of_tensorrt_llm(
    work_of: Callable[[str], OpWork | None], text: str, heads: Heads | None
) -> None:
    work = work_of(text)
    assert (None if work is None else work.heads) == heads
    assert work is None or (work.flops, work.dram_bytes) == (None, None)


def test_tensorrt_llm_completes_with_the_sums_of_its_step(work_of: Callable[[str], OpWork | None]) -> None:
    sums = mixed([(50, 80)], [(1, 1000), (1, 3000)])
    both = work_of(trtllm("bf16[52,6144]", "bf16[52,4096]"))
    assert attention_from_sums(both, sums)[0].tolist() == [4 * 32 * 128 * 6775]
    # MLA is one call for generation and one for context.
    size = {"heads": 128, "kv_heads": 1, "size": 576, "input_type": 2} | MLA_SIZES
    absorbed = work_of(trtllm("bf16[2,73728]", "bf16[2,65536]", **size))
    flops, _bytes, kv = attention_from_sums(absorbed, sums)
    assert (flops.tolist(), kv.tolist()) == ([2 * 128 * 4000 * 1088], [4000 * 576 * 2])


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
