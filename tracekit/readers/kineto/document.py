"""A trace document as a stream: what stands before the events, the events in batches, what stands after.

The file is never held whole. A batch ends where one event ends and the next begins; the place is guessed
from the separator that this writer uses, and the guess is right if and only if the batch then parses, so
a separator inside a name costs a slower look, never a wrong event. The slower look takes events one by
one, by where they begin, so that damage in one does not reach the next.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tracekit.errors import FormatError
from tracekit.readers.kineto.events import DAMAGE, Event, decode_array, decode_one
from tracekit.readers.kineto.repair import MENDS, mend
from tracekit.readers.kineto.turns import OutOfStepError, Turns
from tracekit.readers.source import Stream
from tracekit.readers.spans import object_spans
from tracekit.tables import QualityNote

# As much text as stays in a core's cache while it is cut, decoded and sorted: reading four times as much at once takes
# two fifths longer.
BATCH = 2 << 20
# A single event longer than this is not a trace event but an attack or an accident.
LONGEST_EVENT = 64 << 20
# Repairs look at a damaged event several times over: not at megabytes of one.
LONGEST_REPAIR = 1 << 20
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_NULL_ARRAY = re.compile(rb'"traceEvents"\s*:\s*null')
_SEPARATOR = re.compile(rb"\}\s*,\s*\{")
_EVENT_START = re.compile(rb'\{\s*"(?:ph|name|cat|pid|ts)"\s*:')
_ARRAY_END = re.compile(rb"\}\s*\]\s*(?=,\s*\"|\}\s*\Z|\Z)")
_TAIL_LIMIT = 16 << 20


@dataclass(slots=True)
class Document:
    """The parts of a trace document and what went wrong on the way.

    Attributes:
        head: JSON text before the events' array, an unclosed object; empty for a bare array.
        tail: JSON text after the array.
        unreadable: Events that no repair made JSON, and were dropped.
        repaired: Events by the repair that made them readable.
        truncated: The array never closed.
        turns: Whose turn each batch is, where several processes read the file; the others skip it.
        number: How many batches there were so far.
    """

    stream: Stream
    turns: Turns | None = None
    number: int = 0
    head: bytes = b""
    tail: bytes = b""
    unreadable: int = 0
    repaired: Counter[str] = field(default_factory=Counter)
    truncated: bool = False
    bare: bool = False
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
                self.bare = True
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
            return FormatError(
                self.stream.label,
                "traceEvents is null: the recorder wrote no event",
                hint="record again",
                code="no_events",
            )
        if text.lstrip()[:1] != b"{":
            return FormatError(
                self.stream.label,
                "is not JSON",
                hint="give a Kineto trace (*.json, *.json.gz)",
                code="not_json",
            )
        return FormatError(
            self.stream.label,
            "is JSON without a traceEvents array",
            hint="give the trace that torch.profiler exported, not another file of the run",
            code="no_events",
        )

    def batches(self) -> Iterator[list[Event]]:
        """The events, a few megabytes of text at a time.

        Raises:
            FormatError: One event is longer than any event.
            OutOfStepError: Several processes read the file, and it must be looked at event by event.
        """
        enough = BATCH
        while block := self.stream.read():
            self._buffer += block
            if len(self._buffer) < enough:
                continue
            events, ended = self._take()
            self.number += 1
            # An event that does not end yet is looked at again when there is twice as much of it.
            enough = BATCH if events else max(BATCH, 2 * len(self._buffer))
            if events:
                yield events
            if ended:
                self._read_tail()
                return
            if len(self._buffer) > LONGEST_EVENT:
                raise FormatError(
                    self.stream.label,
                    f"one event is longer than {LONGEST_EVENT >> 20} MiB",
                    hint="the file is damaged; record again",
                    code="event_too_long",
                )
        self.number += 1
        if self.turns is None or self.turns.last:
            yield from self._last()

    def _read_tail(self) -> None:
        """Keep what metadata may stand after the events; drain the rest, so that damage there is noticed."""
        while block := self.stream.read():
            if len(self._buffer) < _TAIL_LIMIT:
                self._buffer += block
        self.tail = bytes(self._buffer)

    def _take(self) -> tuple[list[Event], bool]:
        """Events up to the last separator in the buffer, and whether the array ended."""
        if not self._separator:
            found = _SEPARATOR.search(self._buffer)
            self._separator = found.group() if found else b""
        cut = self._buffer.rfind(self._separator) if self._separator else -1
        if self.turns is not None and (cut < 0 or not self.turns.mine(self.number)):
            self._skip(cut)
            return [], False
        if cut >= 0:
            events = _try(self._buffer, cut + 1)
            if events is not None:
                self._skip(cut)
                return events, False
        if self.turns is not None:
            raise OutOfStepError
        return self._one_by_one(final=False)

    def _skip(self, cut: int) -> None:
        """Let go of the batch that ends at a separator, whoever decodes it.

        Raises:
            OutOfStepError: There is no separator: what another process makes of the text cannot be known.
        """
        if cut < 0:
            raise OutOfStepError
        del self._buffer[: cut + len(self._separator) - 1]

    def _last(self) -> Iterator[list[Event]]:
        """What is left when the stream has ended."""
        for found in list(_ARRAY_END.finditer(self._buffer))[-3:]:
            events = _try(self._buffer, found.start() + 1)
            if events is not None:
                self.tail = bytes(self._buffer[found.end() :])
                yield events
                return
        events, ended = self._one_by_one(final=True)
        self.truncated = not ended
        self.tail = bytes(self._buffer) if ended else b""
        if events:
            yield events

    def _one_by_one(self, *, final: bool) -> tuple[list[Event], bool]:
        """Events by where each begins; keeps the last, which the buffer may cut, for the next batch."""
        text, self._buffer = bytes(self._buffer), bytearray()
        starts = [found.start() for found in _EVENT_START.finditer(text)]
        whole = final or bool(starts)
        if starts and not final:
            text, self._buffer = text[: starts[-1]], bytearray(text[starts[-1] :])
            starts.pop()
        events: list[Event] = []
        for start, end in pairwise([*(starts or [0]), len(text)]):
            rest = self._piece(text[start:end], events, whole=whole, cut=final and end == len(text))
            if rest is not None:
                self._buffer[:0] = rest + text[end:]
                return events, True
        return events, False

    def _piece(self, piece: bytes, events: list[Event], *, whole: bool, cut: bool) -> bytes | None:
        """Add the events of a text that begins with one; what follows the array's end, if it ends here.

        Args:
            piece: From the start of one event to the start of the next.
            events: Where events are added.
            whole: Nothing more can follow: what does not parse is damaged, not cut.
            cut: The file ends here: what does not parse is the event that a truncation cut.
        """
        body = piece.strip().removesuffix(b",")
        if self._understood(body, events, repair=whole):
            return None
        spans, rest, ended = object_spans(piece)
        for low, high in spans:
            self.unreadable += not self._understood(piece[low:high], events, repair=True)
        if ended:
            return piece[rest:]
        if not whole:
            self._buffer = bytearray(piece[rest:])
        elif not spans and body and not cut:
            self.unreadable += 1
        return None

    def _understood(self, text: bytes, events: list[Event], *, repair: bool) -> bool:
        """Add the event that a text is, mended where it must be; false where it is none."""
        event = decode_one(text)
        repairs: tuple[str, ...] = ()
        if event is None and repair and len(text) <= LONGEST_REPAIR:
            event, repairs = mend(text)
        if event is None:
            return False
        self.repaired.update(repairs)
        events.append(event)
        return True

    def notes(self) -> list[QualityNote]:
        """What was repaired or dropped."""
        found = list(self.stream.notes)
        found += [
            QualityNote(code, self.repaired[code], message)
            for code, message, _ in MENDS
            if self.repaired[code]
        ]
        if self.unreadable:
            found.append(
                QualityNote(
                    "unreadable_events", self.unreadable, "events that no repair made valid JSON were dropped"
                )
            )
        if self.bare:
            found.append(
                QualityNote(
                    "event_array",
                    1,
                    "a bare array of events: no metadata (device, recorder options) came with it",
                )
            )
        if self.truncated and self.bare:
            found.append(
                QualityNote(
                    "unclosed_array", 1, "the array of events never closes; complete events were kept"
                )
            )
        elif self.truncated:
            found.append(
                QualityNote("truncated", 1, "the file ends inside the events; complete events were kept")
            )
        return found


def _try(buffer: bytearray, length: int) -> list[Event] | None:
    try:
        return decode_array(b"".join((b"[", memoryview(buffer)[:length], b"]")))
    except DAMAGE:
        return None
