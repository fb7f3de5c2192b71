"""Whose work a kernel does: the nearest modelled op, its main kernel, and nothing counted twice."""

import json
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.tables import LINKED, OP_TREE, SIGNATURES
from tracekit.work import model_work

# Name, dims, types, strides, concrete; and op row, duration, kind.
Call: TypeAlias = tuple[Any, ...]
Row: TypeAlias = tuple[int | None, int, str]

MM = ("aten::mm", [[64, 32], [32, 16]], ["c10::BFloat16"] * 2)
MM_FLOPS, MM_BYTES, MM_WEIGHTS = 65_536.0, (2048 + 512 + 1024) * 2.0, 1024.0


def signatures(*calls: Call) -> pd.DataFrame:
    rows = [
        (name, *(None if value is None else json.dumps(value) for value in (*rest, *[None] * 4)[:4]))
        for name, *rest in calls
    ]
    return SIGNATURES.conform(pd.DataFrame(rows, columns=["op", "dims", "types", "strides", "concrete"]))


def tree(parents: list[int], calls: list[Call]) -> pd.DataFrame:
    """One op a call, on one thread, under the given parents."""
    depth = []
    for parent in parents:
        depth.append(0 if parent < 0 else depth[parent] + 1)
    count = len(parents)
    return OP_TREE.conform(
        pd.DataFrame(
            {
                "name": [call[0] for call in calls],
                "ts_ns": range(count),
                "dur_ns": [1] * count,
                "thread": [0] * count,
                "signature": range(count),
                "parent": parents,
                "depth": depth,
                "self_ns": [1] * count,
            }
        )
    )


def kernels(rows: list[Row], **columns: Any) -> pd.DataFrame:
    """Kernels as (op row or None, duration, kind)."""
    op_rows, durations, kinds = zip(*rows, strict=True)
    frame = LINKED.conform(
        pd.DataFrame(
            {
                "kernel_id": range(len(rows)),
                "kind": kinds,
                "name": columns.pop("name", ["k"] * len(rows)),
                "ts_ns": range(len(rows)),
                "dur_ns": durations,
                "from_graph": False,
                "op_row": pd.array(op_rows, dtype="Int64"),
                "bytes": pd.array(columns.pop("bytes", [None] * len(rows)), dtype="Int64"),
            }
        )
    )
    return frame.assign(**columns)


def run(
    rows: list[Row], parents: list[int], calls: list[Call], steps: pd.DataFrame | None = None, **columns: Any
) -> pd.DataFrame:
    return model_work(kernels(rows, **columns), tree(parents, calls), signatures(*calls), steps)


def listed(column: pd.Series) -> list[Any]:
    return [None if pd.isna(value) else value for value in column]


def test_a_kernel_takes_the_work_of_the_op_around_its_launch() -> None:
    work = run([(0, 100, "kernel")], [-1], [MM])
    row = work.iloc[0]
    assert (row.flops, row.dram_bytes, row.weight_bytes, row.kv_bytes) == (MM_FLOPS, MM_BYTES, MM_WEIGHTS, 0)
    assert (row["dtype"], row.peak, row.flops_source, row.dram_bytes_source) == (
        "bf16",
        "bf16",
        "shape",
        "shape",
    )


def test_the_walk_goes_up_to_the_nearest_modelled_op() -> None:
    # A kernel launched two unmodelled ops below mm works for it.
    calls = [MM, ("private::inner",), ("private::innermost",)]
    assert listed(run([(2, 100, "kernel")], [-1, 0, 1], calls).flops) == [MM_FLOPS]


def test_without_an_op_or_a_model_work_is_unknown() -> None:
    work = run([(0, 100, "kernel"), (None, 100, "kernel")], [-1], [("private::op", [[4]], ["float"])])
    assert listed(work.flops) == [None, None]
    assert listed(work.dram_bytes) == [None, None]
    assert listed(work.flops_source) == [None, None]


def test_sizes_without_types_give_the_operations_of_a_product_and_bytes_where_the_name_tells_the_type() -> (
    None
):
    # As NVTX ranges of PyTorch give them.
    calls: list[Call] = [(MM[0], MM[1]), ("aten::add", [[64, 16], [64, 16]])]
    rows: list[Row] = [(0, 5, "kernel"), (1, 5, "kernel")]
    named = pd.Categorical(["bf16", "bf16"])
    work = run(rows, [-1, -1], calls, family=["gemm", "eltwise"], name_dtype=named)
    assert listed(work.flops) == [MM_FLOPS, None]
    # Every element of the operands and of the result in two bytes; what is added may be of another type.
    assert listed(work.dram_bytes) == [MM_BYTES, None]
    assert listed(work.weight_bytes) == [MM_WEIGHTS, None]
    assert listed(work.peak) == ["bf16", None]
    assert listed(work.flops_source) == ["shape", None]
    assert listed(work.dram_bytes_source) == ["name", None]
    bad = run([(0, 5, "kernel")], [-1], [(MM[0], "no sizes")])
    assert listed(bad.flops) == [None]


@pytest.mark.parametrize(
    ("name", "dtype", "item"),
    [
        ("ampere_sgemm_128x64_tn", "fp32", 4),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n", "tf32", 4),
        ("volta_dgemm_64x64_nn", "fp64", 8),
        ("sm90_xmma_gemm_f16f16_f16f32_f32_tn_n", "fp16", 2),
        # It multiplies in FP32 what it loads in FP16: its name tells two types.
        ("ampere_fp16_sgemm_fp16_128x64_tn", "fp32", None),
        ("sm90_fp8_gemm_1d2d_impl", "fp8", None),
        ("gemm", None, None),
    ],
)
def test_bytes_of_untyped_sizes_follow_what_the_name_tells(
    name: str, dtype: str | None, item: int | None
) -> None:
    work = run([(0, 5, "kernel")], [-1], [(MM[0], MM[1])], family=["gemm"], name=[name], name_dtype=[dtype])
    assert listed(work.dram_bytes) == [None if item is None else MM_BYTES / 2 * item]
    assert listed(work.flops) == [MM_FLOPS]


def test_damaged_sizes_leave_work_unknown() -> None:
    assert listed(run([(0, 100, "kernel")], [-1], [("aten::mm", "hostile", ["float"])]).flops) == [None]


def test_of_several_kernels_the_longest_is_the_main_one() -> None:
    work = run([(0, 10, "kernel"), (0, 100, "kernel"), (0, 5, "kernel")], [-1], [MM])
    assert listed(work.flops) == [0, MM_FLOPS, 0]
    assert listed(work.dram_bytes) == [None, MM_BYTES, None]


def test_a_kernel_of_a_fitting_family_is_preferred_to_a_longer_one() -> None:
    work = run(
        [(0, 10, "kernel"), (0, 100, "kernel"), (0, 200, "kernel")],
        [-1],
        [MM],
        family=["gemm", "elementwise", "gemm.aux"],
    )
    assert listed(work.flops) == [MM_FLOPS, 0, 0]


def test_the_grouped_products_of_an_expert_layer_share_its_work_by_time() -> None:
    sizes = [[1, 64], [8, 64, 64], [8, 64, 32], [1, 2]]
    experts = ("vllm::outplace_fused_experts", sizes, ["c10::BFloat16"] * 3 + ["float"])
    rows = [(0, 60, "kernel"), (0, 500, "kernel"), (0, 20, "kernel")]
    work = run(rows, [-1], [experts], family=["moe.gemm", "moe.perm", "moe.gemm"])
    # 2·1·2·64·(64 + 32) operations, three quarters of the time in the first product.
    assert listed(work.flops) == [18_432, 0, 6144]
    assert work.weight_bytes.sum() == 2 * (4096 + 2048) * 2
    assert listed(work.peak) == ["bf16", None, "bf16"]


@pytest.mark.parametrize("outer", ["aten::linear", "aten::matmul"])
def test_a_composite_stands_down_for_the_inner_op_that_does_its_work(outer: str) -> None:
    calls = [
        (outer, [[64, 32], [16, 32]], ["c10::BFloat16"] * 2),
        ("aten::t", [[16, 32]], ["c10::BFloat16"]),
        MM,
    ]
    work = run([(0, 5, "cpu_op"), (1, 5, "cpu_op"), (2, 100, "cpu_op")], [-1, 0, 0], calls)
    assert listed(work.flops) == [0, 0, MM_FLOPS]
    assert listed(work.dram_bytes) == [0, 0, MM_BYTES]


def test_a_whole_sdpa_chain_counts_once() -> None:
    q = [1, 2, 4, 8]
    sizes = [q, q, q, [], [], []]
    chain = [
        (
            "aten::scaled_dot_product_attention",
            sizes,
            ["float"] * 3 + ["", "Scalar", "Scalar"],
            None,
            ["", "", "", "", "0.", "True"],
        ),
        (
            "aten::_scaled_dot_product_flash_attention_for_cpu",
            sizes[:5],
            ["float"] * 3 + ["Scalar", "Scalar"],
            None,
            ["", "", "", "0.", "True"],
        ),
        ("aten::transpose", [q, [], []], ["float", "Scalar", "Scalar"]),
    ]
    work = run([(0, 5, "cpu_op"), (1, 90, "cpu_op"), (2, 5, "cpu_op")], [-1, 0, 1], chain)
    assert listed(work.flops) == [0, 4 * 2 * 8 * 10, 0]


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


def test_copies_and_fills_are_counted_by_their_bytes() -> None:
    rows = [
        (None, 1, "memcpy"),
        (None, 1, "memcpy"),
        (None, 1, "memcpy"),
        (None, 1, "memset"),
        (None, 1, "memcpy"),
    ]
    names = [
        "Memcpy DtoD (Device -> Device)",
        "Memcpy HtoD (Pinned -> Device)",
        "Memcpy DtoH (Device -> Pinned)",
        "Memset (Device)",
        "CopyDeviceToDevice",
    ]
    work = run(rows, [-1], [MM], name=names, bytes=[100, 100, 100, 100, None])
    assert listed(work.dram_bytes) == [200, 100, 100, 100, None]
    assert listed(work.flops) == [0, 0, 0, 0, 0]


def test_a_fill_inside_a_product_is_a_fill() -> None:
    work = run([(0, 10, "memset"), (0, 100, "kernel")], [-1], [MM], bytes=[64, None])
    assert listed(work.flops) == [0, MM_FLOPS]
    assert listed(work.dram_bytes) == [64, MM_BYTES]


@pytest.mark.parametrize(
    ("recorded", "named", "peak"),
    [
        ("float", None, "fp32"),
        ("float", "tf32", "tf32"),
        ("float", "fp32", "fp32"),
        ("c10::BFloat16", "bf16", "bf16"),
        ("c10::BFloat16", "fp8", "fp8"),
        # Weights in int4 are widened: the math is the activations'.
        ("c10::BFloat16", "int4", "bf16"),
    ],
)
def test_the_math_chooses_the_peak(recorded: str, named: str | None, peak: str | None) -> None:
    work = run(
        [(0, 100, "kernel")], [-1], [(MM[0], MM[1], [recorded] * 2)], name_dtype=pd.Categorical([named])
    )
    assert (work["dtype"].iloc[0], work.peak.iloc[0]) == (peak, peak)


def test_a_name_does_not_move_elementwise_work_to_matrix_units() -> None:
    work = run(
        [(0, 100, "kernel")],
        [-1],
        [("aten::add", [[8], [8]], ["float"] * 2)],
        name_dtype=pd.Categorical(["fp16"]),
    )
    assert (work["dtype"].iloc[0], work.peak.iloc[0]) == ("fp32", "vector")


def test_a_concatenation_is_as_wide_as_the_narrowest_float_recorded() -> None:
    calls = [
        ("aten::cat", [[[4, 2], [4, 2]], []], ["TensorList", "Scalar"]),
        ("aten::relu", [[4]], ["float"]),
    ]
    assert listed(run([(0, 10, "kernel")], [-1, -1], calls).dram_bytes) == [2 * 16 * 4]


def test_no_kernels_and_no_ops_are_no_error() -> None:
    empty = model_work(LINKED.empty(), OP_TREE.empty(), SIGNATURES.empty())
    assert len(empty) == 0
    assert "flops" in empty


# A frame takes longer than a pure function, and machines are shared.
@settings(deadline=None, max_examples=20)
@given(st.permutations(range(6)), st.lists(st.integers(1, 50), min_size=6, max_size=6))
def test_the_order_of_kernels_changes_no_sum(order: list[int], durations: list[int]) -> None:
    # Two products and an addition, two kernels each: the sum is that of the three ops.
    calls = [MM, MM, ("aten::add", [[8], [8]], ["float"] * 2)]
    rows = [(at % 3, durations[at], "kernel") for at in order]
    work = run(rows, [-1, -1, -1], calls)
    assert work.flops.sum() == 2 * MM_FLOPS + 8
    assert work.dram_bytes.sum() == 2 * MM_BYTES + 96
