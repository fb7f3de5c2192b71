"""The two things compared: each a few runs, from analyses of captures or from the files of earlier reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pandas as pd
import pyarrow as pa

from tracekit.errors import FormatError
from tracekit.report.contract import SCHEMA_VERSION, Summary
from tracekit.report.result import Result
from tracekit.tables import GAPS, KERNELS, STEPS, Table
from tracekit.tables.arrow import read_frame

SUMMARY = "summary.json"
_FILES = {"kernels.parquet": KERNELS, "steps.parquet": STEPS, "gaps.parquet": GAPS}


@dataclass(frozen=True, slots=True)
class Run:
    """One analysed run.

    Attributes:
        label: How the reader knows it: the path given.
        kernels: KERNELS; empty where only a summary is known.
        steps: STEPS.
        gaps: GAPS.
        summary: Its summary.
    """

    label: str
    kernels: pd.DataFrame
    steps: pd.DataFrame
    gaps: pd.DataFrame
    summary: Summary

    @classmethod
    def of(cls, label: str, result: Result) -> "Run":
        """The run that an analysis is."""
        kernels = result.kernels if len(result.all_kernels) else KERNELS.empty()
        return cls(label, kernels, result.steps, result.gaps, result.overview)


@dataclass(frozen=True, slots=True)
class Side:
    """Runs of one build.

    Attributes:
        label: How the reader knows it.
        runs: At least one.
    """

    label: str
    runs: tuple[Run, ...]

    def steps(self) -> pd.DataFrame:
        """Steps of all runs with their `run` number."""
        return _stacked([run.steps for run in self.runs])

    def kernels(self) -> pd.DataFrame:
        """Kernels of all runs with their `run` number."""
        return _stacked([run.kernels for run in self.runs])

    def gaps(self) -> pd.DataFrame:
        """Gaps of all runs with their `run` number."""
        return _stacked([run.gaps for run in self.runs])


def _stacked(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    numbered = [frame.assign(run=number) for number, frame in enumerate(frames)]
    filled = [_plain(frame) for frame in numbered if len(frame)] or [_plain(numbered[0])]
    return pd.concat(filled, ignore_index=True)


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Text as objects: two runs have different categories."""
    return frame.astype({name: object for name in frame if frame[name].dtype == "category"})


def is_report(path: str) -> bool:
    """Whether a path is a folder or a summary that `tracekit report -o` wrote."""
    place = Path(path)
    return place.name == SUMMARY or (place / SUMMARY).is_file()


def read_report(path: str) -> Run:
    """A run from the files of an earlier report; without the Parquet files its tables are empty.

    Args:
        path: The folder, or its summary.json.

    Raises:
        FormatError: A file is not what `tracekit report` writes.
        TableError: A table breaks its contract.
    """
    folder = Path(path).parent if Path(path).name == SUMMARY else Path(path)
    tables = [_read_table(folder / name, table) for name, table in _FILES.items()]
    return Run(path, tables[0], tables[1], tables[2], _read_summary(folder / SUMMARY))


def _read_summary(path: Path) -> Summary:
    try:
        summary = msgspec.json.decode(path.read_bytes(), type=Summary)
    except (OSError, msgspec.DecodeError) as error:
        raise FormatError(
            str(path), f"not a summary of a report: {error}", hint="write it again with `tracekit report -o`"
        ) from error
    if summary.schema_version != SCHEMA_VERSION:
        raise FormatError(
            str(path),
            f"has schema version {summary.schema_version}, not {SCHEMA_VERSION}",
            hint="write it again with this version of `tracekit report -o`",
        )
    return summary


def _read_table(path: Path, table: Table) -> pd.DataFrame:
    if not path.is_file():
        return table.empty()
    try:
        frame = read_frame(path)
    except (OSError, pa.ArrowException) as error:
        raise FormatError(
            str(path), f"not a Parquet table: {error}", hint="write it again with `tracekit report -o`"
        ) from error
    return table.check(table.conform(frame))
