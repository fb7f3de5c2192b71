"""ROCm captures of rocprofv3: its JSON, its SQLite (`rocpd`), and its CSV of kernels or of counters.

Kernels, copies, HIP calls and roctx ranges; counters where they were collected. Host, user, command line and
environment, which such files hold, are never read.
"""

from tracekit.errors import FormatError
from tracekit.readers.database import Database
from tracekit.readers.rocprof import rocpd, sheets
from tracekit.readers.rocprof.document import Document
from tracekit.readers.rocprof.gather import Gathered
from tracekit.readers.rocprof.rocpd import is_rocpd
from tracekit.readers.source import Stream
from tracekit.tables import OPS, RANGES, SIGNATURES, Capture, CaptureInfo, QualityNote

NAME = "rocprof"
_HEAD = 1 << 12
_MARK = b'"rocprofiler-sdk-tool"'


def sniff(head: bytes) -> bool:
    """Whether the first bytes are those of a rocprofv3 JSON."""
    return _MARK in head[:_HEAD]


def read(stream: Stream) -> list[Capture]:
    """Read a rocprofv3 JSON: one capture, however many processes and GPUs are in it.

    Raises:
        FormatError: It holds nothing to report.
        CaptureError: The bytes cannot be read.
    """
    document, gathered = Document(stream), Gathered()
    for name, records in document.batches():
        gathered.add(name, records)
    return [as_capture(stream.label, "json", gathered, document.notes())]


def is_sheet(columns: list[str]) -> bool:
    """Whether columns of these names are a CSV of rocprofv3, of kernels or of counters."""
    return set(columns) >= sheets.KERNELS or set(columns) >= sheets.COUNTERS


def read_sheet(stream: Stream) -> list[Capture]:
    """Read a CSV of rocprofv3.

    Raises:
        FormatError: It is not valid, or holds nothing to report.
        CaptureError: The bytes cannot be read.
    """
    gathered, notes = sheets.gather(stream)
    return [as_capture(stream.label, "csv", gathered, notes)]


def read_database(database: Database) -> list[Capture]:
    """Read a rocpd database: one capture, however many recordings were merged into it.

    Raises:
        FormatError: It holds nothing to report.
        CaptureError: The file is damaged.
    """
    return [as_capture(database.label, "rocpd", rocpd.gather(database), [])]


def as_capture(label: str, schema: str, gathered: Gathered, notes: list[QualityNote]) -> Capture:
    """What was gathered as a capture.

    Raises:
        FormatError: There is nothing to report in it.
    """
    frames = gathered.frames
    counters = gathered.launches.counters()
    events, calls = frames.device_events(), frames.runtime_calls()
    if events.empty and calls.empty and counters is None:
        values = gathered.launches.unplaced
        raise FormatError(
            label,
            f"{values} counter values without the dispatches that they belong to"
            if values
            else "neither kernels nor calls nor counters in it",
            hint="record with: rocprofv3 --kernel-trace beside --pmc"
            if values
            else "record with: rocprofv3 --kernel-trace --hip-trace --marker-trace --memory-copy-trace",
            code="no_work",
        )
    info = CaptureInfo(
        path=label,
        format=NAME,
        schema=schema,
        devices=tuple(sorted(gathered.devices.listed, key=lambda device: device.index)),
        event_counts={name: count for name, count in gathered.counts.items() if count},
    )
    return Capture(
        info=info,
        device_events=events,
        runtime_calls=calls,
        ops=OPS.empty(),
        signatures=SIGNATURES.empty(),
        annotations=frames.annotations(),
        frames=RANGES.empty(),
        threads=frames.threads,
        quality=(*notes, *frames.notes(), *gathered.launches.notes()),
        counters=counters,
    )


__all__ = ["NAME", "as_capture", "is_rocpd", "is_sheet", "read", "read_database", "read_sheet", "sniff"]
