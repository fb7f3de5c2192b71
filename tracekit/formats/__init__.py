"""The capture folder: its file names, its manifest, its measured ceilings, and the text of a step annotation.

Standard library only: the collectors import this inside an engine's own environment. Host names, user names
and paths of the machine are never part of any of these files.
"""

from tracekit.formats.asked import (
    ATTENTION,
    BACKENDS,
    DTYPES,
    KV_DTYPES,
    PHASES,
    CollectRequest,
    EngineRequest,
    Progress,
    RequestSums,
    step_annotation,
)
from tracekit.formats.document import SCHEMA_VERSION, read_json, write_json
from tracekit.formats.folder import (
    CEILINGS,
    COUNTERS_CSV,
    COUNTERS_REPORT,
    DONOR_TRACE,
    ENGINE,
    INDEX,
    RUN,
    SHAPES_TRACE,
    TIMING_TRACE,
    FileRecord,
    MeasuredCeilings,
    Rate,
    RunManifest,
    Workload,
)

__all__ = [
    "ATTENTION",
    "BACKENDS",
    "CEILINGS",
    "COUNTERS_CSV",
    "COUNTERS_REPORT",
    "DONOR_TRACE",
    "DTYPES",
    "ENGINE",
    "INDEX",
    "KV_DTYPES",
    "PHASES",
    "RUN",
    "SCHEMA_VERSION",
    "SHAPES_TRACE",
    "TIMING_TRACE",
    "CollectRequest",
    "EngineRequest",
    "FileRecord",
    "MeasuredCeilings",
    "Progress",
    "Rate",
    "RequestSums",
    "RunManifest",
    "Workload",
    "read_json",
    "step_annotation",
    "write_json",
]
