"""Pages of ncu as the tables of the counter contract."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import pandas as pd

from tracekit.ncu.quantities import labels, wanted_metrics
from tracekit.readers.ncu.document import NAME, Page
from tracekit.readers.ncu.numbers import decimal_mark, parse
from tracekit.readers.ncu.units import base_unit
from tracekit.tables import COUNTER_LAUNCHES, COUNTER_VALUES, Counters, HwStatus, QualityNote

_IDENTITY = {
    "process": ("Process ID",),
    "device": ("Device",),
    "stream": ("Stream",),
    "grid": ("Grid Size",),
    "block": ("Block Size",),
    "cc": ("CC",),
}
_NUMBERS = ("process", "device", "stream")
_RANGES = re.compile(r"(?i)push/pop|start/(?:stop|end)|nvtx")
_METRIC = re.compile(r"\w+__\w+")
_TRIPLE = re.compile(r"^\(?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)?$")
_BIGGEST = 1 << 62
_INT32 = 1 << 31

# Launch, metric, unit as printed, cell.
Cell = tuple[int, str, str, str]


@dataclass(slots=True)
class Launches:
    """Launches and cells of all pages of a file, growing; `extra` holds folders of the user's own rows."""

    extra: tuple[Path, ...] = ()
    rows: list[dict[str, object]] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    metrics: set[str] = field(default_factory=set)
    repeated: int = 0
    unlabelled: Counter[str] = field(default_factory=Counter)
    without_units: int = 0
    _seen: set[bytes] = field(default_factory=set)
    _details: dict[tuple[str, ...], int] = field(default_factory=dict)
    _details_cells: set[tuple[int, str]] = field(default_factory=set)

    def add(self, page: Page) -> None:
        """Take one page in."""
        if page.is_details:
            self._add_details(page)
        else:
            self._add_raw(page)

    def _add_raw(self, page: Page) -> None:
        wanted = wanted_metrics(self.extra)
        self.metrics.update(name for name in page.header if _METRIC.search(name))
        columns = {name: at for at, name in reversed(list(enumerate(page.header))) if name in wanted}
        units = page.units
        self.without_units += len(page.rows) if units is None else 0
        for row in page.rows:
            # The same launch printed twice (two imports in one file) is one launch.
            key = blake2b("\0".join(row).encode(), digest_size=16).digest()
            if key in self._seen:
                self.repeated += 1
                continue
            self._seen.add(key)
            number = self._launch(page.header, row)
            self.cells += [
                (number, name, "?" if units is None else units[at], row[at]) for name, at in columns.items()
            ]

    def _add_details(self, page: Page) -> None:
        wanted, by_label = wanted_metrics(self.extra), labels(self.extra)
        at = {name: page.header.index(name) for name in ("Metric Name", "Metric Unit", "Metric Value")}
        at |= {name: page.header.index(name) for name in ("Process ID", NAME) if name in page.header}
        for row in page.rows:
            key = (row[0], row[at.get("Process ID", 0)], row[at[NAME]])
            if key not in self._details:
                self._details[key] = self._launch(page.header, row)
            label, unit = row[at["Metric Name"]], row[at["Metric Unit"]]
            if not label:
                continue
            base = base_unit(unit)
            metric = label if label in wanted else by_label.get((label, base[0] if base else unit))
            if metric is None:
                self.unlabelled[label] += 1
                continue
            self.metrics.add(metric)
            # Sections repeat metrics of each other.
            number = self._details[key]
            if (number, metric) not in self._details_cells:
                self._details_cells.add((number, metric))
                self.cells.append((number, metric, unit, row[at["Metric Value"]]))

    def _launch(self, header: list[str], row: list[str]) -> int:
        found: dict[str, object] = {"launch": len(self.rows), "name": row[header.index(NAME)]}
        for column, names in _IDENTITY.items():
            text = next((row[header.index(name)] for name in names if name in header), "")
            found[column] = _whole(text, column) if column in _NUMBERS else _plain(text)
        texts = [cell for name, cell in zip(header, row, strict=True) if cell and _RANGES.search(name)]
        found["ranges"] = "\n".join(texts) or None
        self.rows.append(found)
        return len(self.rows) - 1

    def counters(self, options: dict[str, str]) -> tuple[Counters, list[QualityNote]]:
        """The tables, and what could not be read."""
        mark, doubtful = decimal_mark(cell for _, _, _, cell in self.cells)
        failed: Counter[str] = Counter()
        values = pd.DataFrame(
            _values(self.cells, mark, failed), columns=[column.name for column in COUNTER_VALUES.columns]
        )
        launches = pd.DataFrame(self.rows, columns=COUNTER_LAUNCHES.names)
        notes = self._notes(failed)
        if doubtful:
            notes.append(
                QualityNote(
                    "counter_numbers",
                    sum("," in cell for _, _, _, cell in self.cells),
                    "commas in counters are read as thousands separators: no number with a fraction shows the locale; print again with LC_ALL=C",
                )
            )
        tables = Counters(
            COUNTER_LAUNCHES.conform(launches),
            COUNTER_VALUES.conform(values),
            frozenset(self.metrics),
            options,
        )
        return tables, notes

    def _notes(self, failed: Counter[str]) -> list[QualityNote]:
        out = []
        if self.repeated:
            out.append(
                QualityNote("counter_repeats", self.repeated, "launches printed twice were taken once")
            )
        if self.without_units:
            out.append(
                QualityNote(
                    "counter_units",
                    self.without_units,
                    "the row of units below the header is missing: no counter of these launches can be scaled; print the report again with --page raw --print-units base",
                )
            )
        elif failed:
            names = ", ".join(name for name, _ in failed.most_common(3))
            out.append(
                QualityNote(
                    "counter_cells",
                    failed.total(),
                    f"counters that are not numbers, or in an unknown unit, were left out (most: {names})",
                )
            )
        return out


def _values(cells: list[Cell], mark: str, failed: Counter[str]) -> Iterator[tuple[object, ...]]:
    for launch, metric, unit, cell in cells:
        value, status = parse(cell, mark)
        base = base_unit(unit)
        if base is None and status is HwStatus.MEASURED:
            value, status = None, HwStatus.FAILED
        if status is HwStatus.FAILED:
            failed[metric] += 1
        word, factor = base or ("", 1.0)
        yield launch, metric, None if value is None else value * factor, word, str(status)


def _plain(text: str) -> str | None:
    """`(64, 64, 1)` as `64,64,1`; any other text as it is."""
    triple = _TRIPLE.match(text)
    return ",".join(triple.groups()) if triple else text.strip() or None


def _whole(text: str, column: str) -> int | None:
    plain = text.strip()
    if not plain.isdecimal() or not plain.isascii():
        return None
    number = int(plain[:20])
    return number if number < (_INT32 if column == "device" else _BIGGEST) else None
