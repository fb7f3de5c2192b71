"""A builder of small rocprofv3 captures, as JSON and as rocpd SQLite of schema 3 and 4. Times are in nanoseconds."""

import json
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOST, PRIVATE = "mi-node-3", "ROCM_TOKEN=hunter2"
GPU = {
    "size": 312,
    "id": {"handle": 900},
    "type": 2,
    "name": "gfx942",
    "product_name": "AMD Instinct MI300X",
    "gfx_target_version": 90402,
    "cu_count": 304,
    "logical_node_type_id": 0,
    "mem_banks": [{"heap_type": 1, "size_in_bytes": 206_000_000_000}],
    "caches": [{"size": 4096, "level": 2}, {"size": 16, "level": 1}],
}
CPU = {
    "size": 312,
    "id": {"handle": 899},
    "type": 1,
    "name": "EPYC",
    "cu_count": 64,
    "logical_node_type_id": 0,
}
# Kinds of record and their operations, by number.
KINDS = [
    {"kind": "NONE", "operations": []},
    {"kind": "KERNEL_DISPATCH", "operations": ["NONE", "ENQUEUE", "COMPLETE"]},
    {
        "kind": "HIP_RUNTIME_API_EXT",
        "operations": ["hipLaunchKernel", "hipGraphLaunch", "hipDeviceSynchronize"],
    },
    {"kind": "MARKER_CORE_RANGE_API", "operations": ["roctxMarkA", "roctxThreadRangeA"]},
    {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
]
DISPATCH, HIP, MARKER, COPY = 1, 2, 3, 4
PID, TID = 500, 501


def timed(kind: int, operation: int, start: int, end: int, correlation: int, **more: Any) -> dict[str, Any]:
    """A timed record of any kind."""
    return {
        "size": 64,
        "kind": kind,
        "operation": operation,
        "thread_id": TID,
        "correlation_id": {"internal": correlation, "external": 0},
        "start_timestamp": start,
        "end_timestamp": end,
    } | more


@dataclass
class RocprofBuilder:
    """Records in the order in which they are added."""

    agents: list[dict[str, Any]] = field(default_factory=lambda: [CPU, GPU])
    symbols: list[str] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    measured: list[dict[str, Any]] = field(default_factory=list)
    records: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {
            "kernel_dispatch": [],
            "hip_api": [],
            "hsa_api": [],
            "marker_api": [],
            "memory_copy": [],
        }
    )

    def _symbol(self, name: str) -> int:
        if name not in self.symbols:
            self.symbols.append(name)
        return self.symbols.index(name) + 1

    def _dispatch(
        self, name: str, items: tuple[int, int, int], group: tuple[int, int, int]
    ) -> dict[str, Any]:
        return {
            "size": 72,
            "agent_id": {"handle": 900},
            "queue_id": {"handle": 3},
            "kernel_id": self._symbol(name),
            "dispatch_id": len(self.records["kernel_dispatch"]) + len(self.measured) + 1,
            "workgroup_size": dict(zip("xyz", group, strict=True)),
            "grid_size": dict(zip("xyz", items, strict=True)),
        }

    def kernel(
        self,
        name: str,
        start: int,
        end: int,
        correlation: int,
        *,
        items: tuple[int, int, int] = (1000, 2, 1),
        group: tuple[int, int, int] = (256, 1, 1),
    ) -> "RocprofBuilder":
        """A dispatch of so many work items in groups of so many."""
        record = timed(DISPATCH, 2, start, end, correlation, stream_id={"handle": 6})
        self.records["kernel_dispatch"].append(record | {"dispatch_info": self._dispatch(name, items, group)})
        return self

    def call(self, operation: int, start: int, end: int, correlation: int) -> "RocprofBuilder":
        """A HIP call, by its place in KINDS."""
        self.records["hip_api"].append(timed(HIP, operation, start, end, correlation))
        return self

    def range(
        self, text: str, start: int, end: int, correlation: int, operation: int = 1
    ) -> "RocprofBuilder":
        """A roctx range."""
        if text:
            self.messages.append({"key": correlation, "value": text})
        self.records["marker_api"].append(timed(MARKER, operation, start, end, correlation))
        return self

    def copy(self, start: int, end: int, size: int, correlation: int) -> "RocprofBuilder":
        """A copy from the host."""
        ends = {"dst_agent_id": {"handle": 900}, "src_agent_id": {"handle": 899}, "bytes": size}
        self.records["memory_copy"].append(timed(COPY, 1, start, end, correlation, **ends))
        return self

    def count(self, name: str, **values: list[float]) -> "RocprofBuilder":
        """A dispatch whose counters were read, an entry for each instance of a counter's block."""
        for counter in values:
            if counter not in self.counters:
                self.counters.append(counter)
        cells = [
            {"counter_id": {"handle": 7000 + self.counters.index(counter)}, "value": value}
            for counter, instances in values.items()
            for value in instances
        ]
        data = timed(DISPATCH, 2, 10, 20, len(self.measured) + 1)
        data["dispatch_info"] = self._dispatch(name, (512, 1, 1), (256, 1, 1))
        self.measured.append({"thread_id": TID, "dispatch_data": data, "records": cells})
        return self

    def process(self, pid: int = PID) -> dict[str, Any]:
        """What one process writes, private fields and all."""
        return {
            "metadata": {
                "node": {"hostname": HOST, "pid_max": 1},
                "pid": pid,
                "command": ["python3", PRIVATE],
                "config": {"output_path": f"/home/{HOST}"},
            },
            "agents": self.agents,
            "counters": [{"id": {"handle": 7000 + n}, "name": name} for n, name in enumerate(self.counters)],
            "strings": {
                "callback_records": [],
                "buffer_records": KINDS,
                "marker_api": self.messages,
                "counters": {"dimension_ids": []},
            },
            "code_objects": [{"size": 1, "uri": f"file:///home/{HOST}/k.so"}],
            "kernel_symbols": [
                {"size": 88, "kernel_id": n + 1, "kernel_name": f"{name}.kd", "formatted_kernel_name": name}
                for n, name in enumerate(self.symbols)
            ],
            "host_functions": [],
            "callback_records": {"counter_collection": self.measured},
            "buffer_records": self.records,
        }

    def text(self, *others: "RocprofBuilder", indent: int | None = None) -> bytes:
        """The JSON, with further processes behind."""
        processes = [part.process(PID + number) for number, part in enumerate((self, *others))]
        return json.dumps({"rocprofiler-sdk-tool": processes}, indent=indent).encode()

    def write_rocpd(self, path: Path, schema: int = 3) -> str:
        """The same as a rocpd database; its path."""
        connection = sqlite3.connect(path)
        for name, rows in self._tables(schema).items():
            if rows:
                columns = list(rows[0])
                declared = ", ".join(f'"{column}"' for column in columns)
                connection.execute(f'CREATE TABLE "rocpd_{name}_0001" ({declared})')
                places = ", ".join("?" * len(columns))
                connection.executemany(
                    f'INSERT INTO "rocpd_{name}_0001" VALUES ({places})',  # noqa: S608 - the builder's own names
                    [list(row.values()) for row in rows],
                )
        connection.commit()
        connection.close()
        return str(path)

    def _tables(self, schema: int) -> dict[str, list[dict[str, Any]]]:
        texts = [kind["kind"] for kind in KINDS]
        texts += [operation for kind in KINDS for operation in kind["operations"]]
        number = {text: place + 1 for place, text in enumerate(texts)}
        tables: dict[str, list[dict[str, Any]]] = {
            "string": [{"id": place, "string": text} for text, place in number.items()],
            "info_process": [{"id": PID, "pid": PID, "command": PRIVATE, "environment": PRIVATE}],
            "info_node": [{"id": 1, "hostname": HOST}],
            "info_agent": [
                {
                    "id": agent["id"]["handle"],
                    "type": "GPU" if agent["type"] == 2 else "CPU",
                    "type_index": agent["logical_node_type_id"],
                    "name": agent["name"],
                    "product_name": agent.get("product_name", ""),
                    "extdata": json.dumps(agent),
                }
                for agent in self.agents
            ],
            "info_kernel_symbol": [
                {"id": n + 1, "display_name": name, "kernel_name": f"{name}.kd"}
                for n, name in enumerate(self.symbols)
            ],
            "info_pmc": [
                {"id": 7000 + n, "symbol": name, "name": name} for n, name in enumerate(self.counters)
            ],
            "event": [],
            "kernel_dispatch": [],
            "memory_copy": [],
            "region": [],
            "pmc_event": [],
            "timestamp": [],
            "track": [],
        }
        messages = {row["key"]: row["value"] for row in self.messages}
        for array, record in self._timed():
            event = len(tables["event"]) + 1
            kind = KINDS[record["kind"]]
            correlation = record["correlation_id"]["internal"]
            text = messages.get(correlation) if record["kind"] == MARKER else None
            tables["event"].append(
                {
                    "id": event,
                    "stack_id": correlation,
                    "category_id": number[kind["kind"]],
                    "extdata": json.dumps({"message": text} if text else {}),
                }
            )
            row = _placed(tables, schema, record) | {"event_id": event}
            name_id = number[kind["operations"][record["operation"]]]
            if array == "kernel_dispatch":
                info = record["dispatch_info"]
                row |= {"kernel_id": info["kernel_id"]}
                row |= {f"grid_size_{axis}": info["grid_size"][axis] for axis in "xyz"}
                row |= {f"workgroup_size_{axis}": info["workgroup_size"][axis] for axis in "xyz"}
                tables["pmc_event"] += [
                    {"event_id": event, "pmc_id": cell["counter_id"]["handle"], "value": cell["value"]}
                    for cell in record.get("records", [])
                ]
            elif array == "memory_copy":
                row |= {"name_id": name_id, "size": record["bytes"], "dst_agent_id": 900, "src_agent_id": 899}
            else:
                row |= {"name_id": name_id}
            tables["region" if array in {"hip_api", "marker_api"} else array].append(row)
        return tables

    def _timed(self) -> list[tuple[str, dict[str, Any]]]:
        counted = [
            ("kernel_dispatch", row["dispatch_data"] | {"records": row["records"]}) for row in self.measured
        ]
        return [*counted, *((array, record) for array, rows in self.records.items() for record in rows)]


def _placed(tables: dict[str, list[dict[str, Any]]], schema: int, record: dict[str, Any]) -> dict[str, Any]:
    """Times and places of a row: in it (schema 3), or in tables that it names (schema 4)."""
    stream = record.get("stream_id", {"handle": None})["handle"]
    places = {"pid": PID, "tid": TID, "agent_id": 900, "queue_id": 3, "stream_id": stream}
    start, end = record["start_timestamp"], record["end_timestamp"]
    if schema == 3:
        return {"start": start, "end": end, **places}
    count = len(tables["timestamp"])
    tables["timestamp"] += [{"id": count + 1, "value": start}, {"id": count + 2, "value": end}]
    tables["track"].append({"id": len(tables["track"]) + 1, **places})
    return {"track_id": len(tables["track"]), "start_id": count + 1, "end_id": count + 2}
