"""A trace document as a stream: what stands before the events, the events in batches, what stands after.

The file is never held whole. A batch ends where one event ends and the next begins; the place is guessed
from the separator that this writer uses, and the guess is right if and only if the batch then parses, so
a separator inside a name costs a slower look, never a wrong event.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from tracekit.errors import FormatError
from tracekit.readers.kineto.events import Event, decode_array, decode_one
from tracekit.readers.source import Stream
from tracekit.tables import QualityNote

BATCH = 8 << 20
# A single event longer than this is not a trace event but an attack or an accident.
LONGEST_EVENT = 64 << 20
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_NULL_ARRAY = re.compile(rb'"traceEvents"\s*:\s*null')
# A whole text, a bracket, or the quote of a text that the buffer cuts.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]|"', re.DOTALL)
_SEPARATOR = re.compile(rb"\}\s*,\s*\{")
_ARRAY_END = re.compile(rb"\}\s*\]\s*(?=,\s*\"|\}\s*\Z|\Z)")


@dataclass(slots=True)
class Document:
    """The parts of a trace document and what went wrong on the way.

    Attributes:
        head: JSON text before the events' array, an unclosed object; empty for a bare array.
        tail: JSON text after the array.
        unreadable: Events that are not JSON, and were dropped.
        truncated: The array never closed.
    """

    stream: Stream
    head: bytes = b""
    tail: bytes = b""
    unreadable: int = 0
    truncated: bool = False
    _buffer: bytearray = field(default_factory=bytearray)
    _separator: bytes = b""

    def open(self) -> None:
        """Read up to the first event.

        Raises:
            FormatError: There is no `traceEvents` array.
        """
        while True:
            block = self.stream.read()
            self._buffer += block
            text = bytes(self._buffer)
            if text.lstrip()[:1] == b"[":
                self._buffer = bytearray(text.lstrip()[1:])
                return
            found = _ARRAY.search(text)
            if found:
                self.head = text[: found.start()]
                self._buffer = bytearray(text[found.end() :])
                return
            if not block or len(text) > LONGEST_EVENT:
                raise self._no_events(text)

    def _no_events(self, text: bytes) -> FormatError:
        if _NULL_ARRAY.search(text):
            return FormatError(self.stream.label, "traceEvents is null: the recorder wrote no event", hint="record again", code="no_events")
        if text.lstrip()[:1] != b"{":
            return FormatError(self.stream.label, "is not JSON", hint="give a Kineto trace (*.json, *.json.gz); `tracekit report --help` lists what is read", code="not_json")
        return FormatError(self.stream.label, "is JSON without a traceEvents array", hint="give the trace that torch.profiler exported, not another file of the run", code="no_events")

    def batches(self) -> Iterator[list[Event]]:
        """The events, a few megabytes of text at a time."""
        ended = False
        while not ended:
            block = self.stream.read()
            self._buffer += block
            if block and len(self._buffer) < BATCH:
                continue
            if not block:
                yield from self._last()
                return
            events, ended = self._take()
            if events:
                yield events
            if len(self._buffer) > LONGEST_EVENT:
                raise FormatError(self.stream.label, f"one event is longer than {LONGEST_EVENT >> 20} MiB", hint="the file is damaged; record again", code="event_too_long")
        self._read_tail()

    def _read_tail(self) -> None:
        while len(self._buffer) < LONGEST_EVENT and (block := self.stream.read()):
            self._buffer += block
        self.tail = bytes(self._buffer)

    def _take(self) -> tuple[list[Event], bool]:
        """Events up to the last separator in the buffer, and whether the array ended."""
        if not self._separator:
            found = _SEPARATOR.search(self._buffer)
            self._separator = found.group() if found else b""
        cut = self._buffer.rfind(self._separator) if self._separator else -1
        if cut >= 0:
            events = _try(self._buffer, cut + 1)
            if events is not None:
                del self._buffer[: cut + len(self._separator) - 1]
                return events, False
        return self._scan(final=False)

    def _last(self) -> Iterator[list[Event]]:
        """What is left when the stream has ended."""
        ends = [found for found in _ARRAY_END.finditer(self._buffer)][-3:]
        for found in ends:
            events = _try(self._buffer, found.start() + 1)
            if events is not None:
                self.tail = bytes(self._buffer[found.end() :])
                yield events
                return
        events, ended = self._scan(final=True)
        self.truncated = not ended
        self.tail = bytes(self._buffer) if ended else b""
        if events:
            yield events

    def _scan(self, *, final: bool) -> tuple[list[Event], bool]:
        """Events one by one, found by their braces; keeps what is incomplete for the next batch."""
        text = bytes(self._buffer)
        spans, rest, ended = _spans(text)
        events = []
        for start, end in spans:
            event = decode_one(text[start:end])
            if event is None:
                self.unreadable += 1
            else:
                events.append(event)
        self._buffer = bytearray(text[rest:]) if not final or ended else bytearray()
        return events, ended

    def notes(self) -> list[QualityNote]:
        """What was repaired or dropped."""
        found = list(self.stream.notes)
        if self.unreadable:
            found.append(QualityNote("unreadable_events", self.unreadable, "events that are not valid JSON were dropped"))
        if self.truncated:
            found.append(QualityNote("truncated", 1, "the events' array never closes; complete events were kept"))
        return found


def _try(buffer: bytearray, length: int) -> list[Event] | None:
    try:
        return decode_array(b"[%b]" % memoryview(buffer)[:length].toreadonly())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _spans(text: bytes) -> tuple[list[tuple[int, int]], int, bool]:
    """Spans of the objects at the top of an array's inside, where the rest begins, and whether it ended."""
    spans: list[tuple[int, int]] = []
    depth = start = rest = 0
    for token in _TOKEN.finditer(text):
        mark = token.group()
        if mark == b'"':
            break
        if mark in {b"{", b"["}:
            if depth == 0:
                start = token.start()
            depth += 1
        elif mark in {b"}", b"]"}:
            if depth == 0:
                return spans, token.end(), True
            depth -= 1
            if depth == 0:
                rest = token.end()
                spans.append((start, rest))
    return spans, rest, False
