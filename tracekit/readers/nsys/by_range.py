"""Summaries of kernels by NVTX range (`nvtx_kern_sum`), in which a kernel counts once for each range around its launch.

Each kernel is laid out once. Where ranges of the report mark engine steps, these count and the ranges about and
inside them do not. Where none does, a range whose kernels could all lie in another's, by count, sum and extremes, is
taken to lie in it: then sums are a lower bound. What ran outside every range has rows of its own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pandas as pd

from tracekit.errors import UnsupportedError
from tracekit.readers.arrow import Ints, whole
from tracekit.registry import rows
from tracekit.tables import QualityNote

COLUMNS = frozenset({"NVTX Range", "Kern Inst", "Kernel Name"})
# Annotations of one step, the surest first; a report that has one kind is laid out by it.
_STEP_KINDS = ("counts", "mode", "span")
_LONGEST_TEXT = 512
_MOST_ROWS, _MOST_RANGES = 500_000, 5_000
# A number above this is damage; sums of as many as are read stay within 64 bits.
_LARGEST = 1 << 43
_NUMBERS = {
    "instances": "NVTX Inst",
    "count": "Kern Inst",
    "total": "Total Time (ns)",
    "least": "Min (ns)",
    "most": "Max (ns)",
}
_HINT = "give the report cuda_gpu_trace or cuda_gpu_kern_sum, or the export: nsys export --type sqlite"

Place: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Kernels:
    """One kernel's launches under one range: number, summed time, shortest and longest [ns]."""

    count: int
    total: int
    least: int
    most: int

    def within(self, other: "Kernels") -> bool:
        """Whether these could be some of the other's."""
        fewer = self.count <= other.count and self.total <= other.total
        return fewer and self.least >= other.least and self.most <= other.most


@dataclass(slots=True)
class Range:
    """One range of the report: its text, thread, instances, and kernels by name."""

    text: str
    thread: str
    instances: int
    kernels: dict[str, Kernels] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Summed time of its kernels [ns]."""
        return sum(kernel.total for kernel in self.kernels.values())


@dataclass(slots=True)
class ByRange:
    """The rows of a report, by range.

    Attributes:
        ranges: Ranges by text, process and thread; an empty text is what ran outside every range.
        rows: Rows read.
        bad: Rows without a name, a number or a time.
    """

    ranges: dict[Place, Range] = field(default_factory=dict)
    rows: int = 0
    bad: int = 0

    def add(self, label: str, columns: dict[str, list[str]]) -> None:
        """Add a batch of rows.

        Raises:
            UnsupportedError: The report has more rows or ranges than are laid out.
        """
        numbers = {name: whole(columns[column]).to_pylist() for name, column in _NUMBERS.items()}
        texts = columns["NVTX Range"], columns["PID"], columns["TID"], columns["Kernel Name"]
        for row, (text, process, thread, kernel) in enumerate(zip(*texts, strict=True)):
            instances, *values = (numbers[name][row] for name in _NUMBERS)
            if not kernel or None in values or min(values) < 0 or max(values) > _LARGEST or not values[0]:
                self.bad += 1
                continue
            # Releases to 2022 write None where there is no range, no process and no thread.
            outside = not whole([process])[0].is_valid
            place = ("", "", "") if outside else (_plain(text), process, thread)
            found = self.ranges.setdefault(
                place, Range(place[0], f"{process}:{thread}", max(1, instances or 1))
            )
            found.kernels[kernel] = Kernels(*values)
        self.rows += len(columns["Kernel Name"])
        if self.rows > _MOST_ROWS or len(self.ranges) > _MOST_RANGES:
            raise UnsupportedError(
                f"{label}: a summary by NVTX range of more than {_MOST_RANGES} ranges or {_MOST_ROWS} rows",
                hint=_HINT,
            )

    def chosen(self) -> tuple[list[Range], list[QualityNote]]:
        """The ranges whose kernels count, in the report's order, and what that leaves uncertain."""
        outside = [found for found in self.ranges.values() if not found.text]
        inside = [found for found in self.ranges.values() if found.text]
        steps = _steps(inside)
        if steps:
            left = len(inside) - len(steps)
            text = "NVTX ranges that mark no engine step were left out: kernels inside them and outside steps are not counted"
            return [*steps, *outside], [QualityNote("summary_by_range", left, text)] if left else []
        outer = _outer(inside)
        left = len(inside) - len(outer)
        text = "NVTX ranges seem to lie in others, and their kernels were not counted again: times are a lower bound; give cuda_gpu_kern_sum for exact ones"
        return [*outer, *outside], [QualityNote("summary_by_range", left, text)] if left else []


def _plain(text: str) -> str:
    """A range's text without the colon that stands for the default domain."""
    return text.strip().removeprefix(":")


def _steps(ranges: list[Range]) -> list[Range]:
    """Ranges that an engine marks its steps with; of several kinds the surest."""
    patterns: dict[str, list[re.Pattern[str]]] = {kind: [] for kind in _STEP_KINDS}
    for row in rows("engines"):
        if row.text("kind", "") in patterns:
            patterns[row.text("kind")].append(re.compile(row.text("pattern")))
    for kind in _STEP_KINDS:
        matched = ((item, _matching(item, patterns[kind])) for item in ranges)
        found = [replace(item, text=text) for item, text in matched if text]
        if found:
            return found
    return []


def _matching(found: Range, patterns: list[re.Pattern[str]]) -> str:
    """The range's text as an engine writes it, without the name of a domain; empty where no engine does."""
    return next((text for text in _texts(found) if any(pattern.search(text) for pattern in patterns)), "")


def _texts(found: Range) -> Iterator[str]:
    """A range's text, and the text behind the name of a domain."""
    yield found.text[:_LONGEST_TEXT]
    _domain, colon, text = found.text[:_LONGEST_TEXT].partition(":")
    if colon:
        yield text


def _outer(ranges: list[Range]) -> list[Range]:
    """Ranges that lie in no other of their thread, the longest first looked at."""
    kept: list[Range] = []
    by_kernel: dict[tuple[str, str], list[Range]] = {}
    for found in sorted(ranges, key=lambda item: -item.total):
        name = next(iter(found.kernels))
        around = by_kernel.get((found.thread, name), [])
        if any(_within(found, other) for other in around):
            continue
        kept.append(found)
        for kernel in found.kernels:
            by_kernel.setdefault((found.thread, kernel), []).append(found)
    return kept


def _within(found: Range, other: Range) -> bool:
    return all(
        name in other.kernels and kernel.within(other.kernels[name]) for name, kernel in found.kernels.items()
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """Kernels laid end to end, instance by instance of their range.

    Attributes:
        kernels: `name`, `dur_ns`, `ts_ns`, and `correlation`: one for each instance, null outside ranges.
        ranges: `name`, `ts_ns`, `dur_ns`, `thread` (a number) of each instance.
        threads: Process and thread of each number.
    """

    kernels: pd.DataFrame
    ranges: pd.DataFrame
    threads: tuple[tuple[str, str], ...]


def lay_out(ranges: list[Range]) -> Layout:
    """Kernels of average length one after the other; an instance of a range takes its share of each."""
    threads: dict[str, int] = {}
    names: list[str] = []
    count, total, owner, instances = [], [], [], []
    for number, found in enumerate(ranges):
        threads.setdefault(found.thread, len(threads))
        most = max(kernel.count for kernel in found.kernels.values())
        for name, kernel in found.kernels.items():
            names.append(name)
            count.append(kernel.count)
            total.append(kernel.total)
            owner.append(number)
            instances.append(min(found.instances, most) if found.text else 1)
    frame = _spread(*(np.array(part, np.int64) for part in (count, total, owner, instances)))
    frame["name"] = pd.Categorical.from_codes(*_coded(names, frame.pop("row").to_numpy()))
    frame = frame.sort_values(["owner", "instance"], kind="stable", ignore_index=True)
    frame["ts_ns"] = frame["dur_ns"].cumsum() - frame["dur_ns"]
    text = np.array([found.text for found in ranges], dtype=object)[frame["owner"]]
    new = frame[["owner", "instance"]].ne(frame[["owner", "instance"]].shift()).any(axis=1).cumsum()
    frame["correlation"] = new.astype("Int64").mask(pd.Series(text == ""))
    thread = np.array([threads[found.thread] for found in ranges], np.int64)[frame["owner"]]
    named = frame.assign(text=text, thread=thread, end=frame["ts_ns"] + frame["dur_ns"])
    spans = named[frame["correlation"].notna()].groupby("correlation", sort=True)
    found_ranges = spans.agg(
        name=("text", "first"), ts_ns=("ts_ns", "min"), end=("end", "max"), thread=("thread", "first")
    )
    found_ranges = found_ranges.assign(dur_ns=found_ranges.pop("end") - found_ranges["ts_ns"]).reset_index()
    labels = tuple(tuple(label.split(":", 1)) for label in threads)
    return Layout(frame[["name", "ts_ns", "dur_ns", "correlation"]], found_ranges, labels)  # type: ignore[arg-type]


def _spread(count: Ints, total: Ints, owner: Ints, instances: Ints) -> pd.DataFrame:
    """A row a kernel: whole durations that add up to the total, and the instance that takes it."""
    row = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    length = total[row] // np.maximum(count[row], 1) + (place < total[row] % np.maximum(count[row], 1))
    return pd.DataFrame(
        {"row": row, "dur_ns": length, "owner": owner[row], "instance": place * instances[row] // count[row]}
    )


def _coded(names: list[str], row: Ints) -> tuple[Ints, pd.Index]:
    distinct = pd.Index(list(dict.fromkeys(names)), dtype=object)
    codes: Ints = distinct.get_indexer(pd.Index(names, dtype=object))[row]
    return codes, distinct
