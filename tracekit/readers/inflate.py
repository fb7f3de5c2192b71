"""Gzip as a stream, block by bounded block, keeping what decodes before and around damage.

The deflate data is decoded raw and the checksum compared afterwards, so that a wrong checksum costs a
warning and not the data.
"""

from typing import cast

from isal import isal_zlib

from tracekit.tables import QualityNote

# Its stubs declare the exception as a value.
_Damaged = cast("type[Exception]", isal_zlib.error)

MAGIC = b"\x1f\x8b"
_TRAILER = 8
_FLAG_HCRC, _FLAG_EXTRA, _FLAG_NAME, _FLAG_COMMENT = 2, 4, 8, 16
OUTPUT = 1 << 20


def _header_length(data: bytes) -> int | None:
    """Length of a member's header, or None where the data does not hold all of it."""
    flags, at = data[3] if len(data) > 3 else 0, 10  # noqa: PLR2004 - RFC 1952 places
    if flags & _FLAG_EXTRA:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for flag in (_FLAG_NAME, _FLAG_COMMENT):
        if flags & flag:
            end = data.find(b"\x00", at)
            if end < 0:
                return None
            at = end + 1
    at += 2 if flags & _FLAG_HCRC else 0
    return at if at <= len(data) else None


class Inflater:
    """Decoder of a file of one or more gzip members (RFC 1952).

    State: the member at hand, its checksum so far, and compressed bytes not yet taken.
    """

    def __init__(self) -> None:
        self.notes: list[QualityNote] = []
        self.done = False
        self._waiting = b""
        self._member: isal_zlib.Decompress | None = None
        self._checksum = 0
        self._closing = False

    def feed(self, data: bytes) -> None:
        """Hand over compressed bytes; empty at the end of the file."""
        self._waiting += data

    def take(self, *, final: bool) -> bytes:
        """Some output, at most a few megabytes; may be empty.

        Args:
            final: No more compressed bytes will come.
        """
        if self.done:
            return b""
        if self._member is None and not self._open(final=final):
            return b""
        member = self._member
        if member is None:
            return b""
        data, self._waiting = self._waiting, b""
        try:
            block: bytes = member.decompress(data, OUTPUT)
        except _Damaged:
            self._stop("gzip_damaged", "the gzip data is damaged; what decoded before it was kept")
            return b""
        self._checksum = isal_zlib.crc32(block, self._checksum)
        self._waiting = member.unconsumed_tail
        if member.eof:
            self._close(member.unused_data)
        elif final and not block and not self._waiting:
            self._stop("gzip_truncated", "the gzip data ends early; complete events were kept")
        return block

    def _open(self, *, final: bool) -> bool:
        """Begin the next member; false where there is none, or its header is not all there."""
        trailer = self._trailer_length()
        if len(self._waiting) < trailer + 2 and not final:
            return False
        start = self._waiting[trailer:]
        self._check(self._waiting[:trailer])
        self._closing = False
        if start[:2] != MAGIC:
            if start.strip(b"\x00"):
                self.notes.append(
                    QualityNote("gzip_trailing", 1, "bytes after the end of the gzip data were ignored")
                )
            self.done = True
            return False
        length = _header_length(start)
        if length is None:
            self._stop("gzip_truncated", "the gzip data ends early; complete events were kept")
            return False
        self._waiting = start[length:]
        self._member = isal_zlib.decompressobj(wbits=-15)
        self._checksum = 0
        return True

    def _trailer_length(self) -> int:
        return _TRAILER if self._closing else 0

    def _close(self, rest: bytes) -> None:
        self._member, self._closing, self._waiting = None, True, rest

    def _check(self, trailer: bytes) -> None:
        if not self._closing:
            return
        if len(trailer) < _TRAILER:
            self.notes.append(QualityNote("gzip_truncated", 1, "the gzip data ends before its checksum"))
        elif int.from_bytes(trailer[:4], "little") != self._checksum:
            self.notes.append(
                QualityNote(
                    "gzip_checksum", 1, "the gzip checksum does not match: some of the data may be wrong"
                )
            )

    def _stop(self, code: str, message: str) -> None:
        self.notes.append(QualityNote(code, 1, message))
        self.done, self._member = True, None
