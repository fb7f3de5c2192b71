"""Counters that rocprofv3 collected, in the terms of the counter tables."""

import math
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from tracekit.readers.arrow import triple_texts
from tracekit.readers.rocprof.frames import NO_KERNEL_NAME, Triple, blank, groups
from tracekit.tables import COUNTER_LAUNCHES, COUNTER_VALUES, Counters, HwStatus, QualityNote

# Derived counters that are defined in units of 1024 bytes; all others are counts, or percentages by their name.
_KIBIBYTES = ("FETCH_SIZE", "WRITE_SIZE")


@dataclass(slots=True)
class Launches:
    """Dispatches whose counters were read, growing.

    Attributes:
        rows: Kernel name, process, device and stream of each dispatch.
        extents: Its work items, and those of a work group, in three directions.
        cells: Dispatch, counter, value; instances of one counter are added up.
        unplaced: Values that were left out: of no dispatch or no counter in the file, or no number.
    """

    rows: list[tuple[str, int | None, int | None, int | None]] = field(default_factory=list)
    extents: list[tuple[Triple, Triple]] = field(default_factory=list)
    cells: dict[tuple[int, str], float] = field(default_factory=dict)
    unplaced: int = 0

    def add(
        self,
        *,
        name: str,
        process: int | None,
        device: int | None,
        stream: int | None,
        items: Triple,
        group: Triple,
    ) -> int:
        """Add a dispatch; its number."""
        self.rows.append((name or NO_KERNEL_NAME, process, device, stream))
        self.extents.append((items, group))
        return len(self.rows) - 1

    def measure(self, launch: int | None, counter: str | None, value: float | None) -> None:
        """Add the value of one instance, where it says of which dispatch and counter it is."""
        if launch is None or not counter or value is None or not math.isfinite(value):
            self.unplaced += 1
            return
        key = (launch, counter)
        self.cells[key] = self.cells.get(key, 0.0) + value

    def notes(self) -> list[QualityNote]:
        """What was left out."""
        if not self.unplaced:
            return []
        text = "counter values were left out: the dispatch or the counter that they belong to is not in the file, or they are no number"
        return [QualityNote("counters_unplaced", self.unplaced, text)]

    def counters(self) -> Counters | None:
        """The tables; None where no counter was collected."""
        if not self.cells:
            return None
        known, process, device, stream = zip(*self.rows, strict=True)
        items, group = (np.array(part, np.int64) for part in zip(*self.extents, strict=True))
        absent = blank(group)
        launches = pd.DataFrame(
            {
                "launch": np.arange(len(self.rows), dtype=np.int64),
                "name": pd.Categorical(known),
                "process": _optional(process),
                "device": _optional(device).astype("Int32"),
                "stream": _optional(stream),
                "grid": triple_texts(groups(items, group), absent),
                "block": triple_texts(group, absent),
            }
        )
        return Counters(
            COUNTER_LAUNCHES.check(COUNTER_LAUNCHES.conform(launches)),
            self._values(),
            frozenset(metric for _, metric in self.cells),
            {"tool": "rocprofv3"},
        )

    def _values(self) -> pd.DataFrame:
        metrics = [metric for _, metric in self.cells]
        scale = np.where(np.isin(metrics, _KIBIBYTES), 1024.0, 1.0)
        values = pd.DataFrame(
            {
                "launch": np.array([launch for launch, _ in self.cells], np.int64),
                "metric": pd.Categorical(metrics),
                "value": np.array(list(self.cells.values())) * scale,
                "unit": pd.Categorical(["byte" if metric in _KIBIBYTES else "" for metric in metrics]),
                "status": pd.Categorical([str(HwStatus.MEASURED)] * len(metrics)),
            }
        )
        return COUNTER_VALUES.check(COUNTER_VALUES.conform(values))


def _optional(numbers: tuple[int | None, ...]) -> pd.Series:
    return pd.Series(pd.array(list(numbers), dtype="Int64"))
