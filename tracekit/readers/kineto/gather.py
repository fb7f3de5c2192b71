"""Sorts events into tables as they stream by."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from tracekit.readers.kineto.categories import DEVICE_BUCKETS, Bucket, bucket_of
from tracekit.readers.kineto.columns import NO_ARGS, Pool, Spans, nullable, triple_text, triples
from tracekit.readers.kineto.events import Event
from tracekit.readers.kineto.pairs import BEGIN, END, Pairs
from tracekit.tables import DEVICE_EVENTS, OPS, RANGES, RUNTIME_CALLS, SIGNATURES, Kind, QualityNote, Table

KeepFrame = Callable[[str], bool]
_KINDS = {Bucket.KERNEL: Kind.KERNEL, Bucket.MEMCPY: Kind.MEMCPY, Bucket.MEMSET: Kind.MEMSET}
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
    counts: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    device: Spans = field(default_factory=Spans)
    runtime: Spans = field(default_factory=Spans)
    ops: Spans = field(default_factory=Spans)
    annotations: Spans = field(default_factory=Spans)
    frames: Spans = field(default_factory=Spans)
    pairs: Pairs = field(default_factory=Pairs)
    counter_ranges: list[Event] = field(default_factory=list)
    xla: bool = False
    _threads: Pool[tuple[int | str, int | str]] = field(default_factory=Pool)
    _signatures: Pool[tuple[str, bytes, bytes, bytes, bytes]] = field(default_factory=Pool)
    _grids: Pool[bytes] = field(default_factory=Pool)
    _blocks: Pool[bytes] = field(default_factory=Pool)
    _buckets: dict[str, Bucket | None] = field(default_factory=dict)
    _frame_names: dict[str, bool] = field(default_factory=dict)

    def add(self, events: list[Event]) -> None:
        """Sort one batch into its tables."""
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
            self._add_device(_KINDS[bucket], pile)
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

    def _add_device(self, kind: Kind, pile: list[Event]) -> None:
        events, starts, lengths = self.device.usable(pile)
        args = [event.args or NO_ARGS for event in events]
        self.device.parts.add(
            name=self.device.names.encode([event.name for event in events]),
            ts_ns=starts,
            dur_ns=lengths,
            kind=np.full(len(events), list(Kind).index(kind), np.int8),
            grid=triples([bytes(a.grid) for a in args], self._grids),
            block=triples([bytes(a.block) for a in args], self._blocks),
            **nullable([a.device for a in args], "device"),
            **nullable([a.stream for a in args], "stream"),
            **nullable([a.correlation for a in args], "correlation"),
            **nullable([a.bytes for a in args], "bytes"),
            **nullable([a.graph_node for a in args], "graph_node"),
        )

    def _add_runtime(self, pile: list[Event]) -> None:
        events, starts, lengths = self.runtime.usable(pile)
        args = [event.args or NO_ARGS for event in events]
        self.runtime.parts.add(
            name=self.runtime.names.encode([event.name for event in events]),
            ts_ns=starts,
            dur_ns=lengths,
            thread=self._encode_threads(events),
            grid=triples([bytes(a.grid) for a in args], self._grids),
            block=triples([bytes(a.block) for a in args], self._blocks),
            **nullable([a.correlation for a in args], "correlation"),
        )

    def _add_ops(self, pile: list[Event]) -> None:
        events, starts, lengths = self.ops.usable(pile)
        signatures = [(event.name, *_signature(event)) for event in events]
        self.ops.parts.add(
            name=self.ops.names.encode([event.name for event in events]),
            ts_ns=starts,
            dur_ns=lengths,
            thread=self._encode_threads(events),
            signature=self._signatures.encode(signatures),
        )

    def _add_ranges(self, spans: Spans, pile: list[Event]) -> None:
        if not pile:
            return
        events, starts, lengths = spans.usable(pile)
        spans.parts.add(
            name=spans.names.encode([event.name for event in events]),
            ts_ns=starts,
            dur_ns=lengths,
            thread=self._encode_threads(events),
        )

    def _encode_threads(self, events: list[Event]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return self._threads.encode([(event.pid, event.tid) for event in events])

    @property
    def holds_work(self) -> bool:
        """Whether there is anything to report: device work, ops, host calls or counters."""
        return (
            any(len(spans.parts) for spans in (self.device, self.ops, self.runtime))
            or len(self.counter_ranges) > 0
        )

    @property
    def threads(self) -> tuple[tuple[str, str], ...]:
        """(process, thread) labels, by thread index."""
        return tuple((str(process), str(thread)) for process, thread in self._threads.codes)

    def device_events(self, base_ns: int) -> pd.DataFrame:
        """DEVICE_EVENTS, in order of start."""
        frame = _sorted(self.device, base_ns, DEVICE_EVENTS)
        if len(frame):
            kinds = pd.Index([str(kind) for kind in Kind], dtype=object)
            frame["kind"] = pd.Categorical.from_codes(frame["kind"].to_numpy(), kinds)
        return DEVICE_EVENTS.conform(self._with_grids(frame))

    def runtime_calls(self, base_ns: int) -> pd.DataFrame:
        """RUNTIME_CALLS, in order of start."""
        return RUNTIME_CALLS.conform(self._with_grids(_sorted(self.runtime, base_ns, RUNTIME_CALLS)))

    def _with_grids(self, frame: pd.DataFrame) -> pd.DataFrame:
        if len(frame):
            for name, pool in (("grid", self._grids), ("block", self._blocks)):
                frame[name] = _texts(frame[name].to_numpy(), [triple_text(raw) for raw in pool.codes])
        return frame

    def op_rows(self, base_ns: int) -> pd.DataFrame:
        """OPS, in order of start."""
        return OPS.conform(_sorted(self.ops, base_ns, OPS))

    def ranges(self, spans: Spans, base_ns: int) -> pd.DataFrame:
        """RANGES, in order of start."""
        return RANGES.conform(_sorted(spans, base_ns, RANGES))

    def signatures(self) -> pd.DataFrame:
        """SIGNATURES: the distinct ones, in order of first sight."""
        columns = list(zip(*self._signatures.codes, strict=True)) or [()] * 5
        data: dict[str, object] = {"op": pd.Categorical(pd.Index(columns[0], dtype=object))}
        for name, raws in zip(("dims", "types", "strides", "concrete"), columns[1:], strict=True):
            texts = pd.Index([raw.decode("utf-8", errors="replace") or None for raw in raws], dtype=object)
            data[name] = pd.Categorical(texts)
        return SIGNATURES.conform(pd.DataFrame(data))

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


_UNRECORDED = (b"", b"", b"", b"")


def _signature(event: Event) -> tuple[bytes, bytes, bytes, bytes]:
    args = event.args
    if args is None or not (args.dims or args.types or args.concrete):
        return _UNRECORDED
    return bytes(args.dims), bytes(args.types), bytes(args.strides), bytes(args.concrete)


def _texts(codes: np.ndarray[tuple[int], np.dtype[np.int32]], texts: list[str]) -> pd.Categorical:
    """A text column from codes whose texts may repeat."""
    distinct = Pool[str]()
    again = distinct.encode(texts)
    mapped = np.where(codes < 0, -1, again[np.maximum(codes, 0)]) if len(again) else codes
    return pd.Categorical.from_codes(mapped, pd.Index(list(distinct.codes), dtype=object))


def _sorted(spans: Spans, base_ns: int, table: Table) -> pd.DataFrame:
    if not len(spans.parts):
        return table.empty()
    frame = spans.frame(base_ns)
    starts = frame["ts_ns"].to_numpy()
    if (starts[1:] >= starts[:-1]).all():
        return frame
    return frame.iloc[np.argsort(starts, kind="stable")].reset_index(drop=True)
