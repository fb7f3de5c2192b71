"""What could be won, on small inline captures with the numbers worked out beside them.

Roofs are measured: 1e15 FLOP/s bf16, 2e12 byte/s; so 1 MB takes 0.5 us and 1 GFLOP 1 us at best.
"""

from typing import Any

import pandas as pd
import pytest

from tracekit.classify import Finding, find_findings
from tracekit.tables import STEPS
from tracekit.tables.ceilings import Ceilings, Roof

MEASURED = Ceilings("bench", {"bf16": Roof(measured=1e15)}, dram=Roof(measured=2e12), sm_count=100)
SPEC = Ceilings("bench", {"bf16": Roof(spec=1e15)}, dram=Roof(spec=2e12), sm_count=100)
US = 1_000


def kernel(start: float, end: float, **more: Any) -> dict[str, Any]:
    """A decode GEMM of step 0 from `start` to `end` [us] with a bound of half of its time."""
    return {
        "kind": "kernel",
        "name": "gemm_kernel",
        "family": "gemm",
        "op": "aten::mm",
        "phase": "decode",
        "device": 0,
        "rank": 0,
        "step_id": 0,
        "from_graph": False,
        "ts_ns": int(start * US),
        "dur_ns": int((end - start) * US),
        "flops": 1e6,
        "dram_bytes": (end - start) * 1e6,
        "weight_bytes": float("nan"),
        "kv_bytes": float("nan"),
        "peak": "bf16",
        "bound_ns": (end - start) * US / 2,
        "bound_by": "dram",
        "bottleneck": "dram",
        "bottleneck_confidence": 0.65,
        **more,
    }


def step(number: int, start: float, end: float, busy: float, **more: Any) -> dict[str, Any]:
    return {
        "step_id": number,
        "phase": "decode",
        "ts_ns": int(start * US),
        "dur_ns": int((end - start) * US),
        "busy_ns": int(busy * US),
        **more,
    }


def gap(start: float, end: float, cause: str, number: int = 0) -> dict[str, Any]:
    return {"step_id": number, "ts_ns": int(start * US), "dur_ns": int((end - start) * US), "cause": cause}


def find(
    kernels: list[dict[str, Any]],
    steps: list[dict[str, Any]] | None = None,
    gaps: list[dict[str, Any]] | None = None,
    ceilings: Ceilings = MEASURED,
    **more: Any,
) -> tuple[Finding, ...]:
    own = steps or [step(0, 0, 1_000, 1_000, generation_tokens=4)]
    idle = pd.DataFrame(gaps or [], columns=["step_id", "ts_ns", "dur_ns", "cause", "evidence"])
    return find_findings(pd.DataFrame(kernels), STEPS.conform(pd.DataFrame(own)), idle, ceilings, **more)


def titled(found: tuple[Finding, ...], text: str) -> Finding:
    return next(finding for finding in found if text in finding.title)


def test_kernels_below_a_measured_roof_lose_all_beyond_it() -> None:
    found = titled(find([kernel(0, 100), kernel(100, 300)]), "gemm kernels lose")
    assert found.recoverable_ns == pytest.approx(150 * US)
    assert found.confidence == pytest.approx(0.65)
    assert found.evidence == "2 kernels take 300 us, 150 us at the achievable roof; dram 100 %"


def test_below_a_data_sheet_roof_eighty_percent_is_taken_as_reachable() -> None:
    found = titled(find([kernel(0, 100)], ceilings=SPEC), "gemm kernels lose")
    assert found.recoverable_ns == pytest.approx((100 - 50 / 0.8) * US)


def test_what_is_not_worth_a_line_gets_none() -> None:
    assert find([kernel(0, 10)]) == ()


def test_an_overlap_is_counted_once() -> None:
    found = titled(find([kernel(0, 100), kernel(50, 150)]), "gemm kernels lose")
    # 100 + 50 us of exclusive time; the second's bound is its own 50 us: nothing of it is left
    assert found.recoverable_ns == pytest.approx(50 * US)


def test_findings_are_ranked_by_what_they_recover() -> None:
    found = find([kernel(0, 100, family="norm"), kernel(100, 900)])
    recovered = [finding.recoverable_ns for finding in found]
    assert recovered == sorted(recovered, reverse=True)
    assert "gemm" in found[0].title


HOST_BOUND: dict[str, Any] = {
    "kernels": [kernel(0, 100), kernel(300, 400)],
    "steps": [step(0, 0, 400, 200, generation_tokens=4)],
    "gaps": [gap(100, 300, "host")],
}


def test_a_host_bound_step_recovers_its_gap_and_nothing_from_faster_kernels() -> None:
    found = find(**HOST_BOUND)
    host = titled(found, "waits for the host")
    assert host.recoverable_ns == 200 * US
    assert host.title == "decode waits for the host for 50.0 % of its step time"
    assert "1 of 1 step host-bound" in host.evidence
    assert not any("lose" in finding.title for finding in found)


def test_a_step_time_without_profiler_takes_the_recorders_part_off() -> None:
    # The one step lasts 400 us profiled and 280 us without: 120 us of its 200 us of idle time are the recorder's.
    host = titled(find(**HOST_BOUND, unprofiled={"decode": 280 * US}), "waits for the host")
    assert host.recoverable_ns == 80 * US
    assert "120 us of it is the recorder's" in host.evidence


def test_eager_decode_is_told_to_use_graphs_and_replayed_decode_is_not() -> None:
    assert "CUDA or HIP graphs" in titled(find(**HOST_BOUND), "waits for the host").next_step
    replayed = {**HOST_BOUND, "kernels": [{**row, "from_graph": True} for row in HOST_BOUND["kernels"]]}
    assert "replays are late" in titled(find(**replayed), "waits for the host").next_step


def test_small_host_gaps_do_not_hold_the_kernels_back() -> None:
    found = find(
        [kernel(0, 380), kernel(390, 400)],
        [step(0, 0, 400, 390, generation_tokens=4)],
        [gap(380, 390, "host")],
    )
    assert titled(found, "gemm kernels lose").recoverable_ns == pytest.approx(195 * US)


def test_synchronisation_is_its_own_finding() -> None:
    found = find(
        [kernel(0, 100), kernel(130, 400)],
        [step(0, 0, 400, 370, generation_tokens=4)],
        [gap(100, 130, "sync")],
    )
    assert titled(found, "synchronising").recoverable_ns == 30 * US


def test_only_exposed_communication_counts() -> None:
    collective = kernel(50, 250, name="ncclKernel", family="comm.nccl", bottleneck="communication", flops=0.0)
    found = titled(find([kernel(0, 100), {**collective, "bound_ns": float("nan")}]), "exposed communication")
    assert found.recoverable_ns == 150 * US
    assert found.kernels == ("ncclKernel",)
    assert "75.0 % of it with nothing else running" in found.evidence


def test_exposed_copies_are_a_finding() -> None:
    copy = kernel(100, 160, kind="memcpy", name="Memcpy DtoH", bottleneck="copy", bound_ns=float("nan"))
    assert titled(find([kernel(0, 100), copy]), "copies over a link").recoverable_ns == 60 * US


def test_kv_quantisation_saves_half_of_the_kv_bytes_at_the_dram_roof() -> None:
    # 40 MB of KV a step in one step: 20 MB at 2 TB/s are 10 us, 30 MB are 15 us
    found = titled(
        find([kernel(0, 30, family="attn", kv_bytes=40e6, dram_bytes=40e6, bound_ns=20e3)]), "KV cache"
    )
    assert found.title == "decode: a KV cache of 8 bits would save 10.0 us a step"
    assert found.recoverable_ns == pytest.approx(10 * US)
    assert "40.0 MB a step now, 100 % of these kernels' bytes" in found.evidence
    assert found.evidence.endswith("4 bits save 15.0 us, half as many KV heads save 10.0 us")


def test_kv_quantisation_never_saves_more_than_the_kernel_takes() -> None:
    found = titled(find([kernel(0, 30, kv_bytes=400e6)]), "KV cache")
    assert found.recoverable_ns == pytest.approx(30 * US)


def test_weight_quantisation_saves_half_of_the_weight_bytes() -> None:
    # 100 MB: half is 25 us; four bits and a scale of two bytes a group of 128 leave 25.8 %
    found = titled(find([kernel(0, 60, weight_bytes=100e6)]), "weights of")
    assert found.recoverable_ns == pytest.approx(25 * US)
    assert "4 bits save 37.1 us" in found.evidence


def test_weights_that_are_narrow_already_can_lose_no_more_than_they_have() -> None:
    eight = titled(find([kernel(0, 60, weight_bytes=100e6, dtype="fp8")]), "weights of")
    assert eight.title == "decode: weights of 4 bits would save 24.2 us a step"
    four = find([kernel(0, 60, weight_bytes=100e6, name="_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1")])
    assert not any("weights of" in finding.title for finding in four)


def test_levers_are_silent_in_prefill_and_without_known_bytes() -> None:
    assert not any("would save" in finding.title for finding in find([kernel(0, 60)]))
    prefill = kernel(0, 60, phase="prefill", weight_bytes=100e6)
    assert not any("would save" in f.title for f in find([prefill], [step(0, 0, 60, 60, phase="prefill")]))


# 50 million weights of two bytes, 4 tokens: 50 us of reading and 0.4 us of math at the roofs meet at 500 tokens.
SHARED = {"weight_bytes": 100e6, "flops": 2 * 4 * 50e6}


def test_a_larger_batch_shares_the_weight_reads() -> None:
    found = titled(find([kernel(0, 60, **SHARED)]), "the ridge is near")
    assert found.title == "decode reads its weights for 4 tokens a step; the ridge is near 500"
    assert found.recoverable_ns == pytest.approx(50 * US * (1 - 4 / 500))


def test_one_token_is_one_token() -> None:
    one = find([kernel(0, 60, **SHARED)], [step(0, 0, 1_000, 1_000, generation_tokens=1)])
    assert titled(one, "the ridge is near").title.startswith("decode reads its weights for 1 token a step")


def test_a_batch_beyond_the_ridge_needs_no_larger_one() -> None:
    row = kernel(0, 60, weight_bytes=100e6, flops=2 * 600 * 50e6)
    found = find([row], [step(0, 0, 1_000, 1_000, generation_tokens=600)])
    assert not any("the ridge is near" in finding.title for finding in found)


def test_a_softmax_between_products_is_unfused_attention() -> None:
    rows = [
        kernel(0, 50, op="aten::bmm"),
        kernel(50, 60, op="aten::div", name="div", family="elementwise"),
        kernel(60, 90, op="aten::_softmax", name="softmax", family="softmax"),
        kernel(90, 140, op="aten::bmm"),
        kernel(140, 150, name="norm", family="norm"),
    ]
    found = titled(find(rows), "unfused")
    assert found.recoverable_ns == 40 * US
    assert set(found.kernels) == {"softmax", "div"}


def test_the_softmax_of_sampling_is_not_attention() -> None:
    rows = [
        kernel(0, 50),
        kernel(60, 90, op="aten::_softmax", name="softmax", family="softmax"),
        kernel(90, 140),
    ]
    assert not any("unfused" in finding.title for finding in find(rows))


def test_a_run_of_element_wise_kernels_could_be_one() -> None:
    rows = [
        kernel(0, 100),
        kernel(100, 130, name="mul", family="elementwise", stream=7),
        kernel(130, 150, name="add", family="elementwise", stream=7),
        kernel(150, 190, name="norm", family="norm", stream=7),
        kernel(190, 300),
        kernel(300, 310, name="mul", family="elementwise", stream=7),
    ]
    found = titled(find([{"stream": 7, **row} for row in rows]), "could be fused")
    # 30 + 20 + 40 us, of which the longest stays; the lone one at the end is no run
    assert found.recoverable_ns == 50 * US
    assert "3 element-wise kernels" in found.title


def test_faster_memory_is_compared_when_devices_are_given() -> None:
    devices = {"slower": 1e12, "hardly": 2.2e12, "twice": 4e12, "more": 8e12}
    found = titled(find([kernel(0, 100)], faster=devices), "the memory of")
    assert found.title == "decode: the memory of twice would save 50.0 us a step"
    assert found.recoverable_ns == pytest.approx(50 * US)


def test_faster_memory_promises_nothing_for_bytes_that_nobody_knows() -> None:
    rows = [kernel(0, 100), {**kernel(100, 900), "dram_bytes": float("nan")}]
    found = titled(find(rows, faster={"twice": 4e12}), "the memory of")
    assert found.recoverable_ns == pytest.approx(50 * US)
    assert not [each for each in find(rows[1:], faster={"twice": 4e12}) if "the memory of" in each.title]


def test_a_data_sheet_is_compared_with_a_data_sheet() -> None:
    both = Ceilings("bench", {"bf16": Roof(measured=1e15)}, dram=Roof(measured=1e12, spec=2e12))
    found = titled(find([kernel(0, 100)], ceilings=both, faster={"twice": 4e12}), "the memory of")
    assert found.recoverable_ns == pytest.approx(50 * US)


def test_unknown_work_says_what_to_give() -> None:
    nan = float("nan")
    found = find([kernel(0, 100, flops=nan, dram_bytes=nan, bound_ns=nan, bottleneck="unknown")])
    assert [finding.title for finding in found] == ["Work is unknown for 100 % of decode"]
    assert "--model" in found[0].next_step
    assert "--donor" in found[0].next_step


def test_a_model_is_not_asked_for_where_it_could_tell_nothing() -> None:
    nan = float("nan")
    (found,) = find(
        [kernel(0, 100, phase="other", flops=nan, dram_bytes=nan, bound_ns=nan, bottleneck="unknown")]
    )
    assert "--model" not in found.next_step
    assert "record_shapes" in found.next_step


def test_what_ran_while_graphs_were_recorded_is_nothing_to_win() -> None:
    assert find([kernel(0, 900, phase="other", phase_evidence="setup")]) == ()


def test_pinned_memory_need_not_be_pinned() -> None:
    def advice(name: str) -> str:
        copy = kernel(100, 160, kind="memcpy", name=name, bottleneck="copy", bound_ns=float("nan"))
        return titled(find([kernel(0, 100), copy]), "copies over a link").next_step

    assert "pin the host memory" in advice("Memcpy DtoH (Device -> Pageable)")
    assert "pin" not in advice("Memcpy HtoD (Pinned -> Device)")


def test_host_time_that_stacks_inflate_is_less_sure_and_asks_for_the_time_without() -> None:
    late = "launched 5 us after the device drained; recorded with Python stacks, which inflate host time"
    case = {**HOST_BOUND, "gaps": [{**gap(100, 300, "host"), "evidence": late}]}
    host = titled(find(**case), "waits for the host")
    assert host.confidence == 0.5
    assert "--tpot" in host.next_step
    assert titled(find(**case, unprofiled={"decode": 280 * US}), "waits for the host").confidence == 0.8


def test_start_up_and_graph_capture_are_not_called_host_bound() -> None:
    case = {
        "kernels": [{**row, "phase": "other"} for row in HOST_BOUND["kernels"]],
        "steps": [{**row, "phase": "other"} for row in HOST_BOUND["steps"]],
        "gaps": HOST_BOUND["gaps"],
    }
    assert not any("waits for the host" in finding.title for finding in find(**case))


def test_an_unknown_device_says_how_to_give_one() -> None:
    found = find([kernel(0, 100, bound_ns=float("nan"))], ceilings=Ceilings())
    assert "--device" in titled(found, "No ceiling is known").next_step


def test_a_training_capture_has_no_prefill_or_decode_findings() -> None:
    found = find([kernel(0, 100, phase="other", step_id=None)], [step(0, 0, 100, 100, phase="other")])
    assert {finding.phase for finding in found} <= {"other", ""}


def test_findings_on_a_cpu_never_ask_for_gpu_counters() -> None:
    found = titled(find([kernel(0, 100, kind="cpu_op", device=None)]), "lose")
    assert "ncu" not in found.next_step


def test_nothing_measured_gives_no_finding() -> None:
    empty = pd.DataFrame([kernel(0, 1)]).iloc[:0]
    assert (
        find_findings(
            empty, STEPS.empty(), pd.DataFrame(columns=["step_id", "ts_ns", "dur_ns", "cause"]), MEASURED
        )
        == ()
    )
