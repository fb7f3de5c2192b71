"""Records of rocprofv3 JSON: only the fields that are used; the command line and the machine's names are none of them."""

from typing import Any

import msgspec

DAMAGE = (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeDecodeError, ValueError)


class Handle(msgspec.Struct, gc=False, frozen=True):
    """A number behind a name."""

    handle: int = 0


class Triple(msgspec.Struct, gc=False, frozen=True):
    """Extents in three directions."""

    x: int = 1
    y: int = 1
    z: int = 1


class Bank(msgspec.Struct, gc=False, frozen=True):
    """A bank of an agent's memory."""

    heap_type: int = 0
    size_in_bytes: int = 0


class Agent(msgspec.Struct, frozen=True):
    """A CPU or GPU."""

    id: Handle
    type: int = 0
    name: str = ""
    product_name: str = ""
    gfx_target_version: int = 0
    cu_count: int = 0
    logical_node_type_id: int | None = None
    mem_banks: list[Bank] = []


class Named(msgspec.Struct, frozen=True):
    """A counter, or the names of a kind of record and of its operations."""

    id: Handle | None = None
    name: str = ""
    kind: str = ""
    operations: list[str] = []


class Symbol(msgspec.Struct, frozen=True):
    """A kernel by its number."""

    kernel_id: int
    kernel_name: str = ""
    formatted_kernel_name: str | int = ""
    demangled_kernel_name: str | int = ""


class Correlation(msgspec.Struct, gc=False, frozen=True):
    """What joins a dispatch to the call that made it."""

    internal: int = 0


class Dispatch(msgspec.Struct, gc=False, frozen=True):
    """What was dispatched, and where."""

    agent_id: Handle
    queue_id: Handle
    kernel_id: int
    dispatch_id: int = 0
    workgroup_size: Triple = Triple()
    grid_size: Triple = Triple()


class Record(msgspec.Struct, gc=False, frozen=True):
    """A timed record of any kind, or (`key`, `value`) the text of a marker."""

    kind: int = 0
    operation: int = 0
    thread_id: int = 0
    correlation_id: Correlation = Correlation()
    start_timestamp: int = -1
    end_timestamp: int = -1
    dispatch_info: Dispatch | None = None
    stream_id: Handle | None = None
    dst_agent_id: Handle | None = None
    src_agent_id: Handle | None = None
    bytes: int | None = None
    key: int | None = None
    value: Any = None


class CounterValue(msgspec.Struct, gc=False, frozen=True):
    """One counter of one dispatch, of one instance of its block."""

    counter_id: Handle
    value: float = 0.0


class Measured(msgspec.Struct, gc=False, frozen=True):
    """The counters of a dispatch."""

    dispatch_data: Record
    records: list[CounterValue] = []


DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "agents": msgspec.json.Decoder(list[Agent]),
    "counters": msgspec.json.Decoder(list[Named]),
    # The names of kinds and operations; the records themselves stand in an object of this name.
    "buffer_records": msgspec.json.Decoder(list[Named]),
    "kernel_symbols": msgspec.json.Decoder(list[Symbol]),
    "counter_collection": msgspec.json.Decoder(list[Measured]),
    "kernel_dispatch": msgspec.json.Decoder(list[Record]),
    "hip_api": msgspec.json.Decoder(list[Record]),
    "memory_copy": msgspec.json.Decoder(list[Record]),
    "marker_api": msgspec.json.Decoder(list[Record]),
}
