"""CSV reports of `nsys stats`: its trace of the GPU, and its summaries of kernels.

A summary has no times of single kernels: each becomes as many kernels as it counts, of its average time and laid end to
end, so that sums and shares are right, and that is said.
"""

import re
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa

from tracekit.errors import CaptureError, UnsupportedError
from tracekit.readers.arrow import (
    Ints,
    Kept,
    in_order,
    missing,
    names,
    nullable,
    small,
    text_column,
    triples,
    values,
    whole,
)
from tracekit.readers.commas import Sheet
from tracekit.readers.nsys.by_range import COLUMNS, ByRange, Layout, lay_out
from tracekit.readers.source import Stream
from tracekit.tables import DEVICE_EVENTS, RANGES, RUNTIME_CALLS, DeviceProperties, Kind, QualityNote

_TRACE = frozenset({"CorrId", "GrdX", "Strm", "Name"})
_SUMMARY = frozenset({"Instances", "Name"})
_KNOWN = (_TRACE, _SUMMARY, COLUMNS)
# Other reports of `nsys stats`: of calls, ranges, copies, or sums that mix them.
_OTHERS = frozenset({"Operation", "Range", "API Name", "Num Calls"})
_START, _DURATION, _TOTAL = "Start (ns)", "Duration (ns)", "Total Time (ns)"
_TIME = re.compile(r"^(?:Start|Total Time|Total Proj Time|Duration|TAvg) \([a-z]+\)$")
LAUNCHES = "[launches of an NVTX range in a summary]"
_COPY = re.compile(r"^\[CUDA mem(cpy|set)\s*([^\]]*)\]")
_DEVICE = re.compile(r"^(.*)\((\d{1,4})\)\s*$")
_DIRECTIONS = {
    "Host-to-Device": "HtoD",
    "Device-to-Host": "DtoH",
    "Device-to-Device": "DtoD",
    "Host-to-Host": "HtoH",
    "Peer-to-Peer": "PtoP",
}
_EXTENTS = ("GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ")
# Columns of summaries that tell launches apart by size; releases to 2022 have them in every summary of kernels.
_BY_SIZE = {"grid": "GridXYZ", "block": "BlockXYZ"}
_MEGA = 1_000_000
# A summary of more kernels than this is not laid out.
_MOST_KERNELS = 5_000_000


@dataclass(slots=True)
class Trace:
    """What the rows of a report become.

    Attributes:
        events: DEVICE_EVENTS, piece by piece.
        devices: The GPUs named, by number.
        at_ns: Where the next kernel of a summary is laid.
        rows: Rows read.
        laid: Kernels laid out of a summary.
        by_range: The rows of a summary by NVTX range.
        layout: How its kernels lie in instances of ranges.
        uncertain: What that leaves open.
    """

    events: list[pd.DataFrame] = field(default_factory=list)
    devices: dict[int, str] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept)
    at_ns: int = 0
    rows: int = 0
    laid: int = 0
    by_range: ByRange = field(default_factory=ByRange)
    layout: Layout | None = None
    uncertain: list[QualityNote] = field(default_factory=list)

    def frame(self) -> pd.DataFrame:
        """DEVICE_EVENTS, in order of start."""
        return in_order(DEVICE_EVENTS, self.events)

    def listed(self) -> tuple[DeviceProperties, ...]:
        """The GPUs named."""
        return tuple(DeviceProperties(number, name) for number, name in sorted(self.devices.items()))

    def calls(self) -> pd.DataFrame:
        """RUNTIME_CALLS: one call that launches the kernels of each instance of a range, as the report says no more."""
        if self.layout is None:
            return RUNTIME_CALLS.empty()
        ranges = self.layout.ranges
        name = pd.Categorical([LAUNCHES] * len(ranges))
        return in_order(RUNTIME_CALLS, [ranges.assign(name=name, dur_ns=0)])

    def annotations(self) -> pd.DataFrame:
        """RANGES: the instances of ranges."""
        return RANGES.empty() if self.layout is None else in_order(RANGES, [self.layout.ranges])

    def threads(self) -> tuple[tuple[str, str], ...]:
        """Process and thread of each thread number."""
        return () if self.layout is None else self.layout.threads

    def notes(self) -> list[QualityNote]:
        """What was left out, and what is an average."""
        found = [*self.kept.notes(), *self.uncertain]
        if self.laid:
            text = "kernels come from a summary: their times are averages, their order and gaps unknown"
            if self.layout is None:
                text += "; give the SQLite export for phases"
            else:
                text += ", so that rates over wall time are upper values; give the SQLite export"
            found.append(QualityNote("summary_only", self.laid, text, self.at_ns))
        return found


def is_sheet(columns: list[str]) -> bool:
    """Whether columns of these names are a report of `nsys stats`."""
    timed = any(_TIME.match(name) for name in columns)
    return timed and (any(set(columns) >= wanted for wanted in _KNOWN) or not _OTHERS.isdisjoint(columns))


def read_rows(stream: Stream) -> Trace:
    """The rows of a report.

    Raises:
        UnsupportedError: It lists no kernels, has more ranges than are laid out, or its times are not in nanoseconds.
        CaptureError: The bytes cannot be read, or the file is damaged.
    """
    sheet, trace = Sheet(stream), Trace()
    for columns in sheet.batches():
        if not any(columns.keys() >= wanted for wanted in _KNOWN):
            raise UnsupportedError(
                f"{stream.label}: a report of nsys stats that lists no kernels",
                hint="give the report cuda_gpu_trace, cuda_gpu_kern_sum or nvtx_kern_sum, or the export: nsys export --type sqlite",
            )
        if not {_START, _DURATION} <= columns.keys() and _TOTAL not in columns:
            raise UnsupportedError(
                f"{stream.label}: its times are not in nanoseconds", hint="write it again without --timeunit"
            )
        if columns.keys() >= COLUMNS:
            trace.by_range.add(stream.label, columns)
            continue
        trace.rows += len(columns["Name"])
        if _TOTAL in columns:
            _add_summary(stream.label, trace, columns)
        else:
            _add_trace(trace, columns)
    if trace.by_range.ranges:
        _add_ranges(stream.label, trace)
    if sheet.bad_rows:
        trace.kept.bad["rows"] = trace.kept.bad.get("rows", 0) + sheet.bad_rows
    return trace


def _add_trace(trace: Trace, columns: dict[str, list[str]]) -> None:
    count = len(columns["Name"])
    start, length = whole(columns[_START]), whole(columns[_DURATION])
    wanted = {name: whole(columns.get(name, [""] * count)) for name in ("CorrId", "Strm", *_EXTENTS)}
    table = pa.table({"start": start, "end": _sum(start, length), "row": np.arange(count), **wanted})
    table = trace.kept.times(table, "device events")
    keep = values(table, "row").tolist()
    texts = [columns["Name"][row] for row in keep]
    places = [_DEVICE.match(columns["Device"][row]) if "Device" in columns else None for row in keep]
    trace.devices |= {int(place[2]): place[1].strip() for place in places if place}
    copies = [_COPY.match(text) for text in texts]
    sizes = [_bytes(columns, row) if copy else None for copy, row in zip(copies, keep, strict=True)]
    kinds = [str(_kind(copy)) for copy in copies]
    named = [
        _copy_name(copy, columns, row) if copy else text
        for copy, text, row in zip(copies, texts, keep, strict=True)
    ]
    device = np.array([int(place[2]) if place else -1 for place in places], np.int64)
    begin = values(table, "start")
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(kinds, categories=[str(kind) for kind in Kind]),
            "name": pd.Categorical(named),
            "ts_ns": begin,
            "dur_ns": values(table, "end") - begin,
            "device": small(device, device < 0),
            "stream": nullable(values(table, "Strm"), missing(table, "Strm")),
            # A report has no processes: where several ran, equal ids are not one launch; no call is in it anyway.
            "correlation": nullable(values(table, "CorrId"), missing(table, "CorrId")),
            "grid": triples(table, _EXTENTS[:3]),
            "block": triples(table, _EXTENTS[3:]),
            "bytes": pd.array(sizes, dtype="Int64"),
        }
    )
    trace.events.append(frame)


def _add_summary(label: str, trace: Trace, columns: dict[str, list[str]]) -> None:
    table = pa.table(
        {
            "total": whole(columns[_TOTAL]),
            "count": whole(columns["Instances"]),
            "row": np.arange(len(columns["Name"])),
        }
    )
    good = (values(table, "count") > 0) & (values(table, "total") >= 0) & ~missing(table, "total")
    if not good.all():
        trace.kept.bad["kernels"] = trace.kept.bad.get("kernels", 0) + int((~good).sum())
    total, count, row = (values(table, name)[good] for name in ("total", "count", "row"))
    _bounded(label, trace.laid, count)
    lengths = _spread(total, count)
    starts = trace.at_ns + np.cumsum(lengths) - lengths
    frame = pd.DataFrame({"ts_ns": starts, "dur_ns": lengths})
    frame["kind"] = pd.Categorical([str(Kind.KERNEL)] * len(frame))
    frame["name"] = names(np.repeat(row, count), dict(enumerate(columns["Name"])), "")
    for extent, column in _BY_SIZE.items():
        if column in columns:
            texts = [_extents(text) for text in columns[column]]
            frame[extent] = text_column(np.repeat(row, count), texts)
    trace.events.append(frame)
    trace.laid += len(frame)
    trace.at_ns += int(lengths.sum())


def _extents(text: str) -> str | None:
    """`   1   40    3` as `1,40,3`; None where it is no three numbers."""
    parts = text.split()
    return ",".join(parts) if len(parts) == len("xyz") and all(part.isdecimal() for part in parts) else None


def _bounded(label: str, laid: int, count: Ints) -> None:
    """Refuse a summary of more kernels than are laid out."""
    if laid + int(np.minimum(count, _MOST_KERNELS).sum()) > _MOST_KERNELS:
        raise CaptureError(
            label,
            f"a summary of more than {_MOST_KERNELS} kernels",
            hint="give the export: nsys export --type sqlite",
        )


def _add_ranges(label: str, trace: Trace) -> None:
    """Lay out a summary by NVTX range."""
    ranges, trace.uncertain = trace.by_range.chosen()
    counts = [kernel.count for found in ranges for kernel in found.kernels.values()]
    _bounded(label, 0, np.array(counts, np.int64))
    trace.layout = lay_out(ranges)
    kernels = trace.layout.kernels
    kind = pd.Categorical([str(Kind.KERNEL)] * len(kernels))
    trace.events.append(kernels.assign(kind=kind))
    trace.rows, trace.laid, trace.at_ns = trace.by_range.rows, len(kernels), int(kernels["dur_ns"].sum())
    if trace.by_range.bad:
        trace.kept.bad["kernels"] = trace.kept.bad.get("kernels", 0) + trace.by_range.bad


def _spread(total: Ints, count: Ints) -> Ints:
    """Whole durations of each summary's kernels that add up to its total."""
    which = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    lengths: Ints = total[which] // count[which] + (place < total[which] % count[which])
    return lengths


def _sum(start: pa.Array, length: pa.Array) -> pa.Array:
    pairs = zip(start.to_pylist(), length.to_pylist(), strict=True)
    return pa.array([None if None in {low, span} else low + span for low, span in pairs], pa.int64())


def _kind(copy: re.Match[str] | None) -> Kind:
    if copy is None:
        return Kind.KERNEL
    return Kind.MEMCPY if copy[1] == "cpy" else Kind.MEMSET


def _copy_name(copy: re.Match[str], columns: dict[str, list[str]], row: int) -> str:
    """`[CUDA memcpy Host-to-Device]` in the words that Kineto uses."""
    source, target = (
        columns[name][row].strip() if name in columns else "" for name in ("SrcMemKd", "DstMemKd")
    )
    if copy[1] == "set":
        return f"Memset ({source or 'Unknown'})"
    direction = _DIRECTIONS.get(copy[2].strip(), copy[2].strip() or "Unknown")
    return f"Memcpy {direction} ({source or 'Unknown'} -> {target or 'Unknown'})"


def _bytes(columns: dict[str, list[str]], row: int) -> int | None:
    """Bytes of a copy; the report rounds them to a thousandth of a megabyte."""
    text = columns["Bytes (MB)"][row].strip() if "Bytes (MB)" in columns else ""
    try:
        return round(float(text) * _MEGA) if text else None
    except (ValueError, OverflowError):
        return None
