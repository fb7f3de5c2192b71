"""What a reader hands on: the tables of one capture, in no file format's terms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracekit.errors import TableError
from tracekit.tables.codes import CODES
from tracekit.tables.counters import Counters
from tracekit.tables.schema import Column, Table
from tracekit.tables.words import Kind, WorkSource

if TYPE_CHECKING:
    import pandas as pd

_NAME = Column("name", "string", "Name, verbatim.")
_TS = Column("ts_ns", "int64", "Start.", "ns")
_DUR = Column("dur_ns", "int64", "Duration.", "ns", minimum=0)
_THREAD = Column("thread", "int32", "Host thread, an index into Capture.threads.")

DEVICE_EVENTS = Table(
    "device_events",
    (
        Column("kind", "string", "Kernel, copy or fill.", words=Kind),
        _NAME,
        _TS,
        _DUR,
        Column("device", "int32", "Index of the device.", null=True),
        Column("stream", "int64", "Stream.", null=True),
        Column("correlation", "int64", "Correlation id of the launch.", null=True),
        Column("grid", "string", "Grid, x,y,z.", null=True),
        Column("block", "string", "Block, x,y,z.", null=True),
        Column("bytes", "int64", "Bytes of a copy or fill.", "byte", null=True),
        Column("graph_node", "int64", "Node of the replayed graph, where the trace says.", null=True),
    ),
)
RUNTIME_CALLS = Table(
    "runtime_calls",
    (
        _NAME,
        _TS,
        _DUR,
        _THREAD,
        Column("correlation", "int64", "Correlation id.", null=True),
        Column("grid", "string", "Grid, x,y,z, where the recorder put it on the launch.", null=True),
        Column("block", "string", "Block, x,y,z, where the recorder put it on the launch.", null=True),
    ),
)
OPS = Table(
    "ops",
    (
        _NAME,
        _TS,
        _DUR,
        _THREAD,
        Column("signature", "int32", "Row of Capture.signatures."),
        Column(
            "dims_source",
            "string",
            "Whence the signature, where it is another capture's.",
            null=True,
            words=WorkSource,
        ),
    ),
)
SIGNATURES = Table(
    "signatures",
    (
        Column("op", "string", "Name of the op."),
        Column("dims", "string", "Input dims, JSON text as recorded.", null=True),
        Column("types", "string", "Input types, JSON text.", null=True),
        Column("strides", "string", "Input strides, JSON text.", null=True),
        Column("concrete", "string", "Concrete inputs, JSON text.", null=True),
    ),
)
RANGES = Table("ranges", (_NAME, _TS, _DUR, _THREAD))


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """One device as the capture describes it; None is unknown.

    Attributes:
        index: Its number in the capture.
        name: As the driver names it.
        compute_major: Compute capability, or gfx target.
        compute_minor: Its second part.
        sm_count: Streaming multiprocessors, or compute units.
        memory_bytes: Size of its memory.
        memory_bytes_per_s: Peak bandwidth of its memory, from clock and bus width [byte/s].
        l2_bytes: Size of its L2.
    """

    index: int
    name: str | None = None
    compute_major: int | None = None
    compute_minor: int | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None
    memory_bytes_per_s: int | None = None
    l2_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class QualityNote:
    """A thing repaired, dropped or missing: becomes a row of the quality table.

    Raises:
        TableError: The code is not declared in `tracekit.tables.codes`.
    """

    code: str
    count: int
    message: str
    time_ns: int | None = None

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise TableError("quality", "code", f"{self.code!r} is not declared in tracekit/tables/codes.py")


@dataclass(frozen=True, slots=True)
class CaptureInfo:
    """What a capture says of itself.

    Attributes:
        path: As given by the user.
        format: `kineto`, `nsys`, `rocprof` …
        schema: The era or schema version of the format.
        devices: Every device listed, used or not.
        rank: Rank of the process, where known.
        world_size: Processes in the job, where known.
        options: Recorder options that were on (record_shapes, with_stack, profile_memory …).
        versions: Versions that the capture names (cuda_runtime, hip_runtime, vllm …).
        event_counts: Events by category, unknown categories included.
    """

    path: str
    format: str
    schema: str = ""
    devices: tuple[DeviceProperties, ...] = ()
    rank: int | None = None
    world_size: int | None = None
    options: frozenset[str] = frozenset()
    versions: dict[str, str] = field(default_factory=dict)
    event_counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Capture:
    """One capture as tables; every frame keeps the contract of its `Table`.

    Attributes:
        info: What the capture says of itself.
        device_events: DEVICE_EVENTS, in order of start.
        runtime_calls: RUNTIME_CALLS: launches, synchronisation, copies on the host.
        ops: OPS: framework ops on host threads.
        signatures: SIGNATURES: the distinct recorded signatures of ops.
        annotations: RANGES: host annotations (`record_function`, NVTX push/pop).
        frames: RANGES: Python frames that a rule asks for; the rest are counted, not kept.
        threads: (process, thread) text labels by thread index.
        quality: What was repaired, dropped or missing.
        counters: Hardware counters, where the capture holds some.
    """

    info: CaptureInfo
    device_events: pd.DataFrame
    runtime_calls: pd.DataFrame
    ops: pd.DataFrame
    signatures: pd.DataFrame
    annotations: pd.DataFrame
    frames: pd.DataFrame
    threads: tuple[tuple[str, str], ...] = ()
    quality: tuple[QualityNote, ...] = ()
    counters: Counters | None = None
