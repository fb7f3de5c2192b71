"""What of an Nsight Systems export is read: tables, columns, versions. All else, the environment first, is not."""

import re

from tracekit.errors import CaptureError
from tracekit.readers.database import Database, read_columns

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
FILLS = "CUPTI_ACTIVITY_KIND_MEMSET"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
# Overhead of CUPTI, and of the recorder itself.
OVERHEADS = ("CUPTI_ACTIVITY_KIND_OVERHEAD", "PROFILER_OVERHEAD")
RANGES = "NVTX_EVENTS"
STRINGS = "StringIds"
GPUS = "TARGET_INFO_GPU"
CUDA_DEVICES = "TARGET_INFO_CUDA_DEVICE"
DIAGNOSTICS = "DIAGNOSTIC_EVENT"
_READ = (KERNELS, GRAPHS, COPIES, FILLS, CALLS, RANGES, OVERHEADS[0])
# The table of versions was renamed after schema 3.1; both hold host and user names beside them.
_VERSIONS = ("META_DATA_EXPORT", "EXPORT_META_DATA")
_WANTED = {"EXPORT_SCHEMA_VERSION": "nsys_schema", "EXPORT_PRODUCT_VERSION": "nsys"}
_VERSION = re.compile(r"\d[\d.]{0,30}")
_MARKS = (*_READ, *_VERSIONS, "ProcessStreams", GPUS)


def find(database: Database, name: str) -> str:
    """The table of a name as this file has it: later exporters put `_V2`, `_V3` … behind; the newest counts."""
    versions = {
        int(table[len(name) + 2 :] or 1): table
        for table in database.tables
        if re.fullmatch(re.escape(name) + r"(?:_V\d{1,3})?", table)
    }
    return versions[max(versions)] if versions else name


def is_nsys(database: Database) -> bool:
    """Whether a database is an export of Nsight Systems."""
    return any(find(database, name) in database.tables for name in _MARKS)


def check(database: Database) -> None:
    """Refuse an export that holds nothing to report.

    Raises:
        CaptureError: It has none of the tables that are read.
    """
    if any(find(database, name) in database.tables for name in _READ):
        return
    if "ProcessStreams" in database.tables:
        reason, hint = (
            "the export stopped half-way: no CUDA table in it",
            "an nsys older than the one that recorded cannot export its report: export with the newer one",
        )
    else:
        reason, hint = (
            "an Nsight Systems export without CUDA or NVTX tables",
            "record with: nsys profile --trace=cuda,nvtx --cuda-graph-trace=node",
        )
    raise CaptureError(database.label, reason, hint=hint, code="no_work")


def versions(database: Database) -> dict[str, str]:
    """The versions that the file names; nothing else of its metadata is looked at."""
    found = {}
    for name in _VERSIONS:
        rows = read_columns(database, find(database, name), texts=("name", "value"))
        for key, value in zip(rows["name"].to_pylist(), rows["value"].to_pylist(), strict=True):
            if key in _WANTED and value and _VERSION.fullmatch(value):
                found[_WANTED[key]] = value
    return found
