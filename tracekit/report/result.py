"""What an analysis gives: the public tables, and the summary made from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pandas as pd

from tracekit.report.accounting import accounted
from tracekit.report.contract import CaptureUsed, DeviceUsed, Summary
from tracekit.report.counted import with_counted
from tracekit.report.groups import BY_NAME, BY_SHAPE, grouped
from tracekit.report.parquet import parquet_bytes
from tracekit.report.summary import summarise
from tracekit.tables import KERNELS, Table
from tracekit.tables.ceilings import Ceilings

if TYPE_CHECKING:
    from tracekit.report.html.notebook import Chart


class FindingLike(Protocol):
    """What the report needs of a finding; see `FindingRow` for the meanings."""

    @property
    def title(self) -> str:
        """What it is."""

    @property
    def phase(self) -> str:
        """Phase that it concerns."""

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels that it concerns."""

    @property
    def recoverable_ns(self) -> float:
        """Time that could be won [ns]."""

    @property
    def confidence(self) -> float:
        """How sure, 0 to 1."""

    @property
    def evidence(self) -> str:
        """The numbers."""

    @property
    def next_step(self) -> str:
        """What to do."""


class ErrorLike(Protocol):
    """What the report needs of a capture that could not be read."""

    @property
    def path(self) -> str:
        """The capture."""

    @property
    def code(self) -> str:
        """Stable word for what went wrong."""

    @property
    def message(self) -> str:
        """One line."""

    @property
    def hint(self) -> str:
        """The next step."""


# Not slotted: the summary is made once, when first asked for, and kept.
@dataclass(frozen=True)
class Result:
    """An analysis.

    Attributes:
        all_kernels: KERNELS with the internal columns `peak`, `weight_bytes` and `kv_bytes`.
        steps: STEPS.
        gaps: GAPS.
        quality: QUALITY.
        ceilings: Those of the device.
        device: Name and match of the device.
        captures: What was read, and what each capture contributed.
        findings: What could be won, most first.
        errors: Captures that could not be read.
        unprofiled: By phase, the given time of a step without a profiler [ns].
    """

    all_kernels: pd.DataFrame
    steps: pd.DataFrame
    gaps: pd.DataFrame
    quality: pd.DataFrame
    ceilings: Ceilings = field(default_factory=Ceilings)
    device: DeviceUsed = field(default_factory=DeviceUsed)
    captures: tuple[CaptureUsed, ...] = ()
    findings: tuple[FindingLike, ...] = ()
    errors: tuple[ErrorLike, ...] = ()
    unprofiled: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """The public KERNELS table."""
        return KERNELS.conform(self.all_kernels)

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Kernels with exclusive time and known work, as `accounted` and `with_counted` give them."""
        # Where nothing could be read there are no columns either.
        kernels = self.all_kernels if len(self.all_kernels) else KERNELS.empty()
        return with_counted(accounted(kernels, self.ceilings))

    @cached_property
    def by_name(self) -> pd.DataFrame:
        """Kernels by name and phase, as `groups.grouped` gives them."""
        return grouped(self.rows, self.ceilings, BY_NAME)

    @cached_property
    def by_shape(self) -> pd.DataFrame:
        """Kernels by name, phase and shape, as `groups.grouped` gives them."""
        return grouped(self.rows, self.ceilings, BY_SHAPE)

    @cached_property
    def overview(self) -> Summary:
        """The summary as typed rows."""
        return summarise(
            self.rows,
            self.steps,
            self.gaps,
            self.quality,
            self.ceilings,
            device=self.device,
            captures=self.captures,
            findings=self.findings,
            errors=self.errors,
            unprofiled=self.unprofiled,
        )

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """The summary as plain dicts and lists: what `report --json` writes."""
        plain: dict[str, Any] = msgspec.to_builtins(self.overview)
        return plain

    @cached_property
    def _files(self) -> dict[str, bytes]:
        return {}

    def parquet(self, table: Table) -> bytes:
        """A public table as a Parquet file, made when it is first asked for.

        Raises:
            TableError: The table breaks its contract.
        """
        if table.name not in self._files:
            self._files[table.name] = parquet_bytes(getattr(self, table.name), table)
        return self._files[table.name]

    def roofline(self) -> "Chart":
        """The roofline of the kernels with known FLOPs, for a notebook.

        Raises:
            UnsupportedError: No kernel has known FLOPs.
        """
        from tracekit.report.html.notebook import roofline  # noqa: PLC0415 - drawing is for who asks for it

        return roofline(self)

    def timeline(self) -> "Chart":
        """Steps and idle time, for a notebook.

        Raises:
            UnsupportedError: There are no steps.
        """
        from tracekit.report.html.notebook import timeline  # noqa: PLC0415 - as above

        return timeline(self)

    def waterfall(self, phase: str) -> "Chart":
        """Where a phase's time goes, down to the speed of light, for a notebook.

        Raises:
            UnsupportedError: The phase does not occur, or too little of its work is known.
        """
        from tracekit.report.html.notebook import waterfall  # noqa: PLC0415 - as above

        return waterfall(self, phase)

    def _repr_html_(self) -> str:
        from tracekit.report.html.notebook import summary_html  # noqa: PLC0415 - as above

        return summary_html(self)
