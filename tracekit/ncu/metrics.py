"""What to collect on which chip: groups of metrics, sets of them, and an estimate of the passes that they take."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tracekit.errors import UnsupportedError
from tracekit.ncu.rows import CounterRow, rows

TENSOR = "tensor"
_TENSOR_OF = "tensor_"


@dataclass(frozen=True, slots=True)
class Chip:
    """One GPU chip as the profiler names it.

    Attributes:
        key: Name, such as gh100.
        cc: Its compute capabilities.
        products: Boards with it.
        status: How its metric names are known.
        note: What it lacks.
        metrics: Metrics by group, where they are its own; an empty list is "has none".
        passes: Passes by group, where they are its own.
    """

    key: str
    cc: tuple[str, ...]
    products: str
    status: str
    note: str
    metrics: Mapping[str, tuple[str, ...]]
    passes: Mapping[str, int]

    @property
    def tensor_dtypes(self) -> tuple[str, ...]:
        """Types whose matrix operations it counts."""
        return tuple(name.removeprefix(_TENSOR_OF) for name in self.metrics if name.startswith(_TENSOR_OF))


@dataclass(frozen=True, slots=True)
class Run:
    """One profiled run of a set.

    Attributes:
        name: Its name in the set.
        metrics: What it asks for.
        cache_control: `none` or `all`.
        passes: Passes a launch, by a planning library: each group on its own, so that a profiler may need fewer.
        missing: Groups that the chip cannot count.
        unpriced: Groups whose passes are not known and not in `passes`.
    """

    name: str
    metrics: tuple[str, ...]
    cache_control: str
    passes: int
    missing: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricSet:
    """What is collected under one name, in one or more runs."""

    key: str
    doc: str
    dtypes: tuple[str, ...]
    runs: tuple[Mapping[str, Any], ...]


@cache
def chips(extra: tuple[Path, ...] = ()) -> Mapping[str, Chip]:
    """Every chip by name.

    Raises:
        RegistryError: A row is malformed.
    """
    found: dict[str, Chip] = {}
    for row in rows("chip", extra):
        found.setdefault(row.key, _chip(row))
    return found


def _chip(row: CounterRow) -> Chip:
    metrics = {name: row.listed(value, name) for name, value in row.table("metrics").items()}
    passes = row.table("passes")
    if not all(isinstance(count, int) for count in passes.values()):
        msg = "`passes` must be whole numbers"
        raise row.error(msg)
    return Chip(
        row.key,
        row.texts("cc"),
        row.text("products"),
        row.text("status"),
        row.text("note"),
        metrics,
        dict(passes),
    )


def chip(name: str, extra: tuple[Path, ...] = ()) -> Chip:
    """A chip by its name (gh100) or compute capability (9.0).

    Raises:
        UnsupportedError: There is none.
    """
    known = chips(extra)
    wanted = name.strip().lower()
    by_cc = {cc: found for found in known.values() for cc in found.cc}
    found = known.get(wanted) or by_cc.get(wanted)
    if found is None:
        listed = ", ".join(f"{one.key} ({one.products})" for one in known.values())
        raise UnsupportedError(f"no chip {name!r}", hint=f"chips: {listed}")
    return found


@cache
def sets(extra: tuple[Path, ...] = ()) -> Mapping[str, MetricSet]:
    """Every set by name."""
    found: dict[str, MetricSet] = {}
    for row in rows("set", extra):
        found.setdefault(
            row.key, MetricSet(row.key, row.text("doc"), row.texts("dtypes"), tuple(row.tables("runs")))
        )
    return found


def metric_set(name: str, extra: tuple[Path, ...] = ()) -> MetricSet:
    """A set by its name.

    Raises:
        UnsupportedError: There is none.
    """
    known = sets(extra)
    if name not in known:
        raise UnsupportedError(f"no metric set {name!r}", hint=f"sets: {', '.join(known)}")
    return known[name]


def runs(
    chosen: MetricSet, on: Chip, dtypes: Iterable[str] = (), extra: tuple[Path, ...] = ()
) -> tuple[Run, ...]:
    """The runs of a set on a chip.

    Args:
        chosen: The set.
        on: The chip.
        dtypes: Types whose matrix operations are counted; by default the set's, or all that the chip has.
        extra: Folders of the user's own rows.

    Raises:
        UnsupportedError: A type is given whose matrix operations the chip does not count.
    """
    given = tuple(dtypes)
    unknown = [dtype for dtype in given if dtype not in on.tensor_dtypes]
    if unknown:
        raise UnsupportedError(
            f"{on.key} does not count matrix operations of {', '.join(unknown)}",
            hint=f"it counts {', '.join(on.tensor_dtypes)}",
        )
    usual = [dtype for dtype in chosen.dtypes if dtype in on.tensor_dtypes]
    picked = given or usual or on.tensor_dtypes
    groups = {row.key: row for row in rows("group", extra)}
    return tuple(
        run for values in chosen.runs if (run := _run(values, on, picked, groups)).metrics or run.missing
    )


def _run(values: Mapping[str, Any], on: Chip, dtypes: Iterable[str], groups: Mapping[str, CounterRow]) -> Run:
    names: list[str] = []
    for name in values["groups"]:
        names += [f"{_TENSOR_OF}{dtype}" for dtype in dtypes] if name == TENSOR else [name]
    own = {name: on.metrics.get(name, groups[name].texts("metrics")) for name in names}
    # A group that only some chips have at all is not missed on the others.
    missing = tuple(name for name, found in own.items() if not found and groups[name].texts("metrics"))
    cost = {
        name: on.passes.get(name, groups[name].values.get("passes")) for name, found in own.items() if found
    }
    passes = sum(count or 0 for count in cost.values())
    unpriced = tuple(name for name, count in cost.items() if count is None)
    counted = [metric for found in own.values() for metric in found] if passes or unpriced else []
    # A replay with warm caches hides traffic: only a single pass may leave them alone.
    caches = values["cache_control"] if passes <= 1 else "all"
    return Run(values["name"], tuple(dict.fromkeys(counted)), caches, passes, missing, unpriced)
