"""Nsight Compute: the CSV that `ncu --csv` prints, and its reports through NVIDIA's own package."""

import re
from pathlib import Path

from tracekit.errors import CaptureError
from tracekit.ncu.messages import explain
from tracekit.readers.ncu.document import Output, read_output
from tracekit.readers.ncu.launches import Launches
from tracekit.readers.ncu.report import MAGIC, read_report
from tracekit.readers.source import Stream
from tracekit.tables import (
    DEVICE_EVENTS,
    OPS,
    RANGES,
    RUNTIME_CALLS,
    SIGNATURES,
    Capture,
    CaptureInfo,
    Counters,
    QualityNote,
)

__all__ = ["MAGIC", "read", "read_file", "sniff"]

NAME = "ncu"
_HEAD = 1 << 16
_PASSES = re.compile(r"^==PROF== Profiling .*\b(\d{1,4}) pass(?:es)?\s*$")
_MARKS = (b"==PROF==", b"==ERROR==", b"==WARNING==", b"Process ID", b"Kernel Name")


def sniff(head: bytes) -> bool:
    """Whether the first bytes may be what ncu printed, a table or only messages."""
    start = head[:_HEAD]
    return any(mark in start for mark in _MARKS)


def read(stream: Stream, extra: tuple[Path, ...] = ()) -> list[Capture]:
    """Read the CSV of ncu to its end, `--page raw` or `--page details`.

    Columns are found by name; what was printed before and between the tables is set aside.

    Raises:
        CaptureError: It holds no table: the reason that ncu printed, and what to do.
    """
    output = read_output(stream)
    found = Launches(extra)
    for page in output.pages:
        found.add(page)
    if not found.rows:
        failure = explain(output.messages)
        said = f" ({failure.quoted[:200]})" if failure.quoted else ""
        reason = f"no counters in it: {failure.reason}{said}"
        raise CaptureError(stream.label, reason, hint=failure.hint, code=f"ncu_{failure.code}")
    counters, notes = found.counters(_options(output))
    return [as_capture(stream.label, "csv", counters, [*stream.notes, *notes, *_damage(output)])]


def read_file(path: str) -> list[Capture]:
    """Read a report of Nsight Compute, which needs a file on disk; errors as `read_report`."""
    counters, notes = read_report(path)
    return [as_capture(path, "ncu-rep", counters, notes)]


def as_capture(label: str, schema: str, counters: Counters, notes: list[QualityNote]) -> Capture:
    """A capture that holds counters alone."""
    return Capture(
        info=CaptureInfo(label, NAME, schema, event_counts={"counter_launch": len(counters.launches)}),
        device_events=DEVICE_EVENTS.empty(),
        runtime_calls=RUNTIME_CALLS.empty(),
        ops=OPS.empty(),
        signatures=SIGNATURES.empty(),
        annotations=RANGES.empty(),
        frames=RANGES.empty(),
        quality=tuple(notes),
        counters=counters,
    )


def _options(output: Output) -> dict[str, str]:
    """What the messages say of how it was collected: the most passes that a launch took; a table says nothing of it."""
    found = [int(passes[1]) for line in output.messages if (passes := _PASSES.search(line))]
    return {"passes": str(max(found))} if found else {}


def _damage(output: Output) -> list[QualityNote]:
    out = []
    if output.bad_rows:
        message = "rows of counters with more or fewer fields than their header were left out; the file is damaged or was mixed with other output"
        out.append(QualityNote("counter_rows", output.bad_rows, message))
    if output.cut:
        out.append(
            QualityNote(
                "counter_rows",
                output.cut,
                "rows beyond the first million were left out: profile fewer launches",
            )
        )
    return out
