"""Records of a rocprofv3 JSON as tables, growing batch by batch."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tracekit.readers.rocprof.counters import Launches
from tracekit.readers.rocprof.devices import Devices
from tracekit.readers.rocprof.frames import Frames
from tracekit.readers.rocprof.records import Measured, Named, Record, Symbol

_INT64 = 1 << 63


@dataclass(slots=True)
class Process:
    """What one process of the file calls things; numbers mean something only within it.

    Attributes:
        kinds: Names of the kinds of record, and of each kind's operations.
        symbols: Kernel names by number.
        counters: Counter names by handle.
        messages: Marker texts by correlation id.
    """

    pid: int | None
    number: int
    kinds: list[Named] = field(default_factory=list)
    symbols: dict[int, str] = field(default_factory=dict)
    counters: dict[int, str] = field(default_factory=dict)
    messages: dict[int, str] = field(default_factory=dict)

    def operation(self, record: Record) -> str:
        """The name of what a record records."""
        if 0 <= record.kind < len(self.kinds):
            operations = self.kinds[record.kind].operations
            if 0 <= record.operation < len(operations):
                return operations[record.operation]
        return ""


@dataclass(slots=True)
class Gathered:
    """The tables of one file, growing.

    Attributes:
        counts: Records by array.
    """

    frames: Frames = field(default_factory=Frames)
    devices: Devices = field(default_factory=Devices)
    launches: Launches = field(default_factory=Launches)
    counts: Counter[str] = field(default_factory=Counter)
    _process: Process = field(default_factory=lambda: Process(None, 0))
    _started: bool = False

    def add(self, name: str, records: list[Any]) -> None:
        """Take one batch of the array `name`."""
        if name == "process":
            self._process = Process(records[0], self._process.number + self._started)
            self._started = True
            return
        self.counts[name] += len(records)
        take: dict[str, Callable[[list[Any]], None]] = {
            "agents": self.devices.add,
            "counters": self._add_counter_names,
            "buffer_records": self._process.kinds.extend,
            "kernel_symbols": self._add_symbols,
            "counter_collection": self._add_measured,
            "kernel_dispatch": self._add_dispatches,
            "hip_api": self._add_calls,
            "memory_copy": self._add_copies,
            "marker_api": self._add_markers,
        }
        take[name](records)

    def _add_counter_names(self, records: list[Named]) -> None:
        self._process.counters.update({r.id.handle: r.name for r in records if r.id is not None and r.name})

    def _add_symbols(self, records: list[Symbol]) -> None:
        self._process.symbols.update({record.kernel_id: symbol_name(record) for record in records})

    def _add_dispatches(self, records: list[Record]) -> None:
        found = [(record, record.dispatch_info) for record in records if record.dispatch_info is not None]
        rows = [record for record, _ in found]
        infos = [info for _, info in found]
        symbols = self._process.symbols
        self.frames.kernels(
            self._times(rows),
            names=[symbols.get(info.kernel_id, "") for info in infos],
            device=[self.devices.by_handle.get(info.agent_id.handle) for info in infos],
            stream=[_stream(record) for record in rows],
            items=[(i.grid_size.x, i.grid_size.y, i.grid_size.z) for i in infos],
            group=[(i.workgroup_size.x, i.workgroup_size.y, i.workgroup_size.z) for i in infos],
        )

    def _add_calls(self, records: list[Record]) -> None:
        self.frames.calls(self._times(records), [self._process.operation(record) for record in records])

    def _add_copies(self, records: list[Record]) -> None:
        handles = self.devices.by_handle
        self.frames.copies(
            self._times(records),
            names=[self._process.operation(record) for record in records],
            device=[
                next(
                    (
                        handles[h.handle]
                        for h in (r.dst_agent_id, r.src_agent_id)
                        if h and h.handle in handles
                    ),
                    None,
                )
                for r in records
            ],
            stream=[_stream(record) for record in records],
            size=_whole([record.bytes for record in records]),
        )

    def _add_markers(self, records: list[Record]) -> None:
        """Texts of markers, which stand before the records that name them by correlation id."""
        process = self._process
        process.messages.update(
            {r.key: r.value for r in records if r.key is not None and isinstance(r.value, str)}
        )
        ranges = [r for r in records if r.key is None and "Mark" not in process.operation(r)]
        self.frames.ranges(
            self._times(ranges), [process.messages.get(r.correlation_id.internal, "") for r in ranges]
        )

    def _add_measured(self, records: list[Measured]) -> None:
        process = self._process
        for record in records:
            info = record.dispatch_data.dispatch_info
            if info is None:
                self.launches.unplaced += len(record.records)
                continue
            group = (info.workgroup_size.x, info.workgroup_size.y, info.workgroup_size.z)
            items = (info.grid_size.x, info.grid_size.y, info.grid_size.z)
            launch = self.launches.add(
                name=process.symbols.get(info.kernel_id, ""),
                process=process.pid,
                device=self.devices.by_handle.get(info.agent_id.handle),
                stream=_stream(record.dispatch_data),
                items=items,
                group=group,
            )
            for cell in record.records:
                self.launches.measure(launch, process.counters.get(cell.counter_id.handle), cell.value)

    def _times(self, records: Sequence[Record]) -> pa.Table:
        """What every timed record has; the frames drop those whose times are none."""
        process = self._process
        return pa.table(
            {
                "start": _whole([record.start_timestamp for record in records]),
                "end": _whole([record.end_timestamp for record in records]),
                "thread": _whole([record.thread_id for record in records]),
                "correlation": _whole([record.correlation_id.internal for record in records]),
                "process": pa.array([process.number] * len(records), pa.int64()),
                "pid": pa.array([process.pid] * len(records), pa.int64()),
            }
        )


def symbol_name(symbol: Symbol) -> str:
    """The name as tools print it: demangled, without the descriptor's ending."""
    for name in (symbol.formatted_kernel_name, symbol.demangled_kernel_name, symbol.kernel_name):
        if isinstance(name, str) and name:
            return name.removesuffix(" [clone .kd]").removesuffix(".kd")
    return ""


def _stream(record: Record) -> int | None:
    if record.stream_id is not None:
        return _fits(record.stream_id.handle)
    return _fits(record.dispatch_info.queue_id.handle) if record.dispatch_info is not None else None


def _fits(number: int) -> int | None:
    return number if -_INT64 <= number < _INT64 else None


def _whole(numbers: Sequence[int | None]) -> pa.Array:
    try:
        return pa.array(numbers, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        return pa.array([None if n is None else _fits(n) for n in numbers], pa.int64())
