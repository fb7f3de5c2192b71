"""`rocpd`: the SQLite database that rocprofv3 writes by default, schemas 3 and 4.

Tables carry the id of their recording behind their name, and a merged file holds several; each is read by itself.
Schema 3 puts times, process and agent into each row; schema 4 names rows of tables for them. The process table,
which holds command line and environment, is asked for process ids alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.readers.arrow import ById, missing, values
from tracekit.readers.database import Database, read_columns
from tracekit.readers.rocprof.gather import Gathered
from tracekit.readers.rocprof.records import DAMAGE, Agent, Handle

_MARK = "rocpd_kernel_dispatch"
_PLACES = ("pid", "tid", "agent_id", "queue_id", "stream_id")
_EXTENTS = (
    "grid_size_x",
    "grid_size_y",
    "grid_size_z",
    "workgroup_size_x",
    "workgroup_size_y",
    "workgroup_size_z",
)
_HIP = re.compile(r"^HIP_")
_MARKER = re.compile(r"^MARKER_")
# A message of a marker; no other field of its JSON is looked at.
_GPU, _GPU_TYPE = "GPU", 2


class _Message(msgspec.Struct):
    message: str = ""


def is_rocpd(database: Database) -> bool:
    """Whether a database is one of rocprofv3."""
    return any(table.startswith(_MARK) for table in database.tables)


@dataclass(slots=True)
class Recording:
    """One recording of a file, the tables that its rows point at."""

    database: Database
    suffix: str
    number: int

    def columns(
        self, name: str, *integers: str, texts: tuple[str, ...] = (), reals: tuple[str, ...] = ()
    ) -> pa.Table:
        """Columns of one of its tables."""
        return read_columns(self.database, f"rocpd_{name}{self.suffix}", integers, texts, reals)

    def has(self, name: str, column: str) -> bool:
        """Whether one of its tables has a column."""
        return column in self.database.tables.get(f"rocpd_{name}{self.suffix}", ())

    def strings(self) -> dict[int, str]:
        """Its texts by number."""
        rows = self.columns("string", "id", texts=("string",))
        return dict(zip(rows["id"].to_pylist(), rows["string"].to_pylist(), strict=True))

    def timed(self, name: str, *integers: str) -> pa.Table:
        """Rows of a timed table, with `start`, `end` and their places, whichever way the schema has them."""
        if self.has(name, "start"):
            rows = self.columns(name, "start", "end", *_PLACES, *integers)
        else:
            rows = self._pointed(name, *integers)
        return self._numbered(rows)

    def _pointed(self, name: str, *integers: str) -> pa.Table:
        """Rows of schema 4, which point at times and tracks."""
        rows = self.columns(name, "track_id", "start_id", "end_id", *integers)
        times = ById.of(self.columns("timestamp", "id", "value"))
        tracks = ById.of(self.columns("track", "id", *_PLACES))
        for column, key in (("start", "start_id"), ("end", "end_id")):
            found = times.take(values(rows, key), missing(rows, key))
            rows = rows.append_column(column, found["value"])
        found = tracks.take(values(rows, "track_id"), missing(rows, "track_id"))
        for column in _PLACES:
            rows = rows.append_column(column, found[column])
        return rows

    def _numbered(self, rows: pa.Table) -> pa.Table:
        """Process and thread ids of the system in place of row numbers, where the file has both."""
        for column, name, own in (("pid", "info_process", "pid"), ("tid", "info_thread", "tid")):
            known = ById.of(self.columns(name, "id", own)).take(values(rows, column), missing(rows, column))
            rows = rows.set_column(
                rows.column_names.index(column), column, pc.coalesce(known[own], rows[column])
            )
        return rows


def recordings(database: Database) -> Iterator[Recording]:
    """The recordings of a file."""
    suffixes = sorted(table.removeprefix(_MARK) for table in database.tables if table.startswith(_MARK))
    for number, suffix in enumerate(suffixes):
        yield Recording(database, suffix, number)


def gather(database: Database) -> Gathered:
    """Everything that is used of a database.

    Raises:
        CaptureError: The file is damaged.
    """
    gathered = Gathered()
    for recording in recordings(database):
        _agents(recording, gathered)
        strings = recording.strings()
        events = ById.of(recording.columns("event", "id", "stack_id", "category_id"))
        symbols = _symbols(recording)
        dispatches = recording.timed("kernel_dispatch", "kernel_id", "event_id", *_EXTENTS)
        _kernels(recording, gathered, dispatches, symbols, events)
        _copies(recording, gathered, strings, events)
        _regions(recording, gathered, strings, events)
        _counters(recording, gathered, dispatches, symbols)
    return gathered


def _agents(recording: Recording, gathered: Gathered) -> None:
    rows = recording.columns(
        "info_agent", "id", "type_index", texts=("type", "name", "product_name", "extdata")
    ).to_pylist()
    gpus = [_agent(row, position) for position, row in enumerate(r for r in rows if r["type"] == _GPU)]
    gathered.devices.by_handle.clear()
    gathered.devices.add(gpus)


def _agent(row: dict[str, object], position: int) -> Agent:
    """A GPU: its own record in full where it can be read, else what the columns say."""
    index = row["type_index"] if isinstance(row["type_index"], int) else position
    number = row["id"] if isinstance(row["id"], int) else position
    try:
        agent = msgspec.json.decode(str(row["extdata"]).encode(), type=Agent)
    except DAMAGE:
        agent = Agent(
            Handle(number), name=str(row["name"] or ""), product_name=str(row["product_name"] or "")
        )
    return msgspec.structs.replace(agent, id=Handle(number), type=_GPU_TYPE, logical_node_type_id=index)


def _symbols(recording: Recording) -> dict[int, str]:
    rows = recording.columns("info_kernel_symbol", "id", texts=("display_name", "kernel_name"))
    names = pc.coalesce(rows["display_name"], rows["kernel_name"]).to_pylist()
    return {
        number: (name or "").removesuffix(".kd")
        for number, name in zip(rows["id"].to_pylist(), names, strict=True)
    }


def _times(recording: Recording, rows: pa.Table, events: ById) -> pa.Table:
    happened = events.take(values(rows, "event_id"), missing(rows, "event_id"))
    return pa.table(
        {
            "start": rows["start"],
            "end": rows["end"],
            "thread": rows["tid"],
            "correlation": happened["stack_id"],
            "process": pa.array(np.full(len(rows), recording.number), pa.int64()),
            "pid": rows["pid"],
        }
    )


def _devices(gathered: Gathered, handles: pa.ChunkedArray) -> list[int | None]:
    return [gathered.devices.by_handle.get(handle) for handle in handles.to_pylist()]


def _streams(rows: pa.Table) -> list[int | None]:
    streams: list[int | None] = pc.coalesce(rows["stream_id"], rows["queue_id"]).to_pylist()
    return streams


def _triples(rows: pa.Table, names: tuple[str, ...]) -> list[tuple[int, int, int]]:
    return list(zip(*(values(rows, name).tolist() for name in names), strict=True))


def _kernels(
    recording: Recording, gathered: Gathered, rows: pa.Table, symbols: dict[int, str], events: ById
) -> None:
    gathered.counts["kernel_dispatch"] += len(rows)
    gathered.frames.kernels(
        _times(recording, rows, events),
        names=[symbols.get(number) for number in rows["kernel_id"].to_pylist()],
        device=_devices(gathered, rows["agent_id"]),
        stream=_streams(rows),
        items=_triples(rows, _EXTENTS[:3]),
        group=_triples(rows, _EXTENTS[3:]),
    )


def _copies(recording: Recording, gathered: Gathered, strings: dict[int, str], events: ById) -> None:
    rows = recording.timed("memory_copy", "name_id", "event_id", "dst_agent_id", "src_agent_id", "size")
    gathered.counts["memory_copy"] += len(rows)
    ends = zip(
        _devices(gathered, rows["dst_agent_id"]), _devices(gathered, rows["src_agent_id"]), strict=True
    )
    gathered.frames.copies(
        _times(recording, rows, events),
        names=[strings.get(number) for number in rows["name_id"].to_pylist()],
        device=[to if to is not None else source for to, source in ends],
        stream=_streams(rows),
        size=rows["size"],
    )


def _regions(recording: Recording, gathered: Gathered, strings: dict[int, str], events: ById) -> None:
    """HIP calls as runtime calls, markers as annotations; other interfaces are counted only."""
    rows = recording.timed("region", "name_id", "event_id")
    happened = events.take(values(rows, "event_id"), missing(rows, "event_id"))
    categories = [strings.get(number) or "" for number in happened["category_id"].to_pylist()]
    is_call = np.array([bool(_HIP.match(category)) for category in categories], np.bool_)
    is_marker = np.array([bool(_MARKER.match(category)) for category in categories], np.bool_)
    times = _times(recording, rows, events)
    gathered.counts["hip_api"] += int(is_call.sum())
    gathered.counts["marker_api"] += int(is_marker.sum())
    calls, markers = rows.filter(pa.array(is_call)), rows.filter(pa.array(is_marker))
    gathered.frames.calls(
        times.filter(pa.array(is_call)), [strings.get(number) for number in calls["name_id"].to_pylist()]
    )
    if len(markers):
        messages = _messages(recording, set(markers["event_id"].to_pylist()))
        gathered.frames.ranges(
            times.filter(pa.array(is_marker)),
            [messages.get(event) for event in markers["event_id"].to_pylist()],
        )


def _messages(recording: Recording, wanted: set[int]) -> dict[int, str]:
    """Texts of markers by event."""
    found = {}
    asked = pa.array(sorted(wanted - {None}), pa.int64())
    for batch in recording.database.batches(f"rocpd_event{recording.suffix}", ("id",), ("extdata",)):
        hit = batch.filter(pc.is_in(batch.column(0), asked))
        for event, text in zip(hit.column(0).to_pylist(), hit.column(1).to_pylist(), strict=True):
            try:
                found[event] = msgspec.json.decode((text or "{}").encode(), type=_Message).message
            except DAMAGE:
                continue
    return found


def _counters(recording: Recording, gathered: Gathered, rows: pa.Table, symbols: dict[int, str]) -> None:
    info = recording.columns("info_pmc", "id", texts=("symbol", "name"))
    metrics = dict(
        zip(info["id"].to_pylist(), pc.coalesce(info["symbol"], info["name"]).to_pylist(), strict=True)
    )
    cells = recording.columns("pmc_event", "event_id", "pmc_id", reals=("value",))
    if not len(cells):
        return
    measured = rows.filter(pc.is_in(rows["event_id"], pc.unique(cells["event_id"])))
    launches = {}
    for event, kernel, pid, device, stream, items, group in zip(
        measured["event_id"].to_pylist(),
        measured["kernel_id"].to_pylist(),
        measured["pid"].to_pylist(),
        _devices(gathered, measured["agent_id"]),
        _streams(measured),
        _triples(measured, _EXTENTS[:3]),
        _triples(measured, _EXTENTS[3:]),
        strict=True,
    ):
        launches[event] = gathered.launches.add(
            name=symbols.get(kernel, ""), process=pid, device=device, stream=stream, items=items, group=group
        )
    for event, metric, value in zip(
        *(cells[name].to_pylist() for name in ("event_id", "pmc_id", "value")), strict=True
    ):
        gathered.launches.measure(launches.get(event), metrics.get(metric), value)
