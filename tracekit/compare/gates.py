"""`--fail-on`: conditions on a summary or a comparison, by a small grammar; nothing is evaluated as code.

    condition = name comparison number [unit]
    name      = word { "." word }          decode.time, prefill.mfu, coverage.phase_known
    comparison = ">" | ">=" | "<" | "<="
    unit      = "%" | "ns" | "us" | "ms" | "s"

On a report the first word is a phase, `coverage`, or `total`. On a comparison a `%` is the relative change of new
against base (`decode.time > 3%`: slower by more than 3 %; `prefill.mfu < -5%`: MFU lower by more than 5 %);
without `%` the condition is on the new side. A change of `time` must also be real: where there are statistics, its
verdict must not be `no_change`.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tracekit.compare.contract import Comparison, Pair, PhaseChange
from tracekit.errors import UnsupportedError, UsageError
from tracekit.report.contract import Summary
from tracekit.tables import Phase

_CONDITION = re.compile(
    r"\s*([a-z_]+(?:\.[a-z0-9_]+)+)\s*(>=|<=|>|<)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(%|ns|us|ms|s)?\s*",
    re.IGNORECASE,
)
_COMPARES: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_UNITS = {"": 1.0, "%": 0.01, "ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_TIMES = {"time": "wall_ns", "busy": "busy_ns", "idle": "idle_ns"}
_HINT = "for example 'decode.time > 3%', 'prefill.mfu < 0.4' or 'coverage.phase_known < 0.9'"


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition that fails a run.

    Attributes:
        text: As the user wrote it.
        path: Words of the name.
        compare: `>`, `>=`, `<` or `<=`.
        value: The number in SI base units, times in nanoseconds, percentages as shares.
        unit: As written; empty without one.
    """

    text: str
    path: tuple[str, ...]
    compare: str
    value: float
    unit: str

    def crossed(self, value: float) -> bool:
        """Whether a figure meets the condition."""
        return _COMPARES[self.compare](value, self.value)


def parse_gate(text: str) -> Gate:
    """A `--fail-on` option.

    Raises:
        UsageError: It is not a condition, or the name's first word is nothing that a report has.
    """
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UsageError(f"--fail-on {text!r}: not a condition", hint=_HINT)
    path, unit = tuple(found[1].split(".")), found[4] or ""
    if path[0] not in {*map(str, Phase), "total", "coverage"} or len(path) != 2:  # noqa: PLR2004 - group and figure
        raise UsageError(f"--fail-on {text!r}: {found[1]!r} names no figure", hint=_HINT)
    return Gate(text, path, found[2], float(found[3]) * _UNITS[unit], unit)


def report_crossings(gates: Sequence[Gate], summary: Summary) -> list[str]:
    """The conditions that a report meets, each as one line.

    Raises:
        UnsupportedError: A figure is not known in this report, so that nothing can be said.
    """
    return [
        f"{gate.text}: is {value:.4g}"
        for gate in gates
        if gate.crossed(value := _report_value(gate, summary))
    ]


def _report_value(gate: Gate, summary: Summary) -> float:
    group, name = gate.path
    if group == "coverage":
        return _number(gate, msgspec.to_builtins(summary.coverage).get(name))
    rows = [row for row in summary.phases if group in {row.phase, "total"}]
    figures = [msgspec.to_builtins(row) for row in rows]
    if group == "total" and name in {"time", "busy"}:
        return float(sum(figure["wall_ns" if name == "time" else "time_ns"] for figure in figures))
    if len(figures) != 1:
        raise _unknown(gate, f"there is no phase {group!r} with it here")
    figure = figures[0]
    if name == "idle":
        return float(sum(figure["idle_ns"].values()))
    return _number(gate, figure.get({"time": "wall_ns", "busy": "time_ns"}.get(name, name)))


def compare_crossings(gates: Sequence[Gate], comparison: Comparison) -> list[str]:
    """The conditions that a comparison meets, each as one line with its numbers.

    Raises:
        UnsupportedError: A figure is not known on a side that the condition needs.
    """
    return [line for gate in gates if (line := _crossing(gate, comparison)) is not None]


def _crossing(gate: Gate, comparison: Comparison) -> str | None:
    group, name = gate.path
    rows = [row for row in comparison.phases if row.phase == group]
    if group == "total" and name == "time" and gate.unit == "%":
        return _time_crossing(gate, comparison.result)
    if len(rows) != 1:
        raise _unknown(gate, f"there is no {group!r} with it in the comparison")
    if name == "time" and gate.unit == "%":
        return _time_crossing(gate, rows[0].result)
    pair = _pair(gate, rows[0], name)
    new = _number(gate, pair.new)
    if gate.unit != "%":
        return f"{gate.text}: is {new:.4g}" if gate.crossed(new) else None
    base = _number(gate, pair.base)
    if not base:
        raise _unknown(gate, "base is 0, so there is no relative change")
    change = new / base - 1
    return f"{gate.text}: changed by {100 * change:+.3g} %" if gate.crossed(change) else None


def _time_crossing(gate: Gate, result: Any) -> str | None:
    change = _number(gate, result.ratio) - 1
    if result.verdict == "no_change" or not gate.crossed(change):
        return None
    how = (
        "without statistics: too few steps"
        if result.ci_low is None
        else (f"95 % interval {100 * (result.ci_low - 1):+.3g} to {100 * (result.ci_high - 1):+.3g} %")
    )
    return f"{gate.text}: changed by {100 * change:+.3g} % ({how})"


def _pair(gate: Gate, row: PhaseChange, name: str) -> Pair:
    found = getattr(row, _TIMES.get(name, name), None)
    if not isinstance(found, Pair):
        raise _unknown(gate, f"a comparison has no figure {name!r}")
    return found


def _number(gate: Gate, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _unknown(gate, "it is unknown here")
    return float(value)


def _unknown(gate: Gate, why: str) -> UnsupportedError:
    return UnsupportedError(f"--fail-on {gate.text!r}: {why}", hint=_HINT)
