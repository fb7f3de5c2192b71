"""A side with the sums that every part of a comparison needs."""

from dataclasses import dataclass

import pandas as pd

from tracekit.compare.matching import kernel_groups, kernel_rows
from tracekit.compare.sides import Side
from tracekit.report.contract import PhaseRow
from tracekit.tables.columns import column


@dataclass(frozen=True, slots=True)
class Prepared:
    """A side, made ready.

    Attributes:
        side: The side.
        steps: Its steps with `run`.
        rows: Its kernels as `matching.kernel_rows` gives them.
        groups: Its kernels by name and role.
    """

    side: Side
    steps: pd.DataFrame
    rows: pd.DataFrame
    groups: pd.DataFrame

    @classmethod
    def of(cls, side: Side) -> "Prepared":
        """The side with its sums."""
        rows = kernel_rows(side)
        return cls(side, side.steps(), rows, kernel_groups(rows))

    def has(self, phase: str) -> bool:
        """Whether a phase occurs."""
        return any(row.phase == phase for run in self.side.runs for row in run.summary.phases)

    def steps_of(self, phase: str) -> pd.DataFrame:
        """Steps of a phase that ran kernels."""
        return self.steps[
            (self.steps["phase"] == phase).to_numpy() & (self.steps["n_kernels"] > 0).to_numpy(dtype=bool)
        ]

    def units(self, phase: str) -> int:
        """How many steps of a phase there are; where there are none, how many captures have the phase."""
        return len(self.steps_of(phase)) or max(1, len(self.summaries(phase)))

    def summaries(self, phase: str) -> list[PhaseRow]:
        """The phase in each run's summary."""
        return [row for run in self.side.runs for row in run.summary.phases if row.phase == phase]

    def idle(self, phase: str, cause: str | None = None) -> float | None:
        """Idle time a step [ns]; of one cause where it is given."""
        found = self.summaries(phase)
        if not found or not len(self.steps_of(phase)):
            return None
        times = (time for row in found for word, time in row.idle_ns.items() if cause in {None, word})
        return sum(times) / self.units(phase)

    def mean(self, phase: str, name: str) -> float | None:
        """Mean of a column over the phase's steps."""
        values = column(self.steps_of(phase), name)
        return float(values.mean()) if len(values) else None
