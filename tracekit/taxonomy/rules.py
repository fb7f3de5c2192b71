"""The rows of `data/kernels`, compiled: family, op, hint, dtype and tile rules, each sort in matching order."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pycxxfilt import demangle as _demangle

from tracekit.errors import RegistryError
from tracekit.registry import Row, rows

OTHER = "other"
KINDS = frozenset({"family", "op", "hint", "dtype", "tile"})
LONGEST = 4096  # what names a kernel stands at its beginning; demangled templates run to tens of kilobytes


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of `data/kernels`, compiled.

    Attributes:
        row: The row.
        kind: `family`, `op`, `hint`, `dtype` or `tile`.
        pattern: Searched for in the name.
        weight: How sure a hint is; NaN for other kinds.
    """

    row: Row
    kind: str
    pattern: re.Pattern[str]
    weight: float

    @property
    def word(self) -> str:
        """What the rule says of a name that it matches."""
        return self.row.key


@cache
def rules(kind: str, extra: tuple[Path, ...] = ()) -> tuple[Rule, ...]:
    """The rules of one kind, in matching order.

    Raises:
        RegistryError: A row has an unknown kind, no valid pattern, is a hint without a weight or a tile without its groups.
    """
    return tuple(rule for rule in map(_compile, rows("kernels", extra)) if rule.kind == kind)


def _compile(row: Row) -> Rule:
    kind = row.text("kind", "family")
    if kind not in KINDS:
        raise RegistryError(row.source, row.key, f"kind {kind!r} is none of {', '.join(sorted(KINDS))}")
    weight = row.number("weight")
    if kind == "hint" and weight is None:
        raise RegistryError(row.source, row.key, "a hint needs a `weight`")
    try:
        pattern = re.compile(row.text("pattern"))
    except re.error as error:
        raise RegistryError(row.source, row.key, f"pattern: {error}") from error
    if kind == "tile":
        _check_tile(row, pattern)
    return Rule(row, kind, pattern, float("nan") if weight is None else weight)


def _check_tile(row: Row, pattern: re.Pattern[str]) -> None:
    if not {"m", "n"} <= set(pattern.groupindex) or row.text("tokens", "m") not in pattern.groupindex:
        raise RegistryError(row.source, row.key, "a tile needs groups `m` and `n`, and `tokens` one of them")


def first_match(name: str, candidates: Iterable[Rule]) -> Rule | None:
    """The first rule that matches a name."""
    return next((rule for rule in candidates if rule.pattern.search(name)), None)


@cache
def demangle(name: str) -> str:
    """The readable form of an Itanium-mangled name; any other name as it is."""
    if not name.startswith("_Z"):
        return name
    try:
        return str(_demangle(name))
    except ValueError:
        return name
