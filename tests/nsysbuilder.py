"""A builder of small Nsight Systems exports: SQLite files of each schema generation. Times are in nanoseconds."""

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PRIVATE = "hf_secret_token"
HOST, USER = "gpu-node-17", "alice"
H100 = {
    "id": 0,
    "name": "NVIDIA H100 80GB HBM3",
    "totalMemory": 85_000_000_000,
    "memoryBandwidth": 3_352_320_000_000,
    "l2CacheSize": 52_428_800,
    "smCount": 132,
    "computeMajor": 9,
    "computeMinor": 0,
}
PUSH_POP, START_END, MARK = 59, 60, 34
_TYPES = {"value": "TEXT", "text": "TEXT", "name": "TEXT", "nameText": "TEXT"}
# Columns that a generation has not; the table of versions was renamed and texts got suffixes later.
_MISSING = {
    "2.9": {"greenContextId", "graphId", "copyCount", "endGlobalTid"},
    "3.1": {"greenContextId", "graphId", "copyCount"},
    "3.7": {"graphId", "copyCount"},
    "3.25": set(),
}


def serialised(process: int, thread: int = 0) -> int:
    """A process and thread as nsys writes them: machine, process and thread in one number."""
    return (1 << 48) | (process << 24) | thread


@dataclass
class NsysBuilder:
    """Rows in the order in which they are added; `write` makes the file, with no table for what has no row."""

    schema: str = "3.25"
    gpus: list[dict[str, Any]] = field(default_factory=lambda: [H100])
    suffix: str = ""
    process: int = 100
    thread: int = 101
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _strings: dict[str, int] = field(default_factory=dict)

    def string(self, text: str) -> int:
        """The number of a text."""
        return self._strings.setdefault(text, len(self._strings) + 1)

    def row(self, table: str, **columns: Any) -> "NsysBuilder":
        """Any row of any table."""
        self.rows.setdefault(table, []).append(columns)
        return self

    def call(
        self, name: str, start: int, end: int, correlation: int, *, process: int = 0, thread: int = 0
    ) -> "NsysBuilder":
        """A CUDA runtime call."""
        return self.row(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=end,
            globalTid=serialised(process or self.process, thread or self.thread),
            correlationId=correlation,
            nameId=self.string(name),
        )

    def kernel(
        self, name: str, start: int, end: int, correlation: int, *, process: int = 0, **columns: Any
    ) -> "NsysBuilder":
        """A kernel."""
        row = {
            "deviceId": 0,
            "contextId": 1,
            "greenContextId": None,
            "streamId": 7,
            "demangledName": self.string(name),
            "shortName": self.string(name.partition("<")[0]),
            "mangledName": None,
            "registersPerThread": 32,
            "staticSharedMemory": 0,
            "dynamicSharedMemory": 0,
            "gridX": 8,
            "gridY": 2,
            "gridZ": 1,
            "blockX": 128,
            "blockY": 1,
            "blockZ": 1,
            "graphNodeId": None,
            "graphId": None,
        }
        return self.row(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            start=start,
            end=end,
            correlationId=correlation,
            globalPid=serialised(process or self.process),
            **(row | columns),
        )

    def launched(self, name: str, call: int, start: int, end: int, correlation: int) -> "NsysBuilder":
        """A kernel and the call that launched it, which takes 5 ns."""
        self.call("cudaLaunchKernel_v7000", call, call + 5, correlation)
        return self.kernel(name, start, end, correlation)

    def range(self, text: str | None, start: int, end: int | None, **columns: Any) -> "NsysBuilder":
        """An NVTX push/pop range with its text in the row."""
        row = {
            "eventType": PUSH_POP,
            "text": text,
            "textId": None,
            "rangeId": None,
            "domainId": 0,
            "globalTid": serialised(self.process, self.thread),
            "endGlobalTid": None,
        }
        return self.row("NVTX_EVENTS", start=start, end=end, **(row | columns))

    def write(self, path: Path) -> str:
        """Write the file, private metadata and all; its path."""
        connection = sqlite3.connect(path)
        for name, rows in self._tables().items():
            if rows:
                _write(connection, name, rows, _MISSING[self.schema])
        connection.commit()
        connection.close()
        return str(path)

    def _tables(self) -> dict[str, list[dict[str, Any]]]:
        exported = "EXPORT_META_DATA" if self.schema in {"2.9", "3.1"} else "META_DATA_EXPORT"
        tables = {
            "StringIds": [{"id": number, "value": text} for text, number in self._strings.items()],
            "TARGET_INFO_GPU": self.gpus,
            exported: [
                {"name": "EXPORT_SCHEMA_VERSION", "value": f"{self.schema}.0"},
                {"name": "EXPORT_PRODUCT_VERSION", "value": "2026.1.1.204"},
                {"name": "EXPORT_HOST", "value": HOST},
                {"name": "EXPORT_USER", "value": USER},
            ],
            "META_DATA_CAPTURE": [{"name": "PROCESS_ENVIRONMENT", "value": f"HF_TOKEN={PRIVATE}"}],
            "TARGET_INFO_SYSTEM_ENV": [{"name": "Hostname", "value": HOST}],
            "PROCESSES": [{"globalPid": serialised(self.process), "name": f"/home/{USER}/serve.py"}],
        }
        suffixed = {
            name + (self.suffix if name == "NVTX_EVENTS" else ""): rows for name, rows in self.rows.items()
        }
        return tables | suffixed


def _write(connection: sqlite3.Connection, name: str, rows: list[dict[str, Any]], missing: set[str]) -> None:
    columns = [column for column in rows[0] if column not in missing]
    declared = ", ".join(f'"{column}" {_TYPES.get(column, "INTEGER")}' for column in columns)
    connection.execute(f'CREATE TABLE "{name}" ({declared})')
    places = ", ".join("?" * len(columns))
    connection.executemany(
        f'INSERT INTO "{name}" VALUES ({places})',  # noqa: S608 - names are the builder's own
        [[row[column] for column in columns] for row in rows],
    )
