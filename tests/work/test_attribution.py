"""Whose work a kernel does: the nearest modelled op, its main kernel, and nothing counted twice."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workbuilder import Call, Row, listed, run

from tracekit.tables import LINKED, OP_TREE, SIGNATURES
from tracekit.work import model_work

MM = ("aten::mm", [[64, 32], [32, 16]], ["c10::BFloat16"] * 2)
MM_FLOPS, MM_BYTES, MM_WEIGHTS = 65_536.0, (2048 + 512 + 1024) * 2.0, 1024.0


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
