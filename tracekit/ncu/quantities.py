"""What can be told of a launch from a profiler's metrics: formulas and labels, as rows of data."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tracekit.ncu.rows import CounterRow, rows


@dataclass(frozen=True, slots=True)
class Formula:
    """scale * sum(weight * metric) * product(times) / product(over), in base units."""

    terms: tuple[tuple[str, float], ...]
    times: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    scale: float = 1.0

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric that it needs."""
        return (*(name for name, _ in self.terms), *self.times, *self.over)


@dataclass(frozen=True, slots=True)
class Quantity:
    """One thing that counters tell.

    Attributes:
        key: Its name.
        unit: Its unit.
        group: `vector` or `tensor` where it is a count of operations.
        formulas: Ways to get it, the first that can be computed wins.
        part_of: A metric that holds it already, where that was measured.
        doc: What it is.
    """

    key: str
    unit: str
    group: str
    formulas: tuple[Formula, ...]
    part_of: str = ""
    doc: str = ""


@cache
def quantities(extra: tuple[Path, ...] = ()) -> Mapping[str, Quantity]:
    """Every quantity by name.

    Raises:
        RegistryError: A row is malformed.
    """
    found: dict[str, Quantity] = {}
    for row in rows("quantity", extra):
        formulas = tuple(_formula(row, values) for values in row.tables("formulas"))
        found.setdefault(
            row.key,
            Quantity(
                row.key, row.text("unit"), row.text("group"), formulas, row.text("part_of"), row.text("doc")
            ),
        )
    return found


def _formula(row: CounterRow, values: Mapping[str, Any]) -> Formula:
    names = row.listed(values.get("sum", []), "sum")
    weights = values.get("weights", [1] * len(names))
    scale = values.get("scale", 1)
    if not names or not isinstance(weights, list) or len(weights) != len(names):
        msg = "a formula needs a `sum`, and as many `weights` where it has any"
        raise row.error(msg)
    numbers = [*weights, scale]
    if not all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers):
        msg = "`weights` and `scale` must be numbers"
        raise row.error(msg)
    terms = tuple(zip(names, (float(weight) for weight in weights), strict=True))
    times = row.listed(values.get("times", []), "times")
    return Formula(terms, times, row.listed(values.get("over", []), "over"), float(scale))


@cache
def wanted_metrics(extra: tuple[Path, ...] = ()) -> frozenset[str]:
    """Every metric that a formula or a stall table asks for: what a reader must keep."""
    needed = {
        name
        for quantity in quantities(extra).values()
        for formula in quantity.formulas
        for name in formula.metrics
    }
    return frozenset(needed | {name for row in rows("group", extra) for name in row.texts("metrics")})


@cache
def labels(extra: tuple[Path, ...] = ()) -> Mapping[tuple[str, str], str]:
    """Metric names by (label of the details page, base unit).

    Raises:
        RegistryError: A row is malformed.
    """
    found: dict[tuple[str, str], str] = {}
    for row in rows("label", extra):
        for unit, metric in row.table("metrics").items():
            if not isinstance(metric, str):
                msg = "`metrics` must name a metric by unit"
                raise row.error(msg)
            found.setdefault((row.key, unit), metric)
    return found
