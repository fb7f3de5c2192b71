"""Sorts events into tables as they stream by."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter

import numpy as np

from tracekit.readers.kineto.categories import DEVICE_BUCKETS, Bucket, bucket_of
from tracekit.readers.kineto.columns import NO_ARGS, Clock, Pool, Spans, nullable, triples
from tracekit.readers.kineto.events import Event
from tracekit.readers.kineto.pairs import BEGIN, END, Pairs
from tracekit.tables import Kind, QualityNote

KeepFrame = Callable[[str], bool]
Signature = tuple[str, bytes, bytes, bytes, bytes]
# Fields of events and of their arguments, taken from whole batches without a step of the interpreter for each.
_NAME, _THREAD = attrgetter("name"), attrgetter("pid", "tid")
_GRID, _BLOCK, _BYTES = attrgetter("grid"), attrgetter("block"), attrgetter("bytes")
_DEVICE, _STREAM = attrgetter("device"), attrgetter("stream")
_CORRELATION, _GRAPH_NODE = attrgetter("correlation"), attrgetter("graph_node")
_DIMS, _TYPES, _CONCRETE = attrgetter("dims"), attrgetter("types"), attrgetter("concrete")
# Kinds of device work as the codes of `Kind`.
_KIND_CODES = {
    Bucket.KERNEL: list(Kind).index(Kind.KERNEL),
    Bucket.MEMCPY: list(Kind).index(Kind.MEMCPY),
    Bucket.MEMSET: list(Kind).index(Kind.MEMSET),
}
SPANS = ("device", "runtime", "ops", "annotations", "frames")
POOLS = ("threads", "signatures", "grids", "blocks")
_COMPLETE = "X"
_METADATA = "M"
# Flows and instants, of which there are many and which are counted only.
_POINTS = frozenset("sfi")
# How TensorFlow and JAX name the process of a device.
_XLA_DEVICE = "/device:"


@dataclass(slots=True)
class Gathered:
    """The tables of one trace, growing.

    Attributes:
        keep_frame: Whether a rule wants the Python frame of this name.
        counts: Events by category, as written.
        span_counts: Complete events by category: what of a category could have become a row.
    """

    keep_frame: KeepFrame
    clock: Clock = field(default_factory=Clock)
    counts: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    device: Spans = field(init=False)
    runtime: Spans = field(init=False)
    ops: Spans = field(init=False)
    annotations: Spans = field(init=False)
    frames: Spans = field(init=False)
    pairs: Pairs = field(default_factory=Pairs)
    counter_ranges: list[Event] = field(default_factory=list)
    xla: bool = False
    threads: Pool[tuple[int | str, int | str]] = field(init=False)
    signatures: Pool[Signature] = field(init=False)
    grids: Pool[bytes] = field(init=False)
    blocks: Pool[bytes] = field(init=False)
    _buckets: dict[str, Bucket | None] = field(default_factory=dict)
    _frame_names: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin every table and pool at the same clock."""
        for name in SPANS:
            setattr(self, name, Spans.at(self.clock))
        for name in POOLS:
            setattr(self, name, Pool(self.clock))

    def add(self, events: list[Event], batch: int = 0) -> None:
        """Sort one batch into its tables.

        Args:
            events: The batch.
            batch: Its place among the batches of the file.
        """
        self.clock.batch = batch
        piles: defaultdict[str, list[Event]] = defaultdict(list)
        rest = []
        for event in events:
            if event.ph == _COMPLETE:
                piles[event.cat].append(event)
            else:
                rest.append(event)
        self.counts.update(Counter([event.cat or f"ph:{event.ph}" for event in rest if event.ph in _POINTS]))
        for event in rest:
            if event.ph not in _POINTS and (whole := self._completed(event)) is not None:
                piles[whole.cat].append(whole)
        for category, pile in piles.items():
            self.counts[category] += len(pile)
            self._sort(category, pile)

    def _completed(self, event: Event) -> Event | None:
        """The complete event that a begin or end makes; every other kind is counted only."""
        if event.ph in {BEGIN, END}:
            return self.pairs.add(event)
        self.counts[event.cat or f"ph:{event.ph}"] += 1
        if event.ph == _METADATA and event.args is not None and isinstance(event.args.label, str):
            self.xla |= event.args.label.startswith(_XLA_DEVICE)
        return None

    def _sort(self, category: str, pile: list[Event]) -> None:
        if category not in self._buckets:
            self._buckets[category] = bucket_of(category)
        bucket = self._buckets[category]
        if bucket is None:
            self.unknown[category] += len(pile)
        elif bucket in DEVICE_BUCKETS:
            self._add_device(_KIND_CODES[bucket], pile)
        elif bucket is Bucket.RUNTIME:
            self._add_runtime(pile)
        elif bucket is Bucket.OP:
            self._add_ops(pile)
        elif bucket is Bucket.ANNOTATION:
            self._add_ranges(self.annotations, pile)
        elif bucket is Bucket.FRAME:
            self._add_ranges(self.frames, [event for event in pile if self._wanted(event.name)])
        elif bucket is Bucket.COUNTER_RANGE:
            self.counter_ranges += pile

    def _wanted(self, name: str) -> bool:
        wanted = self._frame_names.get(name)
        if wanted is None:
            wanted = self._frame_names[name] = self.keep_frame(name)
        return wanted

    def _add_device(self, kind: int, pile: list[Event]) -> None:
        events, starts, lengths = self.device.usable(pile)
        args = [event.args or NO_ARGS for event in events]
        self.device.parts.add(
            name=self.device.names.encode(map(_NAME, events)),
            ts_ns=starts,
            dur_ns=lengths,
            kind=np.full(len(events), kind, np.int8),
            grid=triples(list(map(_GRID, args)), self.grids),
            block=triples(list(map(_BLOCK, args)), self.blocks),
            **nullable(list(map(_DEVICE, args)), "device"),
            **nullable(list(map(_STREAM, args)), "stream"),
            **nullable(list(map(_CORRELATION, args)), "correlation"),
            **nullable(list(map(_BYTES, args)), "bytes"),
            **nullable(list(map(_GRAPH_NODE, args)), "graph_node"),
        )

    def _add_runtime(self, pile: list[Event]) -> None:
        events, starts, lengths = self.runtime.usable(pile)
        args = [event.args or NO_ARGS for event in events]
        self.runtime.parts.add(
            name=self.runtime.names.encode(map(_NAME, events)),
            ts_ns=starts,
            dur_ns=lengths,
            thread=self.threads.encode(map(_THREAD, events)),
            grid=triples(list(map(_GRID, args)), self.grids),
            block=triples(list(map(_BLOCK, args)), self.blocks),
            **nullable(list(map(_CORRELATION, args)), "correlation"),
        )

    def _add_ops(self, pile: list[Event]) -> None:
        events, starts, lengths = self.ops.usable(pile)
        self.ops.parts.add(
            name=self.ops.names.encode(map(_NAME, events)),
            ts_ns=starts,
            dur_ns=lengths,
            thread=self.threads.encode(map(_THREAD, events)),
            signature=self.signatures.encode(_signatures(events)),
        )

    def _add_ranges(self, spans: Spans, pile: list[Event]) -> None:
        if not pile:
            return
        events, starts, lengths = spans.usable(pile)
        spans.parts.add(
            name=spans.names.encode(map(_NAME, events)),
            ts_ns=starts,
            dur_ns=lengths,
            thread=self.threads.encode(map(_THREAD, events)),
        )

    @property
    def spans_batches(self) -> bool:
        """Whether there was anything that cannot be gathered batch by batch and put together afterwards."""
        return bool(self.counter_ranges) or self.pairs.begun

    @property
    def holds_work(self) -> bool:
        """Whether there is anything to report: device work, ops, host calls or counters."""
        return (
            any(len(spans.parts) for spans in (self.device, self.ops, self.runtime))
            or len(self.counter_ranges) > 0
        )

    def notes(self) -> list[QualityNote]:
        """What was dropped on the way."""
        found = self.pairs.notes()
        for what, spans in (
            ("device events", self.device),
            ("runtime calls", self.runtime),
            ("ops", self.ops),
            ("annotations", self.annotations),
        ):
            if spans.bad_times:
                found.append(
                    QualityNote(
                        "bad_time",
                        spans.bad_times,
                        f"{what} without a usable time (missing, negative or not a number) were kept out",
                    )
                )
        if self.unknown:
            names = ", ".join(sorted(self.unknown)[:5])
            found.append(
                QualityNote(
                    "unknown_category",
                    self.unknown.total(),
                    f"events of categories that tracekit does not know ({names}) were left out",
                )
            )
        return found


def _signatures(events: list[Event]) -> Iterable[Signature]:
    """What was recorded of each op's operands; nothing is looked at where the recorder kept none."""
    args = [event.args or NO_ARGS for event in events]
    if not any(any(map(field, args)) for field in (_DIMS, _TYPES, _CONCRETE)):
        return zip(map(_NAME, events), *(repeat(b"") for _ in range(4)), strict=False)
    return (
        (event.name, bytes(a.dims), bytes(a.types), bytes(a.strides), bytes(a.concrete))
        if a.dims or a.types or a.concrete
        else (event.name, b"", b"", b"", b"")
        for event, a in zip(events, args, strict=True)
    )


Ranks = dict[str, Gathered]
"""What was gathered of each rank in a file, by its label."""
