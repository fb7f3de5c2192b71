"""The grammar of --fail-on."""

from typing import Any

import pytest

from tracekit.compare.contract import SCHEMA_VERSION, Comparison, Verdicts
from tracekit.compare.gates import compare_crossings, parse_gate, report_crossings
from tracekit.errors import UnsupportedError, UsageError
from tracekit.report.contract import Coverage, DeviceUsed, Summary


def summary() -> Any:
    return Summary(1, DeviceUsed(), {}, None, [], [], [], Coverage(1.0, 0.85, None, 0.5), [], [], [])


def comparison(verdict: Any, ratio: Any, low: Any, high: Any) -> Any:
    result = Verdicts(verdict, ratio, low, high, 0.02, [10, 10], drift_covered=True)
    return Comparison(SCHEMA_VERSION, ["a"], ["b"], [None, None], [{}, {}], result, [], [], [], [], [], [])


@pytest.mark.parametrize(
    ("text", "path", "compare", "value"),
    [
        ("decode.time > 3%", ("decode", "time"), ">", 0.03),
        ("prefill.mfu<0.4", ("prefill", "mfu"), "<", 0.4),
        ("decode.time >= 5 ms", ("decode", "time"), ">=", 5e6),
        ("coverage.phase_known <= .9", ("coverage", "phase_known"), "<=", 0.9),
        ("prefill.mfu < -5%", ("prefill", "mfu"), "<", -0.05),
    ],
)
def test_a_condition_is_a_name_a_comparison_and_a_number(
    text: Any, path: Any, compare: Any, value: Any
) -> None:
    gate = parse_gate(text)
    assert (gate.path, gate.compare, gate.value) == (path, compare, pytest.approx(value))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "decode.time",
        "decode > 3",
        "decode.time > x",
        "decode.time > 3 kg",
        "__import__('os').system > 1",
        "nope.time > 1",
        "decode.a.b > 1",
    ],
)
def test_anything_else_is_wrong_usage(text: Any) -> None:
    with pytest.raises(UsageError) as failed:
        parse_gate(text)
    assert failed.value.exit_code == 2


def test_a_report_crosses_only_what_it_crosses() -> None:
    gates = [parse_gate("coverage.phase_known < 0.9"), parse_gate("coverage.classified < 0.4")]
    assert report_crossings(gates, summary()) == ["coverage.phase_known < 0.9: is 0.85"]


@pytest.mark.parametrize("text", ["coverage.work_known < 0.9", "decode.mfu < 0.4", "coverage.nothing > 1"])
def test_a_figure_that_is_not_known_passes_no_gate(text: Any) -> None:
    with pytest.raises(UnsupportedError):
        report_crossings([parse_gate(text)], summary())


def test_a_slowdown_must_be_real_to_fail_a_comparison() -> None:
    gate = parse_gate("total.time > 3%")
    assert compare_crossings([gate], comparison("no_change", 1.04, 0.98, 1.10)) == []
    found = compare_crossings([gate], comparison("slower", 1.05, 1.03, 1.07))
    assert found == ["total.time > 3%: changed by +5 % (95 % interval +3 to +7 %)"]
    assert "without statistics" in compare_crossings([gate], comparison("insufficient", 1.05, None, None))[0]
