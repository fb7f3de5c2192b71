"""Kernels, launches and ops joined on traces small enough to see."""

import pandas as pd
from tracebuilder import TraceBuilder

from tracekit.link import link
from tracekit.readers import read_stream
from tracekit.readers.source import from_bytes
from tracekit.tables import Linked


def linked(trace: TraceBuilder) -> Linked:
    return link(read_stream(from_bytes("trace.json", trace.text()), lambda _name: False)[0])


def test_a_kernel_gets_the_innermost_op_around_its_launch() -> None:
    trace = TraceBuilder().op("aten::linear", 0, 100).op("aten::addmm", 10, 50).op("aten::addmm", 70, 20)
    trace.launched("a", 20, 200, 5).launched("b", 65, 210, 5).launched("c", 75, 220, 5).launched(
        "d", 100, 230, 5
    )
    kernels = linked(trace).kernels
    assert kernels["op"].astype(object).where(kernels["op"].notna(), None).tolist() == [
        "aten::addmm",
        "aten::linear",
        "aten::addmm",
        None,
    ]


def test_the_op_is_looked_up_on_the_launching_thread() -> None:
    trace = TraceBuilder().op("aten::mm", 0, 100, tid=1).op("aten::add", 0, 100, tid=2)
    trace.launched("k", 50, 200, 5, tid=2)
    assert linked(trace).kernels["op"].tolist() == ["aten::add"]


def test_one_graph_launch_owns_all_its_kernels_in_order() -> None:
    trace = TraceBuilder()
    graph = trace.launch(10, name="cudaGraphLaunch")
    trace.kernel("second", 40, 5, graph).kernel("first", 30, 5, graph)
    kernels = linked(trace).kernels
    assert kernels["name"].tolist() == ["first", "second"]
    assert kernels["from_graph"].tolist() == [True, True]
    assert kernels["node_order"].tolist() == [0, 1]
    assert kernels["launch_ts_ns"].tolist() == [1_000_010_000] * 2


def test_a_kernel_without_a_launch_is_kept_and_counted() -> None:
    trace = TraceBuilder().kernel("orphan", 5, 3, 99).kernel("bare", 9, 2).launched("k", 10, 20, 1)
    result = linked(trace)
    assert result.kernels["launch_ts_ns"].isna().tolist() == [True, True, False]
    assert [(note.code, note.count, note.time_ns) for note in result.quality] == [("unlinked", 2, 5_000)]


def test_correlation_zero_joins_nothing() -> None:
    trace = (
        TraceBuilder().event("cuda_runtime", "hipLaunchKernel", 1, 1, correlation=0).kernel("rccl", 5, 3, 0)
    )
    assert linked(trace).kernels["launch_ts_ns"].isna().all()


def test_a_launch_wins_over_other_host_rows_of_its_correlation() -> None:
    trace = TraceBuilder().event("cuda_runtime", "cudaStreamIsCapturing", 1, 1, correlation=4)
    trace.event("cuda_runtime", "cudaLaunchKernelExC", 3, 1, correlation=4).kernel("k", 9, 1, 4)
    assert linked(trace).kernels["launch_name"].tolist() == ["cudaLaunchKernelExC"]


def test_a_host_only_trace_has_a_row_an_op_with_its_self_time() -> None:
    trace = TraceBuilder(devices=[])
    trace.op("aten::linear", 0, 100).op("aten::mm", 10, 60).op("aten::resolve_conj", 20, 5).op(
        "aten::view", 80, 20
    )
    kernels = linked(trace).kernels
    times = dict(zip(kernels["name"], kernels["dur_ns"], strict=True))
    assert times == {
        "aten::linear": 20_000,
        "aten::mm": 55_000,
        "aten::resolve_conj": 5_000,
        "aten::view": 20_000,
    }
    assert kernels["dur_ns"].sum() == 100_000
    assert set(kernels["kind"]) == {"cpu_op"}


def test_cpu_ops_of_a_trace_that_lists_a_gpu_are_never_kernels() -> None:
    result = linked(TraceBuilder().op("aten::mm", 0, 10))
    assert result.kernels.empty
    assert result.ops["self_ns"].tolist() == [10_000]


def test_a_time_shift_changes_nothing_but_the_clock() -> None:
    def shifted(by: int) -> pd.DataFrame:
        trace = TraceBuilder().op("aten::mm", 10 + by, 20).launched("k", 15 + by, 40 + by, 5)
        frame = linked(trace).kernels
        return frame.assign(
            ts_ns=frame["ts_ns"] - by * 1000,
            launch_ts_ns=frame["launch_ts_ns"] - by * 1000,
            launch_end_ns=frame["launch_end_ns"] - by * 1000,
        )

    pd.testing.assert_frame_equal(shifted(0), shifted(12_345))


def test_grid_and_block_on_the_launch_reach_the_kernel() -> None:
    trace = TraceBuilder().event(
        "cuda_runtime", "hipLaunchKernel", 1, 1, correlation=3, grid=[64, 1, 1], block=[256, 1, 1]
    )
    trace.kernel("k", 9, 2, 3)
    assert linked(trace).kernels[["grid", "block"]].to_numpy().tolist() == [["64,1,1", "256,1,1"]]
