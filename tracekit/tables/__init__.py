"""The contract between stages: tables, their columns, and the words in them."""

from tracekit.tables.capture import (
    DEVICE_EVENTS,
    OPS,
    RANGES,
    RUNTIME_CALLS,
    SIGNATURES,
    Capture,
    CaptureInfo,
    DeviceProperties,
    QualityNote,
)
from tracekit.tables.counters import COUNTER_LAUNCHES, COUNTER_VALUES, Counters
from tracekit.tables.linked import LINKED, OP_TREE, Linked
from tracekit.tables.public import GAPS, KERNELS, PUBLIC, QUALITY, STEPS
from tracekit.tables.schema import Column, Table
from tracekit.tables.words import LLM_PHASES, Bottleneck, GapCause, HwStatus, Kind, Phase, Role, WorkSource

__all__ = [
    "COUNTER_LAUNCHES",
    "COUNTER_VALUES",
    "DEVICE_EVENTS",
    "GAPS",
    "KERNELS",
    "LINKED",
    "LLM_PHASES",
    "OPS",
    "OP_TREE",
    "PUBLIC",
    "QUALITY",
    "RANGES",
    "RUNTIME_CALLS",
    "SIGNATURES",
    "STEPS",
    "Bottleneck",
    "Capture",
    "CaptureInfo",
    "Column",
    "Counters",
    "DeviceProperties",
    "GapCause",
    "HwStatus",
    "Kind",
    "Linked",
    "Phase",
    "QualityNote",
    "Role",
    "Table",
    "WorkSource",
]
