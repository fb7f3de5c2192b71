"""Begin and end events (`B`, `E`) as the complete events that they spell out."""

from dataclasses import dataclass, field

import msgspec

from tracekit.readers.kineto.events import Event
from tracekit.readers.kineto.times import nanoseconds
from tracekit.tables import QualityNote

BEGIN, END = "B", "E"
# More ranges open at once on one thread than any program nests: a sign of ends that never come.
DEEPEST = 10_000
Thread = tuple[int | str, int | str]


@dataclass(slots=True)
class Pairs:
    """Ranges that are open, by thread; an end closes the last begin of its thread.

    Attributes:
        made: Complete events made so far.
        lost: Begins without an end and ends without a begin.
    """

    made: int = 0
    lost: int = 0
    _open: dict[Thread, list[Event]] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """Whether there was any begin or end."""
        return bool(self._open or self.lost)

    def add(self, event: Event) -> Event | None:
        """Take one begin or end event; the complete event, where it closes one."""
        stack = self._open.setdefault((event.pid, event.tid), [])
        if event.ph == BEGIN:
            if len(stack) < DEEPEST:
                stack.append(event)
            else:
                self.lost += 1
            return None
        if not stack:
            self.lost += 1
            return None
        self.made += 1
        return _closed(stack.pop(), event)

    def notes(self) -> list[QualityNote]:
        """What was paired, and what had no partner."""
        found = []
        if self.made:
            found.append(
                QualityNote("paired_events", self.made, "begin and end events were joined into complete ones")
            )
        lost = self.lost + sum(len(stack) for stack in self._open.values())
        if lost:
            found.append(
                QualityNote("unpaired_events", lost, "begin or end events without a partner were left out")
            )
        return found


def _closed(begin: Event, end: Event) -> Event:
    times, good = nanoseconds([bytes(begin.ts), bytes(end.ts)])
    length = int(times[1] - times[0])
    # Microseconds with three decimals, as the format writes them; exact, since the length is whole ns.
    written = f"{length // 1000}.{length % 1000:03d}".encode() if good.all() and length >= 0 else b""
    return Event(
        "X",
        begin.cat,
        begin.name,
        begin.pid,
        begin.tid,
        begin.ts,
        msgspec.Raw(written),
        begin.args or end.args,
    )
