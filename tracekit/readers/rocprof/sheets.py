"""CSV files of rocprofv3: its kernel trace, and its counter collection."""

import re

import pyarrow as pa

from tracekit.readers.arrow import values, whole
from tracekit.readers.commas import Sheet
from tracekit.readers.rocprof.frames import Triple
from tracekit.readers.rocprof.gather import Gathered
from tracekit.readers.source import Stream
from tracekit.tables import QualityNote

KERNELS = frozenset({"Kernel_Name", "Start_Timestamp", "End_Timestamp", "Agent_Id"})
COUNTERS = frozenset({"Kernel_Name", "Counter_Name", "Counter_Value", "Dispatch_Id"})
_AXES = ("X", "Y", "Z")
_NO_EXTENT = (0, 0, 0)
# Agents are written as a number or as `Agent 4`, by the version.
_NUMBER = re.compile(r"(\d+)\s*$")


def gather(stream: Stream) -> tuple[Gathered, list[QualityNote]]:
    """The rows of a CSV file.

    Raises:
        FormatError: It is not valid CSV.
        CaptureError: The bytes cannot be read.
    """
    sheet, gathered = Sheet(stream), Gathered()
    launches: dict[str, int] = {}
    for columns in sheet.batches():
        if columns.keys() >= COUNTERS:
            _add_counters(gathered, columns, launches)
        else:
            _add_kernels(gathered, columns)
    notes = list(stream.notes)
    if sheet.bad_rows:
        notes.append(
            QualityNote(
                "unreadable_events",
                sheet.bad_rows,
                "rows with more or fewer fields than the first were dropped",
            )
        )
    return gathered, notes


def _add_kernels(gathered: Gathered, columns: dict[str, list[str]]) -> None:
    count = len(columns["Kernel_Name"])
    gathered.counts["kernel_dispatch"] += count
    nothing = [""] * count
    agents = [_agent(text) for text in columns["Agent_Id"]]
    gathered.frames.kernels(
        pa.table(
            {
                "start": whole(columns["Start_Timestamp"]),
                "end": whole(columns["End_Timestamp"]),
                "thread": whole(columns.get("Thread_Id", nothing)),
                "correlation": whole(columns.get("Correlation_Id", nothing)),
                "process": pa.array([0] * count, pa.int64()),
                "pid": whole(columns.get("Process_Id", nothing)),
            }
        ),
        names=columns["Kernel_Name"],
        device=agents,
        stream=whole(columns.get("Stream_Id", columns.get("Queue_Id", nothing))).to_pylist(),
        items=_triples(columns, "Grid_Size_"),
        group=_triples(columns, "Workgroup_Size_"),
    )


def _triples(columns: dict[str, list[str]], prefix: str) -> list[Triple]:
    names = [prefix + axis for axis in _AXES]
    count = len(columns["Kernel_Name"])
    table = pa.table({name: whole(columns.get(name, ["0"] * count)) for name in names})
    return list(zip(*(values(table, name).tolist() for name in names), strict=True))


def _add_counters(gathered: Gathered, columns: dict[str, list[str]], launches: dict[str, int]) -> None:
    """A row a counter of a dispatch; its extents are left unknown: only their products are written."""
    count = len(columns["Kernel_Name"])
    nothing = [""] * count
    wanted = ("Dispatch_Id", "Kernel_Name", "Agent_Id", "Process_Id", "Queue_Id")
    for *identity, metric, value in zip(
        *(columns.get(name, nothing) for name in wanted),
        columns["Counter_Name"],
        columns["Counter_Value"],
        strict=True,
    ):
        dispatch, name, agent, process, queue = identity
        key = f"{process}:{dispatch}"
        if key not in launches:
            launches[key] = gathered.launches.add(
                name=name,
                process=_agent(process),
                device=_agent(agent),
                stream=_agent(queue),
                items=_NO_EXTENT,
                group=_NO_EXTENT,
            )
        gathered.launches.measure(launches[key], metric, _real(value))


def _agent(text: str) -> int | None:
    found = _NUMBER.search(text)
    number = int(found[1][:19]) if found else None
    return number if number is not None and number < 1 << 62 else None


def _real(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
