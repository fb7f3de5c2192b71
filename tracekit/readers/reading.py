"""Which reader reads a file: by its content, never by its name."""

from collections.abc import Callable
from pathlib import Path

from tracekit.errors import CaptureError, FormatError, UnsupportedError
from tracekit.readers import ncu, nsys, rocprof
from tracekit.readers.archives import open_member
from tracekit.readers.commas import first_row
from tracekit.readers.database import SQLITE_MAGIC, open_sqlite
from tracekit.readers.discover import Source
from tracekit.readers.foreign import name_document, refuse_magic
from tracekit.readers.kineto import reader as kineto
from tracekit.readers.source import STDIN, Progress, Stream, open_stream
from tracekit.tables import Capture


def read_all(
    path: str, *, keep_frame: Callable[[str], bool] | None = None, progress: Progress | None = None
) -> list[Capture]:
    """Read the captures of a file: one, or one a rank where several ranks were merged into it.

    Args:
        path: A file, a folder that is one capture, or `-` for standard input.
        keep_frame: Whether the Python frame of a name is wanted by a rule; none by default.
        progress: Called with raw bytes read so far and the file's size.

    Raises:
        CaptureError: The file cannot be read.
        FormatError: No reader understands it.
        UnsupportedError: It is of a kind that is known and not read.
    """
    if nsys.is_folder(path):
        return nsys.read_folder(path)
    stream = open_stream(path, progress)
    if path != STDIN and stream.head().startswith(SQLITE_MAGIC) and not stream.gzipped:
        stream.close()
        return _read_database(path)
    if path != STDIN and stream.head().startswith(ncu.MAGIC) and not stream.gzipped:
        stream.close()
        return ncu.read_file(path)
    return _read_closing(stream, keep_frame)


def read_counters(path: str, progress: Progress | None = None, extra: tuple[Path, ...] = ()) -> list[Capture]:
    """Read a file that is said to hold counters: what ncu printed, its report, or a trace with counters in it.

    Args:
        path: The file.
        progress: Called with raw bytes read so far and the file's size.
        extra: Folders of the user's own quantities, whose metrics are kept too.

    Raises:
        CaptureError: It holds none: why, and what to do.
    """
    stream = open_stream(path, progress)
    head = stream.head()
    known = (
        head.startswith((ncu.MAGIC, SQLITE_MAGIC)) or kineto.sniff(head) or rocprof.is_sheet(first_row(head))
    )
    if not known:
        try:
            return ncu.read(stream, extra)
        finally:
            stream.close()
    stream.close()
    captures = read_all(path, progress=progress)
    if not any(capture.counters is not None for capture in captures):
        raise CaptureError(
            path, "holds no hardware counters", hint="give the CSV that `ncu --csv --page raw` printed"
        )
    return captures


def read_source(
    source: Source, *, keep_frame: Callable[[str], bool] | None = None, progress: Progress | None = None
) -> list[Capture]:
    """Read the captures of a discovered source; errors as `read_all`."""
    if source.member is None:
        return read_all(source.path, keep_frame=keep_frame, progress=progress)
    return _read_closing(open_member(source.path, source.member, progress), keep_frame)


def _read_closing(stream: Stream, keep_frame: Callable[[str], bool] | None) -> list[Capture]:
    try:
        return read_stream(stream, keep_frame or _none)
    finally:
        stream.close()


def _read_database(path: str) -> list[Capture]:
    """Read an SQLite file, which needs a file on disk, not a stream."""
    database = open_sqlite(path)
    try:
        if nsys.is_nsys(database):
            return nsys.read(database)
        if rocprof.is_rocpd(database):
            return rocprof.read_database(database)
    finally:
        database.close()
    raise UnsupportedError(
        f"{path}: an SQLite file of no profiler that tracekit reads",
        hint="give an export of Nsight Systems (nsys export --type sqlite), or a database of rocprofv3",
    )


def read(
    path: str, *, keep_frame: Callable[[str], bool] | None = None, progress: Progress | None = None
) -> Capture:
    """Read one capture; arguments and errors as `read_all`.

    Raises:
        UnsupportedError: Several ranks are merged into the file: `read_all` gives them all.
    """
    captures = read_all(path, keep_frame=keep_frame, progress=progress)
    if len(captures) > 1:
        raise UnsupportedError(
            f"{path}: {len(captures)} ranks are merged into this file", hint="use tracekit.read_all"
        )
    return captures[0]


def read_stream(stream: Stream, keep_frame: Callable[[str], bool]) -> list[Capture]:
    """Read captures from their bytes; errors as `read_all`."""
    head = stream.head()
    refuse_magic(stream.label, head)
    if rocprof.sniff(head):
        return rocprof.read(stream)
    columns = first_row(head)
    if nsys.is_sheet(columns):
        return nsys.read_sheet(stream)
    if rocprof.is_sheet(columns):
        return rocprof.read_sheet(stream)
    if not kineto.sniff(head):
        if ncu.sniff(head):
            return ncu.read(stream)
        raise FormatError(
            stream.label,
            "is not JSON, and no other format that tracekit reads",
            hint="give a Kineto trace (*.json, *.json.gz)",
            code="not_json",
        )
    try:
        return kineto.read(stream, keep_frame)
    except FormatError as error:
        found = name_document(head) if error.code == "no_events" else None
        if found is None:
            raise
        raise FormatError(stream.label, f"is {found[0]}", hint=found[1], code="foreign") from error


def _none(_name: str) -> bool:
    return False
