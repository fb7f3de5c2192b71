"""Counters find their kernels by name and grid, and by order only among equals whose counts agree."""

import numpy as np
import pandas as pd
import pytest
from counterbuilder import counters, kernels, steps

from tracekit.counters import join_counters
from tracekit.tables import QualityNote

GEMM, ADD = ("gemm", "64,1,1"), ("add", "8,1,1")


def by_code(notes: tuple[QualityNote, ...]) -> dict[str, int]:
    return {note.code: note.count for note in notes}


def launch(name: str, grid: str | None, **more: object) -> dict[str, object]:
    return {"name": name, "grid": grid, **more}


def dram(*values: float | None) -> list[dict[str, float | None]]:
    return [{"dram__bytes.sum": value} for value in values]


def test_kth_launch_of_a_name_and_grid_is_the_kth_kernel_where_counts_agree() -> None:
    found = counters([launch(*GEMM), launch(*ADD), launch(*GEMM)], dram(100, 7, 300))
    joined = join_counters(kernels([ADD, GEMM, GEMM]), [found], steps())
    assert joined.kernels["dram_bytes_hw"].tolist() == [7, 100, 300]
    assert joined.kernels["hw_level"].tolist() == ["stream"] * 3
    assert joined.kernels["hw_status"].tolist() == ["measured"] * 3
    assert by_code(joined.notes) == {"counters_joined": 3}


def test_counts_that_differ_lower_the_level_to_the_mean() -> None:
    found = counters([launch(*GEMM), launch(*GEMM)], dram(100, 300))
    joined = join_counters(kernels([GEMM, GEMM, GEMM]), [found], steps())
    assert joined.kernels["dram_bytes_hw"].tolist() == [200, 200, 200]
    assert by_code(joined.notes) == {"counters_mean": 3}


def test_a_kernel_of_another_grid_gets_nothing() -> None:
    joined = join_counters(kernels([("gemm", "32,1,1")]), [counters([launch(*GEMM)], dram(100))], steps())
    assert joined.kernels["dram_bytes_hw"].isna().all()
    assert joined.kernels["hw_status"].tolist() == ["not_collected"]
    assert by_code(joined.notes) == {"counters_missing": 1, "counters_unused": 1}


def test_launches_inside_a_named_step_go_to_the_kernels_of_that_step() -> None:
    # Measured in another order than the trace has the steps: the range decides, not the order.
    found = counters(
        [
            launch(*GEMM, ranges="<default domain>:tracekit\n<default domain>:decode 12"),
            launch(*GEMM, ranges="<default domain>:tracekit\n<default domain>:decode 1"),
        ],
        dram(12, 1),
    )
    joined = join_counters(kernels([GEMM, GEMM], step=[0, 1]), [found], steps(["decode 1", "decode 12"]))
    assert joined.kernels["dram_bytes_hw"].tolist() == [1, 12]
    assert joined.kernels["hw_level"].tolist() == ["range", "range"]


def test_one_profiled_step_stands_for_every_step_of_its_annotation() -> None:
    found = counters([launch(*GEMM, ranges="decode"), launch(*GEMM, ranges="decode")], dram(1, 2))
    joined = join_counters(kernels([GEMM] * 4, step=[0, 0, 1, 1]), [found], steps(["decode", "decode"]))
    assert joined.kernels["dram_bytes_hw"].tolist() == [1, 2, 1, 2]
    assert joined.kernels["hw_level"].tolist() == ["place"] * 4


def test_ranks_that_did_the_same_are_repeats_of_each_other() -> None:
    both = [
        launch(*GEMM, process=1),
        launch(*GEMM, process=2),
        launch(*GEMM, process=1),
        launch(*GEMM, process=2),
    ]
    joined = join_counters(kernels([GEMM, GEMM]), [counters(both, dram(10, 12, 30, 32))], steps())
    # Each kernel the mean of its occurrence in both processes.
    assert joined.kernels["dram_bytes_hw"].tolist() == [11, 31]
    assert joined.kernels["hw_level"].tolist() == ["stream", "stream"]


def test_ranks_that_did_not_do_the_same_give_a_mean() -> None:
    both = [launch(*GEMM, process=1), launch(*GEMM, process=2), launch(*GEMM, process=2)]
    joined = join_counters(kernels([GEMM, GEMM]), [counters(both, dram(1, 2, 6))], steps())
    assert joined.kernels["dram_bytes_hw"].tolist() == [3, 3]


def test_spellings_of_two_tools_are_one_name() -> None:
    mine = "void at::native::(anonymous namespace)::fill<4ul, true, c10::BFloat16>(int, at::Tensor const&)"
    theirs = (
        "void at::native::<unnamed>::fill<(unsigned long)4, (bool)1, __nv_bfloat16>(int, const at::Tensor &)"
    )
    joined = join_counters(
        kernels([(mine, "1,1,1")]), [counters([launch(theirs, "1,1,1")], dram(5))], steps()
    )
    assert joined.kernels["dram_bytes_hw"].tolist() == [5]


def test_a_name_without_template_arguments_is_taken_only_where_one_kernel_answers_to_it() -> None:
    found = counters([launch("fill", "1,1,1")], dram(5))
    one = join_counters(kernels([("void at::fill<float>(int)", "1,1,1")]), [found], steps())
    assert one.kernels["dram_bytes_hw"].tolist() == [5]
    both = [("void at::fill<float>(int)", "1,1,1"), ("void at::fill<int>(int)", "1,1,1")]
    two = join_counters(kernels(both), [found], steps())
    assert two.kernels["dram_bytes_hw"].isna().all()
    assert by_code(two.notes)["counters_ambiguous"] == 1


def test_a_file_without_grids_is_compared_by_sizes() -> None:
    sizes = {"launch__grid_size": 64.0, "launch__block_size": 128.0, "dram__bytes.sum": 9.0}
    found = counters([launch("gemm", None, block=None)], [sizes])
    joined = join_counters(kernels([("gemm", "32,2,1"), ("gemm", "8,1,1")]), [found], steps())
    assert joined.kernels["dram_bytes_hw"].tolist()[0] == 9
    assert np.isnan(joined.kernels["dram_bytes_hw"][1])
    assert by_code(joined.notes)["counters_by_size"] == 1


def test_without_any_grid_only_names_of_one_grid_are_joined() -> None:
    found = counters([launch("gemm", None), launch("add", None)], dram(1, 2))
    joined = join_counters(kernels([("gemm", "8,1,1"), ("gemm", "9,1,1"), ADD]), [found], steps())
    assert joined.kernels["dram_bytes_hw"].tolist()[2] == 2
    assert joined.kernels["dram_bytes_hw"][:2].isna().all()
    bare = join_counters(kernels([("add", None)]), [counters([launch("add", None)], dram(2))], steps())
    assert by_code(bare.notes)["counters_by_name"] == 1


def test_packed_instructions_make_a_lower_bound() -> None:
    metric = "smsp__sass_thread_inst_executed_ops_fadd2_fmul2_ffma2_pred_on.sum"
    joined = join_counters(kernels([ADD]), [counters([launch(*ADD)], [{metric: 64.0}])], steps())
    assert by_code(joined.notes)["counters_packed"] == 1


def test_a_dram_pass_and_an_operations_pass_fill_each_others_gaps() -> None:
    first = counters([launch(*GEMM)], dram(100))
    second = counters(
        [launch(*GEMM)],
        [{"sm__ops_path_tensor_src_bf16_dst_fp32.sum": 2000.0, "dram__bytes.sum": 999.0}],
    )
    joined = join_counters(kernels([GEMM], peak="bf16"), [first, second], steps())
    assert joined.kernels["dram_bytes_hw"].tolist() == [100]
    assert joined.kernels["flops_hw"].tolist() == [2000]
    assert by_code(joined.notes)["counters_matrix_only"] == 1


def test_copies_and_fills_get_no_counters() -> None:
    rows = kernels([GEMM, GEMM])
    rows["kind"] = pd.Categorical(["memcpy", "kernel"])
    joined = join_counters(rows, [counters([launch(*GEMM)], dram(100))], steps())
    assert joined.kernels["dram_bytes_hw"].tolist()[1] == 100
    assert joined.kernels["hw_status"].tolist() == ["not_collected", "measured"]


def test_what_failed_is_failed_and_not_zero() -> None:
    joined = join_counters(kernels([GEMM]), [counters([launch(*GEMM)], dram(None))], steps())
    assert joined.kernels["dram_bytes_hw"].isna().all()
    assert joined.kernels["hw_status"].tolist() == ["failed"]


def test_a_chip_without_a_dram_counter_is_unsupported() -> None:
    found = counters([launch(*GEMM, cc="12.1")], [{"lts__t_bytes.sum": 10.0}])
    joined = join_counters(kernels([GEMM]), [found], steps())
    assert joined.kernels["hw_status"].tolist() == ["unsupported"]
    assert joined.kernels["hw_l2_bytes"].tolist() == [10]


@pytest.mark.parametrize(("passes", "noted"), [(1, 0), (8, 1)])
def test_dram_bytes_of_several_passes_are_doubted(passes: float, noted: int) -> None:
    found = counters([launch(*GEMM)], [{"dram__bytes.sum": 10.0, "profiler__replayer_passes": passes}])
    codes = by_code(join_counters(kernels([GEMM]), [found], steps()).notes)
    assert codes.get("counters_replayed", 0) == noted


def test_without_counters_nothing_was_collected() -> None:
    joined = join_counters(kernels([GEMM]), [], steps())
    assert joined.kernels["hw_status"].tolist() == ["not_collected"]
    assert joined.kernels[["flops_hw", "dram_bytes_hw"]].isna().all().all()
    assert joined.notes == ()


@pytest.mark.parametrize(
    ("metrics", "peak", "flops"),
    [
        # add + mul + 2 fma, the pipe idle: all operations are known.
        ({"fadd": 10, "fmul": 20, "ffma": 100, "pipe": 0}, None, 230),
        # The same without a word on the tensor pipe: only a kernel of the vector units has no more.
        ({"fadd": 10, "fmul": 20, "ffma": 100}, "vector", 230),
        ({"fadd": 10, "fmul": 20, "ffma": 100}, "bf16", None),
        ({"fadd": 10, "fmul": 20, "ffma": 100}, None, None),
        # Matrix operations and the epilogue's.
        ({"fadd": 10, "fmul": 20, "ffma": 100, "pipe": 8, "bf16": 4096}, "bf16", 4326),
        # The pipe ran, but on a type whose counter was not asked for.
        ({"fadd": 10, "fmul": 20, "ffma": 100, "pipe": 8, "bf16": 0}, "fp8", None),
        # No matrix operations of this type, and nothing said of others.
        ({"fadd": 10, "fmul": 20, "ffma": 100, "bf16": 0}, None, None),
    ],
)
def test_operations_are_given_only_where_no_unit_ran_unseen(
    metrics: dict[str, float],
    peak: str | None,
    flops: float | None,
) -> None:
    names = {
        "fadd": "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
        "fmul": "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
        "ffma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "pipe": "sm__inst_executed_pipe_tensor.sum",
        "bf16": "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
    }
    found = counters([launch(*GEMM)], [{names[key]: float(value) for key, value in metrics.items()}])
    got = join_counters(kernels([GEMM], peak=peak), [found], steps()).kernels["flops_hw"].tolist()
    assert got == [flops] if flops is not None else np.isnan(got[0])
