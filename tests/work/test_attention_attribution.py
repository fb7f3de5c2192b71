"""Whose work attention does: its inner ops, latent attention, windows, and layers that see less than they say."""

import numpy as np
import pandas as pd
from workbuilder import Call, Row, listed, run


def test_attention_by_products_stands_down_for_them() -> None:
    q = [1, 2, 4, 8]
    product = ("aten::bmm", [[2, 4, 8], [2, 8, 4]], ["float"] * 2)
    calls = [("aten::_scaled_dot_product_attention_math", [q, q, q], ["float"] * 3), product]
    assert listed(run([(0, 5, "cpu_op"), (1, 90, "cpu_op")], [-1, 0], calls).flops) == [0, 2 * 2 * 4 * 8 * 4]


def test_attention_keeps_its_own_work_beside_an_inner_cache_write() -> None:
    heads = [[4, 2, 8], [4, 1, 8], [4, 1, 8], [4, 2, 8]]
    calls = [
        ("vllm::unified_attention_with_output", heads, ["c10::BFloat16"] * 4),
        (
            "_C_cache_ops::reshape_and_cache_flash",
            [*heads[1:3], [9, 16, 1, 8], [9, 16, 1, 8], [4]],
            ["c10::BFloat16"] * 2 + ["unsigned char"] * 2 + ["long int"],
        ),
    ]
    sums = {"step_id": [7], "sum_q": [4.0], "sum_k": [100.0], "sum_qq": [4.0], "sum_qk": [100.0]}
    work = run([(1, 5, "kernel"), (0, 90, "kernel")], [-1, 0], calls, pd.DataFrame(sums), step_id=7)
    # A = 100; 4·2·8·100; K and V in one byte as the cache's type says, queries and results in two.
    assert listed(work.flops) == [2 * 2 * 32, 6400]
    assert listed(work.kv_bytes) == [64, 1600]
    assert listed(work.dram_bytes) == [2 * 32 * 3 + 32, 1600 + 2 * 64 * 2]
    assert listed(work.flops_source) == ["shape", "annotation"]


MLA = (
    "vllm::unified_mla_attention_with_output",
    [[4, 2, 192], [4, 512], [4, 1, 64], [4, 256]],
    ["c10::BFloat16"] * 4,
)
DECODE_SUMS = pd.DataFrame(
    {"step_id": [7], "sum_q": [4.0], "sum_k": [100.0], "sum_qq": [4.0], "sum_qk": [100.0]}
)
# Absorbed: 2·A·h·(2·512 + 64) over A = 100 pairs and 2 heads.
ABSORBED = 2.0 * 100 * 2 * 1088


def test_latent_attention_leaves_its_products_to_their_own_ops() -> None:
    product = ("aten::bmm", [[2, 4, 128], [2, 128, 512]], ["c10::BFloat16"] * 2)
    families = ["gemm", "attn.mla", "gemm"]
    rows: list[Row] = [(1, 500, "kernel"), (0, 90, "kernel"), (0, 800, "kernel")]
    work = run(rows, [-1, 0], [MLA, product], DECODE_SUMS, step_id=7, family=families)
    # The product that the op launches itself, without an op of its own, is unknown and not nothing.
    assert listed(work.flops) == [2.0 * 2 * 4 * 128 * 512, ABSORBED, None]


def test_latent_attention_stands_down_for_the_attention_op_inside_it() -> None:
    inner = (
        "_flashmla_C::fwd_kvcache_mla",
        [[4, 1, 2, 576], [9, 64, 1, 576], [], [4], [4, 9]],
        ["c10::BFloat16", "c10::BFloat16", "Scalar", "int", "int"],
        None,
        ["", "", "512", "", ""],
    )
    rows: list[Row] = [(1, 90, "kernel"), (0, 800, "kernel")]
    work = run(rows, [-1, 0], [MLA, inner], DECODE_SUMS, step_id=7, family=["attn.mla", "gemm"])
    assert listed(work.flops) == [ABSORBED, None]


def test_latent_attention_of_a_mixed_step_is_shared_by_its_kernels() -> None:
    whole = {"sum_q": 4.0, "sum_k": 102.0, "sum_qq": 6.0, "sum_qk": 104.0}
    context = {"context_requests": 1, "context_tokens": 2, "context_sum_k": 2.0, "context_sum_qq": 4.0}
    sums = pd.DataFrame([{"step_id": 7, "generation_requests": 2, "context_sum_qk": 4.0} | whole | context])
    # Two layers, a kernel for each side and one that merges parts: none is forgotten for being short.
    rows: list[Row] = [(layer, time, "kernel") for layer in (0, 1) for time in (300, 100, 7)]
    family = ["attn.flash", "attn.mla", "attn.combine"] * 2
    work = run(rows, [-1, -1], [MLA, MLA], sums, step_id=7, family=family)
    # Absorbed, 2·100·2·1088, and expanded, 3 pairs of 192 and 128: together 3/4 and 1/4 by time.
    total = ABSORBED + 2 * 3 * 2 * (192 + 128)
    assert listed(work.flops) == [total * 0.75, total * 0.25, 0] * 2
    assert listed(work.kv_bytes)[:2] == [102 * 576 * 2 * 0.75, 102 * 576 * 2 * 0.25]
    assert work["flags"].isna().all()


def test_a_recorded_window_is_counted_and_its_times_are_not_judged() -> None:
    def paged(left: int) -> Call:
        dims = [[4, 2, 8], [99, 16, 1, 8], [99, 16, 1, 8], *[[]] * 23]
        concrete = [*[""] * 24, "True", str(left)]
        return ("_vllm_fa3_C::fwd", dims, [*["c10::BFloat16"] * 3, *["Scalar"] * 23], None, concrete)

    rows: list[Row] = [(0, 10, "kernel"), (1, 90, "kernel"), (2, 10, "kernel"), (3, 90, "kernel")]
    calls = [paged(4), paged(-1)] * 2
    work = run(rows, [-1] * 4, calls, DECODE_SUMS, step_id=7, family=["attn.flash"] * 4)
    # A window of 5 keys: 4 queries see 20 of 100.
    assert listed(work.flops) == [4 * 2 * 8 * 20, 4 * 2 * 8 * 100] * 2
    assert work["flags"].isna().all()


def test_without_sums_paged_attention_is_unknown() -> None:
    heads = [[4, 2, 8], [4, 1, 8], [4, 1, 8], [4, 2, 8]]
    calls = [("vllm::unified_attention_with_output", heads, ["c10::BFloat16"] * 4)]
    steps = pd.DataFrame(
        {"step_id": [7], "sum_q": [4.0], "sum_k": [np.nan], "sum_qq": [4.0], "sum_qk": [np.nan]}
    )
    work = run([(0, 90, "kernel")], [-1], calls, steps, step_id=7)
    assert listed(work.flops) == [None]
    assert work["dtype"].iloc[0] == "bf16"


def attention_times(*durations: int) -> pd.DataFrame:
    heads = [[4, 2, 8], [4, 1, 8], [4, 1, 8], [4, 2, 8]]
    calls = [("vllm::unified_attention_with_output", heads, ["c10::BFloat16"] * 4)] * len(durations)
    steps = pd.DataFrame(
        {"step_id": [7], "sum_q": [4.0], "sum_k": [100.0], "sum_qq": [4.0], "sum_qk": [100.0]}
    )
    rows = [(at, duration, "kernel") for at, duration in enumerate(durations)]
    return run(rows, [-1] * len(durations), calls, steps, step_id=7)


def test_layers_that_are_far_faster_than_the_others_did_not_see_all_keys() -> None:
    work = attention_times(100, 20, 104, 22)
    assert listed(work.flops) == [6400, None, 6400, None]
    assert listed(work.kv_bytes) == [3200, None, 3200, None]
    assert listed(work.flops_source) == ["annotation", None, "annotation", None]
    assert listed(work["flags"]) == [None, "windowed_attention", None, "windowed_attention"]


def test_times_of_one_group_or_one_outlier_stay() -> None:
    assert listed(attention_times(100, 90, 104, 120).flops) == [6400] * 4
    assert listed(attention_times(100, 20, 104, 120).flops) == [6400] * 4
