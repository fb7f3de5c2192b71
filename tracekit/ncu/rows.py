"""Rows of `data/counters/*.toml`, read with the standard library alone so that the collectors can use them."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tracekit.errors import RegistryError

DATA = Path(__file__).parent.parent / "data" / "counters"


@dataclass(frozen=True, slots=True)
class CounterRow:
    """One row and the file it stands in."""

    source: str
    key: str
    values: Mapping[str, Any]

    def text(self, name: str) -> str:
        """The text `name`, empty where absent."""
        value = self.values.get(name, "")
        if not isinstance(value, str):
            raise self.error(f"{name!r} must be text")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """The list of texts `name`, empty where absent."""
        return self.listed(self.values.get(name, []), name)

    def listed(self, value: Any, name: str) -> tuple[str, ...]:
        """A value that must be a list of texts."""
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(f"{name!r} must be a list of texts")
        return tuple(value)

    def table(self, name: str) -> Mapping[str, Any]:
        """The table `name`, empty where absent."""
        value = self.values.get(name, {})
        if not isinstance(value, dict):
            raise self.error(f"{name!r} must be a table")
        return value

    def tables(self, name: str) -> Sequence[Mapping[str, Any]]:
        """The list of tables `name`."""
        value = self.values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.error(f"{name!r} must be a list of tables")
        return value

    def error(self, reason: str) -> RegistryError:
        """What to raise where the row is malformed."""
        return RegistryError(self.source, self.key, reason)


@cache
def rows(kind: str, extra: tuple[Path, ...] = ()) -> tuple[CounterRow, ...]:
    """The rows of one kind; those of the user's folders (as `--data` gives them) come first.

    Raises:
        RegistryError: A file is not TOML, or a row has no key.
    """
    folders = (*(path / "counters" for path in extra), DATA)
    files = (file for folder in folders for file in sorted(folder.glob("*.toml")))
    found = (row for file in files for row in _read(file))
    return tuple(row for row in found if row.values.get("kind") == kind)


@cache
def _read(file: Path) -> tuple[CounterRow, ...]:
    try:
        listed = tomllib.loads(file.read_text(encoding="utf-8")).get("row", [])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RegistryError(file.name, "-", f"not readable as TOML: {error}") from error
    out = []
    for number, values in enumerate(listed):
        key = values.get("key") if isinstance(values, dict) else None
        if not isinstance(key, str) or not key:
            raise RegistryError(file.name, f"#{number}", "needs a `key`")
        out.append(CounterRow(file.name, key, values))
    return tuple(out)
