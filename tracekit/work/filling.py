"""The work columns of kernels while they are filled."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.tables import WorkSource
from tracekit.tables.text import numbered
from tracekit.work.known import COLUMNS, TEXT

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Source: TypeAlias = WorkSource | Ints


@dataclass(slots=True)
class Columns:
    """Unknown is NaN; texts are positions in `texts`, -1 where unknown."""

    flops: Floats
    dram_bytes: Floats
    weight_bytes: Floats
    kv_bytes: Floats
    bus_bytes: Floats
    expected_bytes: Floats
    flops_source: Ints
    dram_bytes_source: Ints
    dtype: Ints
    peak: Ints
    texts: list[str] = field(default_factory=list, init=False)

    @classmethod
    def unknown(cls, rows: int) -> "Columns":
        """Columns in which nothing is known yet."""
        values = {name: np.full(rows, -1 if name in TEXT else np.nan) for name in COLUMNS}
        return cls(**values)

    def numbers(self, texts: Iterable[str | None]) -> Ints:
        """The positions of texts in `texts`, to which new ones are added; -1 for None."""
        place = {text: number for number, text in enumerate(self.texts)}
        found = [-1 if text is None else place.setdefault(str(text), len(place)) for text in texts]
        self.texts = list(place)
        return np.array(found, np.int64)

    def put(self, rows: Bools | Ints, flops: Floats, dram_bytes: Floats, source: Source) -> None:
        """Set work where it is a number, with its source."""
        told = self.numbers([source])[0] if isinstance(source, WorkSource) else source
        self.flops[rows] = flops
        self.dram_bytes[rows] = dram_bytes
        self.flops_source[rows] = np.where(np.isnan(flops), -1, told)
        self.dram_bytes_source[rows] = np.where(np.isnan(dram_bytes), -1, told)

    def are(self, column: Ints, words: frozenset[str]) -> Bools:
        """Whether each text of a column is one of some words."""
        return np.array([*(text in words for text in self.texts), False], np.bool_)[column]

    def finished(self) -> dict[str, Floats | pd.Categorical]:
        """The columns by name; text as categories."""
        values = {name: getattr(self, name) for name in COLUMNS}
        return {
            name: numbered(value, self.texts) if name in TEXT else value for name, value in values.items()
        }
