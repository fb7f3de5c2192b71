"""Work lent by a donor: the same place of a repeated sequence, or the same node of a graph."""

from typing import Any

import numpy as np
import pandas as pd

from tracekit.tables import LINKED, OP_TREE, RUNTIME_CALLS, SIGNATURES, Capture, CaptureInfo, Linked
from tracekit.tables.capture import DEVICE_EVENTS, OPS, RANGES
from tracekit.work import graph_donor, lend_from, lend_in_trace, lend_to_replays

LAYER = ["norm", "gemm", "attn", "gemm"]
# Two products of one name, told apart by their place alone.
LAYER_FLOPS = [10.0, 200.0, 3000.0, 40000.0]


def modelled(names: list[str], flops: list[float | None], **columns: Any) -> pd.DataFrame:
    """Kernels with known work (null: a launch that the window cut)."""
    count = len(names)
    known = np.array([value is not None for value in flops])
    frame = LINKED.conform(
        pd.DataFrame(
            {
                "kernel_id": range(count),
                "kind": "kernel",
                "name": names,
                "ts_ns": range(count),
                "dur_ns": 1,
                "stream": 7,
                "from_graph": False,
                "grid": columns.pop("grid", ["1,1,1"] * count),
                "op_row": pd.array([0 if value else None for value in known], dtype="Int64"),
            }
        )
    )
    numbers = np.array([np.nan if value is None else value for value in flops])
    source = pd.Categorical(np.where(known, "shape", None).tolist())
    texts = {"dtype": pd.Categorical(["bf16"] * count), "peak": pd.Categorical(["bf16"] * count)}
    return frame.assign(
        flops=numbers,
        dram_bytes=numbers,
        weight_bytes=0.0,
        kv_bytes=0.0,
        bus_bytes=float("nan"),
        expected_bytes=0.0,
        flops_source=source,
        dram_bytes_source=source,
        **texts,
        **columns,
    )


def listed(column: pd.Series) -> list[Any]:
    return [None if pd.isna(value) else value for value in column]


def test_layers_before_the_window_take_the_work_of_the_same_place_inside_it() -> None:
    # One and a half layers ran before the window, three inside it.
    cut = LAYER[2:] + LAYER
    kernels = modelled(cut + LAYER * 3, [None] * 6 + LAYER_FLOPS * 3)
    lent = lend_in_trace(kernels)
    assert listed(lent.flops[:6]) == LAYER_FLOPS[2:] + LAYER_FLOPS
    assert listed(lent.flops_source[:7]) == ["donor"] * 6 + ["shape"]
    assert listed(lent.dram_bytes) == listed(lent.flops)


def test_a_name_alone_lends_nothing() -> None:
    # The cut kernel is a gemm between strangers: both gemms of a layer would fit its name.
    kernels = modelled(["copy", "gemm", "copy", *LAYER * 2], [None, None, None, *LAYER_FLOPS * 2])
    assert listed(lend_in_trace(kernels).flops[:3]) == [None, None, None]


def test_places_that_disagree_lend_nothing() -> None:
    # Two steps of different length: the same neighbourhood, not the same work.
    steps = LAYER_FLOPS + [2 * flops for flops in LAYER_FLOPS]
    kernels = modelled(LAYER + LAYER * 4, [None] * 4 + steps * 2)
    assert listed(lend_in_trace(kernels).flops[1:3]) == [None, None]


def test_another_grid_is_another_kernel() -> None:
    grids = ["2,1,1"] * 4 + ["1,1,1"] * 12
    kernels = modelled(LAYER + LAYER * 3, [None] * 4 + LAYER_FLOPS * 3, grid=grids)
    assert listed(lend_in_trace(kernels).flops[:4]) == [None] * 4


def test_a_kernel_without_a_grid_is_compared_by_name_and_place() -> None:
    # Older ROCm recorders put the grid on the launch, which the cut kernel lost.
    kernels = modelled(LAYER + LAYER * 3, [None] * 4 + LAYER_FLOPS * 3, grid=[None] * 4 + ["1,1,1"] * 12)
    assert listed(lend_in_trace(kernels).flops[:4]) == LAYER_FLOPS


def test_another_capture_lends_to_the_same_place() -> None:
    mine = modelled(LAYER * 3, [None] * 12)
    eager = modelled(LAYER * 3, LAYER_FLOPS * 3)
    assert listed(lend_from(mine, eager).flops) == LAYER_FLOPS * 3


def test_known_work_is_never_replaced() -> None:
    mine = modelled(LAYER * 3, [1.0] * 12)
    assert listed(lend_from(mine, modelled(LAYER * 3, LAYER_FLOPS * 3)).flops) == [1.0] * 12


MM = ("aten::mm", "[[8, 16], [16, 4]]", '["c10::BFloat16", "c10::BFloat16"]')
ADD = ("aten::add", "[[8, 4], [8, 4]]", '["c10::BFloat16", "c10::BFloat16"]')
MM_FLOPS, ADD_FLOPS = 2.0 * 8 * 16 * 4, 32.0


def captured(
    ops: list[tuple[str, str, str]], launches: list[int], *, ran: tuple[int, ...] = ()
) -> tuple[Capture, Linked]:
    """A capture of one graph: ops one after another, launches under them; those in `ran` ran a kernel."""
    count = len(ops)
    signatures = SIGNATURES.conform(pd.DataFrame(ops, columns=["op", "dims", "types"]))
    spans = {"ts_ns": [100 * at for at in range(count)], "dur_ns": 90, "thread": 0, "signature": range(count)}
    flat = pd.DataFrame({"name": [op[0] for op in ops], **spans})
    tree = OP_TREE.conform(flat.assign(parent=-1, depth=0, self_ns=90))
    calls = pd.DataFrame(
        {
            "name": ["hipStreamBeginCapture"] + ["hipLaunchKernel"] * len(launches),
            "ts_ns": [-1] + [100 * op + 10 + at for at, op in enumerate(launches)],
            "dur_ns": 1,
            "thread": 0,
            "correlation": range(len(launches) + 1),
        }
    )
    events = pd.DataFrame(
        {"kind": "kernel", "name": "warm", "ts_ns": 0, "dur_ns": 1, "correlation": [at + 1 for at in ran]}
    )
    empty = RANGES.empty()
    capture = Capture(
        CaptureInfo("donor.json", "kineto"),
        DEVICE_EVENTS.conform(events),
        RUNTIME_CALLS.conform(calls),
        OPS.conform(flat),
        signatures,
        empty,
        empty,
    )
    return capture, Linked(LINKED.empty(), tree)


def replay(names: list[str], replays: int = 1, **columns: Any) -> pd.DataFrame:
    kernels = modelled(names * replays, [None] * len(names) * replays)
    nodes = list(range(len(names))) * replays
    launch = np.repeat(range(replays), len(names))
    return kernels.assign(
        from_graph=True,
        correlation=pd.array(launch, dtype="Int64"),
        node_order=pd.array(nodes, dtype="Int64"),
        **columns,
    )


def test_the_kth_kernel_of_a_replay_is_the_kth_captured_launch() -> None:
    donor = graph_donor(*captured([MM, ADD, MM], [0, 1, 2]))
    lent = lend_to_replays(replay(["gemm", "add", "gemm"], replays=2), [donor])
    assert listed(lent.flops) == [MM_FLOPS, ADD_FLOPS, MM_FLOPS] * 2
    assert listed(lent.flops_source) == ["donor"] * 6


def test_launches_that_ran_a_kernel_were_not_captured() -> None:
    donor = graph_donor(*captured([ADD, MM], [0, 1], ran=(0,)))
    assert [len(graph) for graph in donor.graphs] == [1]
    assert listed(lend_to_replays(replay(["gemm"]), [donor]).flops) == [MM_FLOPS]


def test_a_graph_of_another_length_lends_nothing() -> None:
    donor = graph_donor(*captured([MM, ADD], [0, 1]))
    assert listed(lend_to_replays(replay(["gemm", "add", "gemm"]), [donor]).flops) == [None] * 3


def test_kernels_of_one_name_must_come_from_one_op() -> None:
    donor = graph_donor(*captured([MM, ADD, MM, ADD], [0, 1, 2, 3]))
    assert listed(lend_to_replays(replay(["gemm", "gemm", "gemm", "gemm"]), [donor]).flops) == [None] * 4


def test_of_several_graphs_the_smallest_that_holds_the_step_lends() -> None:
    def sized(rows: int) -> tuple[str, str, str]:
        return ("aten::mm", f"[[{rows}, 16], [16, 4]]", MM[2])

    donors = [graph_donor(*captured([sized(rows)], [0])) for rows in (16, 8, 4)]
    steps = pd.DataFrame({"step_id": [0], "sum_q": [5.0]})
    assert listed(lend_to_replays(replay(["gemm"], step_id=0), donors, steps).flops) == [2.0 * 8 * 16 * 4]
    # Without the tokens the graphs cannot be told apart.
    assert listed(lend_to_replays(replay(["gemm"]), donors).flops) == [None]


def test_an_op_of_two_kernels_counts_once_in_each_replay() -> None:
    donor = graph_donor(*captured([MM], [0, 0]))
    lent = lend_to_replays(replay(["gemm", "reduce"], replays=3), [donor])
    assert lent.flops.sum() == 3 * MM_FLOPS
