"""Rows of data: devices, kernel families, engines, models, counters.

Each kind is a folder of TOML files under `tracekit/data/`; every file holds an array of tables named `row`.
Rows keep the order of the file names, then of the file, so that "first rule wins" can be read off the folder.
Users add folders of the same layout with `--data DIR`; their rows come first.
"""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tracekit.errors import RegistryError

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of data and where it stands."""

    source: str
    key: str
    values: dict[str, Any]

    def text(self, name: str, default: str | None = None) -> str:
        """The row's text value `name`; `default` where it is absent, an error where there is none."""
        value = self.values.get(name, default)
        if not isinstance(value, str):
            raise RegistryError(self.source, self.key, f"{name!r} must be text")
        return value

    def number(self, name: str) -> float | None:
        """The row's number `name`, or None where it is absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise RegistryError(self.source, self.key, f"{name!r} must be a number")
        return float(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """The row's list of texts `name`; empty where it is absent."""
        value = self.values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise RegistryError(self.source, self.key, f"{name!r} must be a list of texts")
        return tuple(value)


def _files(kind: str, extra: Sequence[Path]) -> Iterator[Path]:
    for base in (*extra, DATA):
        yield from sorted((base / kind).glob("*.toml"))


def _rows(path: Path) -> Iterator[Row]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RegistryError(path.name, "-", f"not readable as TOML: {error}") from error
    rows = document.get("row", [])
    if not isinstance(rows, list):
        raise RegistryError(path.name, "-", "`row` must be an array of tables")
    for number, values in enumerate(rows):
        key = values.get("key")
        if not isinstance(key, str) or not key:
            raise RegistryError(path.name, f"#{number}", "needs a `key`")
        yield Row(path.name, key, values)


@cache
def rows(kind: str, extra: tuple[Path, ...] = ()) -> tuple[Row, ...]:
    """All rows of a kind, in matching order.

    Args:
        kind: A folder under `data/`: devices, kernels, engines, models or counters.
        extra: Folders given with `--data`, whose rows come first.

    Raises:
        RegistryError: A file is not TOML, or a row has no key.
    """
    return tuple(row for path in _files(kind, extra) for row in _rows(path))
