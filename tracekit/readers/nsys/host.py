"""Host calls of an export: CUDA runtime and driver calls, and the recorder's own overhead."""

import re

import pandas as pd
import pyarrow as pa

from tracekit.readers.arrow import Kept, in_order, names, nullable, values
from tracekit.readers.database import Database, read_columns
from tracekit.readers.nsys.processes import Processes
from tracekit.readers.nsys.schema import CALLS, OVERHEADS, find
from tracekit.readers.nsys.strings import Strings
from tracekit.tables import RUNTIME_CALLS

NO_NAME = "[call without a name in the export]"
# nsys writes the API version that introduced a call behind its name: cudaLaunchKernel_v7000.
_API_VERSION = re.compile(r"_v\d{3,6}$")
_COLUMNS = ("start", "end", "globalTid", "correlationId", "nameId")


def read_host(database: Database, strings: Strings, kept: Kept) -> list[pa.Table]:
    """Read the host's rows and ask for their texts.

    Raises:
        CaptureError: The file is damaged.
    """
    found = [
        kept.times(read_columns(database, find(database, name), _COLUMNS), "runtime calls")
        for name in (CALLS, *OVERHEADS)
    ]
    for table in found:
        strings.want(table, "nameId")
    return found


def runtime_calls(tables: list[pa.Table], strings: Strings, processes: Processes) -> pd.DataFrame:
    """RUNTIME_CALLS, in order of start; overhead has no correlation, so that no kernel is joined to it."""
    calls, *overheads = tables
    texts = {number: _API_VERSION.sub("", text) for number, text in strings.texts.items()}
    parts = [
        _rows(calls, texts, processes).assign(
            correlation=nullable(*processes.correlations(calls, "globalTid"))
        ),
        *(_rows(overhead, texts, processes) for overhead in overheads),
    ]
    return in_order(RUNTIME_CALLS, parts)


def _rows(table: pa.Table, texts: dict[int, str], processes: Processes) -> pd.DataFrame:
    start = values(table, "start")
    return pd.DataFrame(
        {
            "name": names(values(table, "nameId", -1), texts, NO_NAME),
            "ts_ns": start,
            "dur_ns": values(table, "end") - start,
            "thread": processes.thread_numbers(table),
        }
    )
