"""A rocprofv3 JSON as a stream: the arrays that are used, their records in batches, whatever stands between.

The file is never held whole. A batch ends where one record ends and the next begins; the place is guessed from how
the first record of the array begins, and the guess is right if and only if the batch then parses. Where it does not
(the array ends, a record is damaged), the batch is looked at bracket by bracket.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec

from tracekit.errors import FormatError
from tracekit.readers.rocprof.records import DAMAGE, DECODERS
from tracekit.readers.source import Stream
from tracekit.readers.spans import object_spans
from tracekit.tables import QualityNote

BATCH = 8 << 20
# A single record longer than this is not a record but an attack or an accident.
LONGEST_RECORD = 64 << 20
PROCESS = "process"
_ARRAY = re.compile(rb'"(' + "|".join(DECODERS).encode() + rb')"\s*:\s*\[')
# Each process of the file begins with its metadata; of these only the process id is read.
_METADATA = re.compile(rb'"metadata"\s*:\s*\{')
_PID = re.compile(rb'"pid"\s*:\s*(\d{1,10})\b')
_FIRST_KEY = re.compile(rb'\s*(\{\s*"[^"]{1,64}"\s*:)')
_ARRAY_END = re.compile(rb"\}(\s*\])\s*[,}]")
# More than any name of an array, so that a search does not miss one that two blocks share.
_OVERLAP = 256

Batch = tuple[str, list[Any]]
_Decoder = msgspec.json.Decoder[Any]


@dataclass(slots=True)
class Document:
    """The arrays of a rocprofv3 JSON, and what went wrong on the way.

    Attributes:
        unreadable: Records that are not what their array holds.
        truncated: The file ended inside an array.
    """

    stream: Stream
    unreadable: int = 0
    truncated: bool = False
    _buffer: bytearray = field(default_factory=bytearray)
    _ended: bool = False
    _between: bytes = b""

    def batches(self) -> Iterator[Batch]:
        """Records with the name of their array; `process` and its id where the next process begins.

        Raises:
            FormatError: One record is longer than any record.
            CaptureError: The bytes cannot be read.
        """
        while True:
            name = self._next_array()
            yield from self._process()
            if not name:
                return
            for records in self._records(DECODERS[name]):
                yield name, records

    def _fill(self, size: int) -> None:
        while not self._ended and len(self._buffer) < size:
            block = self.stream.read()
            self._ended = not block
            self._buffer += block

    def _next_array(self) -> str:
        """Skip to the next array that is used; its name, empty at the end of the file."""
        while True:
            self._fill(len(self._buffer) + BATCH)
            found = _ARRAY.search(self._buffer)
            if found:
                name = found.group(1).decode()
                self._skip(found.start())
                del self._buffer[: found.end() - found.start()]
                return name
            self._skip(max(0, len(self._buffer) - _OVERLAP))
            if self._ended:
                self._skip(len(self._buffer))
                return ""

    def _skip(self, length: int) -> None:
        """Drop text between arrays, all but what tells processes apart."""
        if len(self._between) < BATCH:
            self._between += bytes(memoryview(self._buffer)[:length])
        del self._buffer[:length]

    def _process(self) -> Iterator[Batch]:
        text, self._between = self._between, b""
        begins = _METADATA.search(text)
        if begins:
            pid = _PID.search(text, begins.end())
            yield PROCESS, [int(pid.group(1)) if pid else None]

    def _records(self, decoder: _Decoder) -> Iterator[list[Any]]:
        self._fill(BATCH)
        separator = self._separator()
        while True:
            self._fill(BATCH)
            records, begins = self._guessed(decoder, separator)
            if begins:
                del self._buffer[:begins]
                yield records
                if not self._buffer.startswith(b"{"):
                    return
                continue
            spans, rest, over = object_spans(self._buffer)
            yield self._each(decoder, spans)
            del self._buffer[:rest]
            if over or self._ended:
                self.truncated |= not over
                return
            if len(self._buffer) > LONGEST_RECORD:
                raise FormatError(
                    self.stream.label,
                    f"one record is longer than {LONGEST_RECORD >> 20} MiB",
                    hint="the file is damaged; record again",
                    code="event_too_long",
                )
            if len(self._buffer) >= BATCH:
                self._fill(2 * len(self._buffer))

    def _guessed(self, decoder: _Decoder, separator: re.Pattern[bytes] | None) -> tuple[list[Any], int]:
        """Records up to the last separator, or to the end of the array; where what follows begins, 0 if neither parses."""
        cuts = list(separator.finditer(self._buffer))[-1:] if separator and not self._ended else []
        for cut in (*cuts, *islice(_ARRAY_END.finditer(self._buffer), 1)):
            records = _decode(decoder, self._buffer[: cut.start() + 1])
            if records is not None:
                return records, cut.start(1) if cut in cuts else cut.end(1)
        return [], 0

    def _separator(self) -> re.Pattern[bytes] | None:
        """How one record of this array follows another, read off the first."""
        first = _FIRST_KEY.match(self._buffer)
        return re.compile(rb"\}\s*,\s*(" + re.escape(first.group(1)) + rb")") if first else None

    def _each(self, decoder: _Decoder, spans: list[tuple[int, int]]) -> list[Any]:
        """The records of these spans: all at once, or one by one where that does not parse."""
        if not spans:
            return []
        whole = _decode(decoder, self._buffer[spans[0][0] : spans[-1][1]])
        if whole is not None:
            return whole
        records: list[Any] = []
        for low, high in spans:
            one = _decode(decoder, self._buffer[low:high])
            self.unreadable += one is None
            records += one or []
        return records

    def notes(self) -> list[QualityNote]:
        """What was dropped."""
        found = list(self.stream.notes)
        if self.unreadable:
            found.append(
                QualityNote("unreadable_events", self.unreadable, "records that are not valid were dropped")
            )
        if self.truncated:
            found.append(
                QualityNote("truncated", 1, "the file ends inside its records; complete records were kept")
            )
        return found


def _decode(decoder: _Decoder, body: bytearray) -> list[Any] | None:
    try:
        records: list[Any] = decoder.decode(b"".join((b"[", body, b"]")))
    except DAMAGE:
        return None
    return records
