"""Readers: bytes of any capture to tables; one package or file a format, and nothing else knows formats."""

from collections.abc import Callable

from tracekit.errors import FormatError
from tracekit.readers import kineto
from tracekit.readers.foreign import name_document, refuse_magic
from tracekit.readers.source import Progress, Stream, open_stream
from tracekit.tables import Capture


def read(path: str, *, keep_frame: Callable[[str], bool] | None = None, progress: Progress | None = None) -> Capture:
    """Read one capture.

    Args:
        path: A file, or `-` for standard input.
        keep_frame: Whether the Python frame of a name is wanted by a rule; none by default.
        progress: Called with raw bytes read so far and the file's size.

    Raises:
        CaptureError: The file cannot be read.
        FormatError: No reader understands it.
        UnsupportedError: It is of a kind that is known and not read.
    """
    stream = open_stream(path, progress)
    try:
        return read_stream(stream, keep_frame or _none)
    finally:
        stream.close()


def read_stream(stream: Stream, keep_frame: Callable[[str], bool]) -> Capture:
    """Read one capture from its bytes; errors as `read`."""
    head = stream.head()
    refuse_magic(stream.label, head)
    if kineto.sniff(head):
        return _kineto(stream, head, keep_frame)
    raise FormatError(stream.label, "is not JSON, and no other format that tracekit reads", hint="give a Kineto trace (*.json, *.json.gz)", code="not_json")


def _kineto(stream: Stream, head: bytes, keep_frame: Callable[[str], bool]) -> Capture:
    try:
        return kineto.read(stream, keep_frame)
    except FormatError as error:
        found = name_document(head) if error.code == "no_events" else None
        if found is None:
            raise
        raise FormatError(stream.label, f"is {found[0]}", hint=found[1], code="foreign") from error


def _none(_name: str) -> bool:
    return False
