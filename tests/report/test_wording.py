"""Names and verdicts in plain words."""

from collections.abc import Callable

import pytest

from tracekit.report import Result
from tracekit.report.wording import brief, display_name, listed, verdict, warnings

Make = Callable[..., Result]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("void at::native::(anonymous namespace)::Cat<at::native::X<4u>, int>(int, B<1>)", "Cat<X<4u>, int>"),
        (
            "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, float)",
            "fused_add_rms_norm_kernel<BFloat16, 8>",
        ),
        ("ncclDevKernel_AllReduce_Sum(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_AllReduce_Sum"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"),
        ("aten::mm", "aten::mm"),
        ("k<<<", "k<<<"),
        ("(", "("),
        ("", ""),
    ],
)
def test_a_name_in_a_narrow_column_keeps_what_tells_it_apart(name: str, shown: str) -> None:
    assert display_name(name, 40) == shown


def test_a_verdict_from_unsure_bottlenecks_is_called_a_guess(make_result: Make) -> None:
    row = {"name": "a", "ts_ns": 0, "dur_ns": 10, "bottleneck": "dram"}
    sure, unsure = (
        verdict(make_result([{**row, "bottleneck_confidence": confidence}]).overview.phases[0])
        for confidence in (0.8, 0.3)
    )
    assert sure == "bound mostly by DRAM bandwidth (100 % of the time)"
    assert unsure == "bound (a guess, confidence 0.30) mostly by DRAM bandwidth (100 % of the time)"


def test_shares_that_are_too_small_to_list_are_put_together() -> None:
    assert listed({"dram": 0.992, "copy": 0.004, "l2": 0.004}) == "dram 99.2 %, rest 0.800 %"
    assert [brief(share) for share in (None, 0.0, 0.0001, 0.05, 0.999)] == [
        "-",
        "0.0%",
        "<0.1%",
        "5.0%",
        "100%",
    ]


def test_what_several_ranks_say_alike_is_said_once(make_result: Make) -> None:
    note = {"code": "work_unknown", "message": "no sizes", "count": 3}
    quality = [{**note, "rank": 0}, {**note, "rank": 1}, {**note, "rank": 2, "message": "other"}]
    summary = make_result([{"name": "a", "ts_ns": 0, "dur_ns": 10}], quality=quality).overview
    assert list(warnings(summary)) == ["work_unknown (6; ranks 0, 1): no sizes", "work_unknown (3): other"]
