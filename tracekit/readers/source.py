"""Bytes of a capture as a bounded stream: plain or gzip, by content and never by name.

Nothing here knows a trace format. What had to be repaired on the way is noted, not hidden.
"""

import codecs
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from isal import isal_zlib

from tracekit.errors import CaptureError
from tracekit.tables import QualityNote

BLOCK = 1 << 20
STDIN = "-"
_GZIP = b"\x1f\x8b"
_HEADER_CRC = isal_zlib.error

Progress = Callable[[int, int | None], None]


class Stream:
    """The decompressed bytes of one capture, read forward in blocks.

    State: the position in the raw bytes, the decompressor of the gzip member at hand, and notes on damage.

    Args:
        label: The path as given by the user, for messages.
        raw: The file's bytes.
        size: Raw size in bytes, where known.
        progress: Called with raw bytes read so far and the size.
    """

    def __init__(self, label: str, raw: BinaryIO, size: int | None, progress: Progress | None = None) -> None:
        self.label = label
        self.size = size
        self.notes: list[QualityNote] = []
        self._raw = raw
        self._consumed = 0
        self._progress = progress
        self._pushed = self._read_raw()
        self.gzipped = self._pushed[:2] == _GZIP
        self._member = isal_zlib.decompressobj(wbits=31) if self.gzipped else None
        self._pending = b""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._begin()

    def _read_raw(self) -> bytes:
        try:
            block = self._raw.read(BLOCK)
        except OSError as error:
            raise CaptureError(self.label, f"cannot be read: {error.strerror or error}") from error
        self._consumed += len(block)
        if self._progress is not None and block:
            self._progress(self._consumed, self.size)
        return block

    def _begin(self) -> None:
        """Note a byte order mark or UTF-16 at the start, and arrange to read past it."""
        head = self._next()
        if head.startswith(codecs.BOM_UTF8):
            head = head[len(codecs.BOM_UTF8) :]
            self.notes.append(QualityNote("bom", 1, "the file starts with a byte order mark, which JSON does not allow; skipped"))
        elif head[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}:
            self._decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
            self.notes.append(QualityNote("utf16", 1, "the file is UTF-16, not UTF-8; transcoded"))
            head = self._transcode(head)
        self._first = head

    def _transcode(self, block: bytes) -> bytes:
        return block if self._decoder is None else self._decoder.decode(block).encode("utf-8", errors="replace")

    def head(self) -> bytes:
        """The first block, still to be read."""
        return self._first

    def read(self) -> bytes:
        """The next block, empty at the end."""
        if self._first:
            block, self._first = self._first, b""
            return block
        return self._transcode(self._next())

    def _next(self) -> bytes:
        if self._member is None:
            block, self._pushed = self._pushed or self._read_raw(), b""
            return block
        while True:
            data = self._pending or self._pushed or self._read_raw()
            self._pending = self._pushed = b""
            if not data:
                self._close_member()
                return b""
            block = self._inflate(data)
            if block or self._member is None:
                return block

    def _inflate(self, data: bytes) -> bytes:
        """At most a few blocks' worth of output, so that a gzip bomb stays bounded."""
        member = self._member
        if member is None:
            return b""
        try:
            block: bytes = member.decompress(data, 4 * BLOCK)
        except _HEADER_CRC as error:
            self._member = None
            self.notes.append(QualityNote("gzip_damaged", 1, f"gzip data is damaged ({error}); what decoded before it was kept"))
            return b""
        self._pending = member.unconsumed_tail
        if member.eof:
            self._after_member(member.unused_data)
        return block

    def _after_member(self, rest: bytes) -> None:
        rest = rest or self._read_raw()
        if rest[:2] == _GZIP:
            self._member, self._pending = isal_zlib.decompressobj(wbits=31), rest
            return
        self._member = None
        if rest.strip(b"\x00"):
            self.notes.append(QualityNote("gzip_trailing", 1, "bytes after the end of the gzip data; ignored"))

    def _close_member(self) -> None:
        if self._member is not None and not self._member.eof:
            self.notes.append(QualityNote("gzip_truncated", 1, "the gzip data ends early; complete events were kept"))
        self._member = None

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._raw is not sys.stdin.buffer:
            self._raw.close()


def open_stream(path: str, progress: Progress | None = None) -> Stream:
    """Open a capture by path, or standard input where the path is `-`.

    Raises:
        CaptureError: The file is missing, a folder, unreadable or empty.
    """
    if path == STDIN:
        return _not_empty(Stream(path, sys.stdin.buffer, None, progress))
    file = Path(path)
    try:
        raw = file.open("rb")
        size = file.stat().st_size
    except FileNotFoundError as error:
        raise CaptureError(path, "no such file", hint="check the path; a folder of captures can be given too", code="missing") from error
    except IsADirectoryError as error:
        raise CaptureError(path, "is a folder with no capture in it", hint="give a trace file, or a folder that holds some", code="missing") from error
    except OSError as error:
        raise CaptureError(path, f"cannot be opened: {error.strerror or error}", hint="check its permissions") from error
    return _not_empty(Stream(path, raw, size, progress))


def from_bytes(label: str, data: bytes) -> Stream:
    """A stream over bytes in memory.

    Raises:
        CaptureError: There are none.
    """
    return _not_empty(Stream(label, io.BytesIO(data), len(data)))


def _not_empty(stream: Stream) -> Stream:
    if not stream.head().strip():
        what = "gzip data of nothing" if stream.gzipped else "the file is empty"
        stream.close()
        raise CaptureError(stream.label, what, hint="the recorder was probably stopped before it wrote; record again", code="empty")
    return stream


__all__ = ["BLOCK", "STDIN", "Progress", "Stream", "from_bytes", "open_stream"]
