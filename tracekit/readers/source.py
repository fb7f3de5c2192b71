"""Bytes of a capture as a bounded stream: plain or gzip, by content and never by name.

Nothing here knows a trace format. What had to be repaired on the way is noted, not hidden.
"""

import codecs
import io
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol

from tracekit.errors import CaptureError
from tracekit.readers.inflate import MAGIC, Inflater
from tracekit.tables import QualityNote

BLOCK = 1 << 20
STDIN = "-"

Progress = Callable[[int, int | None], None]


class Closeable(Protocol):
    """What can be closed."""

    def close(self) -> None:
        """Close it."""


class Stream:
    """The decompressed bytes of one capture, read forward in blocks.

    State: the position in the raw bytes, the decompressor, and notes on damage.

    Args:
        label: The path as given by the user, for messages.
        raw: The file's bytes.
        size: Raw size in bytes, where known.
        progress: Called with raw bytes read so far and the size.
        around: What holds the raw bytes (an archive), closed with them.
        path: The file, where it is one of its own.
    """

    def __init__(
        self,
        label: str,
        raw: BinaryIO,
        size: int | None,
        progress: Progress | None = None,
        around: Closeable | None = None,
        path: Path | None = None,
    ) -> None:
        self.label = label
        self.path = path
        self.size = size
        self._raw = raw
        self._around = around
        self._consumed = 0
        self._progress = progress
        self._notes: list[QualityNote] = []
        self._pushed = self._read_raw()
        self._inflater = Inflater() if self._pushed.startswith(MAGIC) else None
        self._decoder: codecs.IncrementalDecoder | None = None
        self._first = self._begin(self._next())

    @property
    def gzipped(self) -> bool:
        """Whether the bytes are gzip, by their first two."""
        return self._inflater is not None

    @property
    def notes(self) -> list[QualityNote]:
        """What was repaired on the way so far."""
        return [*self._notes, *(self._inflater.notes if self._inflater else [])]

    def head(self) -> bytes:
        """The first block, still to be read."""
        return self._first

    def read(self) -> bytes:
        """The next block, empty at the end."""
        if self._first:
            block, self._first = self._first, b""
            return block
        return self._transcode(self._next())

    def again(self) -> "Stream":
        """The same file from its start.

        Raises:
            CaptureError: It cannot be opened any more, or is no file of its own.
        """
        return open_stream(str(self.path), self._progress)

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._raw is not sys.stdin.buffer:
            self._raw.close()
        if self._around is not None:
            self._around.close()

    def _read_raw(self) -> bytes:
        try:
            block = self._raw.read(BLOCK)
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError) as error:
            raise CaptureError(
                self.label,
                f"cannot be read: {getattr(error, 'strerror', None) or error}",
                hint="the file or the archive around it is damaged",
            ) from error
        self._consumed += len(block)
        if self._progress is not None and block:
            self._progress(self._consumed, self.size)
        return block

    def _next(self) -> bytes:
        block, self._pushed = self._pushed or self._read_raw(), b""
        if self._inflater is None:
            return block
        return self._inflated(self._inflater, block)

    def _inflated(self, inflater: Inflater, block: bytes) -> bytes:
        final = not block
        inflater.feed(block)
        while not inflater.done:
            out = inflater.take(final=final)
            if out:
                return out
            if not final:
                block = self._read_raw()
                final = not block
                inflater.feed(block)
        return b""

    def _begin(self, head: bytes) -> bytes:
        """Note a byte order mark or UTF-16 at the start, and arrange to read past it."""
        if head.startswith(codecs.BOM_UTF8):
            self._notes.append(
                QualityNote(
                    "bom", 1, "the file starts with a byte order mark, which JSON does not allow; skipped"
                )
            )
            return head[len(codecs.BOM_UTF8) :]
        if head[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}:
            self._decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
            self._notes.append(QualityNote("utf16", 1, "the file is UTF-16, not UTF-8; transcoded"))
            return self._transcode(head)
        return head

    def _transcode(self, block: bytes) -> bytes:
        return (
            block if self._decoder is None else self._decoder.decode(block).encode("utf-8", errors="replace")
        )


def open_stream(path: str, progress: Progress | None = None) -> Stream:
    """Open a capture by path, or standard input where the path is `-`.

    Raises:
        CaptureError: The file is missing, a folder, unreadable or empty.
    """
    if path == STDIN:
        return not_empty(Stream(path, sys.stdin.buffer, None, progress))
    file = Path(path)
    try:
        raw = file.open("rb")
        size = file.stat().st_size
    except FileNotFoundError as error:
        raise CaptureError(
            path, "no such file", hint="check the path; a folder of captures can be given too", code="missing"
        ) from error
    except IsADirectoryError as error:
        raise CaptureError(
            path,
            "is a folder with no capture in it",
            hint="give a trace file, or a folder that holds some",
            code="missing",
        ) from error
    except OSError as error:
        raise CaptureError(
            path, f"cannot be opened: {error.strerror or error}", hint="check its permissions"
        ) from error
    return not_empty(Stream(path, raw, size, progress, path=file))


def from_bytes(label: str, data: bytes) -> Stream:
    """A stream over bytes in memory.

    Raises:
        CaptureError: There are none.
    """
    return not_empty(Stream(label, io.BytesIO(data), len(data)))


def not_empty(stream: Stream) -> Stream:
    """The stream itself.

    Raises:
        CaptureError: There is nothing in it.
    """
    if not stream.head().strip():
        what = "gzip data of nothing" if stream.gzipped else "the file is empty"
        stream.close()
        raise CaptureError(
            stream.label,
            what,
            hint="the recorder was probably stopped before it wrote; record again",
            code="empty",
        )
    return stream


__all__ = ["BLOCK", "STDIN", "Progress", "Stream", "from_bytes", "open_stream"]
