"""Nsight Systems exports: SQLite files (`nsys export --type sqlite`) and folders of Parquet files (`parquetdir`).

Schemas 2.9 to 3.25 are understood by the tables and columns that a file has, not by its version. A kernel finds its
launch by correlation id and process. NVTX ranges are annotations; those that PyTorch's `emit_nvtx` writes are ops.
Environment, host, user, command line and paths, which such a file holds in full, are never read.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from tracekit.errors import CaptureError
from tracekit.readers.arrow import Kept, values
from tracekit.readers.database import Database, open_parquet_folder, read_columns
from tracekit.readers.nsys import schema
from tracekit.readers.nsys.device import DeviceTables, device_events, read_device
from tracekit.readers.nsys.host import read_host, runtime_calls
from tracekit.readers.nsys.nvtx import read_nvtx, want_texts
from tracekit.readers.nsys.processes import Processes, device_numbers, gpus
from tracekit.readers.nsys.schema import is_nsys
from tracekit.readers.nsys.sheets import is_sheet, read_rows
from tracekit.readers.nsys.strings import Strings
from tracekit.readers.source import Stream
from tracekit.tables import OPS, RANGES, SIGNATURES, Capture, CaptureInfo, QualityNote

NAME = "nsys"
_RECORD_NODES = "record with: nsys profile --trace=cuda,nvtx --cuda-graph-trace=node"
# ENUM_DIAGNOSTIC_SEVERITY_LEVEL: 2 is a warning, 3 an error.
_WARNINGS = (2, 3)


def is_folder(path: str) -> bool:
    """Whether a folder is an export of type `parquetdir`."""
    folder = Path(path)
    return folder.is_dir() and any(
        file.stem == schema.STRINGS or file.stem.startswith(("CUPTI_ACTIVITY_", schema.RANGES))
        for file in folder.glob("*.parquet")
    )


def read_folder(path: str) -> list[Capture]:
    """Read a `parquetdir` export; errors as `read`."""
    return read(open_parquet_folder(path))


def read(database: Database) -> list[Capture]:
    """Read an export: one capture, however many processes and GPUs are in it.

    Raises:
        CaptureError: The file is damaged, or holds nothing to report.
    """
    schema.check(database)
    strings, kept = Strings(), Kept()
    processes = Processes(devices=device_numbers(database))
    device = read_device(database, strings, kept)
    host = read_host(database, strings, kept)
    want_texts(database, strings)
    strings.load(database)
    calls = runtime_calls(host, strings, processes)
    ranges = read_nvtx(database, strings, processes)
    events = device_events(device, strings, processes)
    counts = {
        **device.counts(),
        **{
            name: len(rows)
            for name, rows in zip((schema.CALLS, *schema.OVERHEADS), host, strict=True)
            if len(rows)
        },
        **({schema.RANGES: ranges.rows} if ranges.rows else {}),
    }
    versions = schema.versions(database)
    info = CaptureInfo(
        path=database.label,
        format=NAME,
        schema=versions.get("nsys_schema", ""),
        devices=gpus(database),
        options=frozenset({"record_shapes"} if ranges.signatures()["dims"].notna().any() else ()),
        versions=versions,
        event_counts=counts,
    )
    return [
        Capture(
            info=info,
            device_events=events,
            runtime_calls=calls,
            ops=ranges.ops(),
            signatures=ranges.signatures(),
            annotations=ranges.annotations(),
            frames=RANGES.empty(),
            threads=processes.labels(),
            quality=(
                *kept.notes(),
                *ranges.notes(),
                *_device_notes(device, events, calls),
                *_diagnostics(database),
                *_processes(processes),
            ),
        )
    ]


def read_sheet(stream: Stream) -> list[Capture]:
    """Read a CSV report of `nsys stats`: the trace of the GPU, or a summary of kernels.

    Raises:
        UnsupportedError: It is another report, or its times are not in nanoseconds.
        CaptureError: The bytes cannot be read, the file is damaged, or nothing is in it.
    """
    trace = read_rows(stream)
    if not trace.events:
        raise CaptureError(
            stream.label, "the report has no row", hint="nothing ran on the GPU; record again", code="no_work"
        )
    info = CaptureInfo(
        stream.label, NAME, "csv", devices=trace.listed(), event_counts={"gpu_trace": trace.rows}
    )
    return [
        Capture(
            info=info,
            device_events=trace.frame(),
            runtime_calls=trace.calls(),
            ops=OPS.empty(),
            signatures=SIGNATURES.empty(),
            annotations=trace.annotations(),
            frames=RANGES.empty(),
            threads=trace.threads(),
            quality=(*stream.notes, *trace.notes()),
        )
    ]


def _device_notes(device: DeviceTables, events: pd.DataFrame, calls: pd.DataFrame) -> list[QualityNote]:
    found = []
    if len(device.graphs):
        time = int((values(device.graphs, "end") - values(device.graphs, "start")).sum())
        found.append(
            QualityNote(
                "graph_opaque",
                len(device.graphs),
                f"replays of CUDA graphs were recorded whole, their kernels not: {_RECORD_NODES}",
                time,
            )
        )
    if events.empty:
        found.append(
            QualityNote(
                "no_kernels",
                len(calls),
                "no GPU work was exported: see the diagnostics of the report in nsys-ui, and record again with --trace=cuda,nvtx",
            )
        )
    return found


def _diagnostics(database: Database) -> list[QualityNote]:
    """How often the recorder warned; its texts hold paths and names, and stay where they are."""
    rows = read_columns(database, schema.find(database, schema.DIAGNOSTICS), ("severity",))
    count = int(np.isin(values(rows, "severity"), _WARNINGS).sum())
    if not count:
        return []
    return [
        QualityNote(
            "recorder_warnings",
            count,
            "warnings and errors of the recorder: look at them in nsys-ui, Diagnostics",
        )
    ]


def _processes(processes: Processes) -> list[QualityNote]:
    count = len(processes.codes.codes)
    if count <= 1:
        return []
    return [
        QualityNote(
            "several_processes",
            count,
            "processes are in this export; launches and kernels were joined within each",
        )
    ]


__all__ = ["NAME", "is_folder", "is_nsys", "is_sheet", "read", "read_folder", "read_sheet"]
