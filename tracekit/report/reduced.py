"""What an annotated trace leaves out, so that a viewer can still open it: the shortest of each kind, and long texts."""

from dataclasses import dataclass, field

import pandas as pd

from tracekit.units import plain

REDUCED_BYTES = 50_000_000
"""What a reduced trace stays under, uncompressed; viewers grow slow from some hundred megabytes."""
LONGEST = 120
"""Characters of a name, an annotation or any other text of the capture."""

# Share of the bytes, and the most that one event takes: a text of LONGEST characters can take twice as many, where
# each is a quotation mark or a backslash.
_PARTS = {"kernels": (0.66, 900), "gaps": (0.12, 450), "steps": (0.1, 1000), "phases": (0.06, 220)}
_COUNTERS = 0.05
_SAMPLE_BYTES = 90
_BINS = 2000


@dataclass(slots=True)
class Limits:
    """How much of an analysis an annotated trace may hold.

    Attributes:
        size: Bytes; None for everything, as it is.
        left_out: How many of each kind were left out, as they are drawn.
    """

    size: int | None = None
    left_out: dict[str, int] = field(default_factory=dict)

    def longest(self, what: str, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows that there is room for, those of the longest `dur_ns`, in the order in which they stand.

        Args:
            what: kernels, gaps, steps or phases.
            rows: Their table.
        """
        if self.size is None:
            return rows
        share, each = _PARTS[what]
        most = int(self.size * share / each)
        if len(rows) <= most:
            return rows
        self.left_out[what] = len(rows) - most
        return rows[rows.index.isin(rows["dur_ns"].nlargest(most).index)]

    def bins(self, series: int) -> int:
        """Parts of the time into which each of so many counter series is divided."""
        if self.size is None or not series:
            return _BINS
        return max(1, min(_BINS, int(self.size * _COUNTERS / _SAMPLE_BYTES / series) - 1))

    def text(self, value: str) -> str:
        """A text of the capture as it is written: cut, and with nothing that JSON writes as an escape."""
        if self.size is None:
            return value
        return plain(value, LONGEST).encode("ascii", "replace").decode()
