"""Device work of an export: kernels, copies, fills, and graph replays that were recorded whole."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from tracekit.readers.arrow import Ints, Kept, in_order, missing, names, nullable, small, triples, values
from tracekit.readers.database import Database, read_columns
from tracekit.readers.nsys.processes import Processes
from tracekit.readers.nsys.schema import COPIES, FILLS, GRAPHS, KERNELS, find
from tracekit.readers.nsys.strings import Strings
from tracekit.tables import DEVICE_EVENTS, Kind

WHOLE_GRAPH = "[CUDA graph, its kernels not recorded]"
NO_NAME = "[kernel without a name in the export]"
_COMMON = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_KERNEL = (
    "demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "graphNodeId",
)  # fmt: skip
# ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND, in the words that Kineto writes for them.
_COPY_KIND = (
    "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD",
)  # fmt: skip
_MEMORY_KIND = (
    "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown",
)  # fmt: skip
_KINDS = len(_MEMORY_KIND)


@dataclass(slots=True)
class DeviceTables:
    """The raw rows, read before the texts that they name."""

    kernels: pa.Table
    copies: pa.Table
    fills: pa.Table
    graphs: pa.Table

    def counts(self) -> dict[str, int]:
        """Rows by table."""
        tables = ((KERNELS, self.kernels), (COPIES, self.copies), (FILLS, self.fills), (GRAPHS, self.graphs))
        return {name: len(table) for name, table in tables if len(table)}


def read_device(database: Database, strings: Strings, kept: Kept) -> DeviceTables:
    """Read the device's rows and ask for their texts.

    Raises:
        CaptureError: The file is damaged.
    """

    def rows(name: str, *further: str) -> pa.Table:
        return kept.times(read_columns(database, find(database, name), (*_COMMON, *further)), "device events")

    found = DeviceTables(
        rows(KERNELS, *_KERNEL),
        rows(COPIES, "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId"),
        rows(FILLS, "bytes", "memKind", "graphNodeId"),
        rows(GRAPHS),
    )
    strings.want(found.kernels, "demangledName", "shortName")
    return found


def device_events(tables: DeviceTables, strings: Strings, processes: Processes) -> pd.DataFrame:
    """DEVICE_EVENTS, in order of start."""
    kernels, graphs = tables.kernels, tables.graphs
    parts = [
        _common(kernels, Kind.KERNEL, processes).assign(
            name=_kernel_names(kernels, strings),
            grid=triples(kernels, ("gridX", "gridY", "gridZ")),
            block=triples(kernels, ("blockX", "blockY", "blockZ")),
        ),
        _common(tables.copies, Kind.MEMCPY, processes).assign(name=_copy_names(tables.copies)),
        _common(tables.fills, Kind.MEMSET, processes).assign(name=_fill_names(tables.fills)),
        _common(graphs, Kind.KERNEL, processes).assign(name=pd.Categorical([WHOLE_GRAPH] * len(graphs))),
    ]
    return in_order(DEVICE_EVENTS, parts)


def _common(table: pa.Table, kind: Kind, processes: Processes) -> pd.DataFrame:
    start = values(table, "start")
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical([str(kind)] * len(table)),
            "ts_ns": start,
            "dur_ns": values(table, "end") - start,
            "device": small(processes.device_numbers(table), missing(table, "deviceId")),
            "stream": nullable(values(table, "streamId"), missing(table, "streamId")),
            "correlation": nullable(*processes.correlations(table, "globalPid")),
        }
    )
    for name, column in (("bytes", "bytes"), ("graph_node", "graphNodeId")):
        if column in table.column_names:
            null = missing(table, column) | (values(table, column) < 0)
            frame[name] = nullable(values(table, column), null)
    return frame


def _kernel_names(kernels: pa.Table, strings: Strings) -> pd.Categorical:
    """The name with its template arguments; else the short one."""
    whole, short = values(kernels, "demangledName", -1), values(kernels, "shortName", -1)
    known = np.isin(whole, np.array(list(strings.texts), np.int64))
    return names(np.where(known, whole, short), strings.texts, NO_NAME)


def _copy_names(copies: pa.Table) -> pd.Categorical:
    kind, source, target = (
        _within(copies, name, words)
        for name, words in (("copyKind", _COPY_KIND), ("srcKind", _MEMORY_KIND), ("dstKind", _MEMORY_KIND))
    )
    key = (kind * _KINDS + source) * _KINDS + target
    texts = {
        code: f"Memcpy {_COPY_KIND[code // _KINDS**2]} "
        f"({_MEMORY_KIND[code // _KINDS % _KINDS]} -> {_MEMORY_KIND[code % _KINDS]})"
        for code in np.unique(key).tolist()
    }
    return names(key, texts, "Memcpy")


def _fill_names(fills: pa.Table) -> pd.Categorical:
    texts = {code: f"Memset ({word})" for code, word in enumerate(_MEMORY_KIND)}
    return names(_within(fills, "memKind", _MEMORY_KIND), texts, "Memset")


def _within(table: pa.Table, name: str, words: tuple[str, ...]) -> Ints:
    """A column of codes; what is outside the enumeration becomes its word for unknown."""
    unknown = words.index("Unknown")
    codes = values(table, name, unknown)
    return np.where((codes >= 0) & (codes < len(words)), codes, unknown)
