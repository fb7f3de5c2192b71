"""The enumerations of the public contract; each value is its own word in tables and JSON."""

from enum import StrEnum


class Phase(StrEnum):
    """What an engine step does for the requests in it."""

    PREFILL = "prefill"
    DECODE = "decode"
    MIXED = "mixed"
    VERIFY = "verify"
    DRAFT = "draft"
    OTHER = "other"
    UNKNOWN = "unknown"


LLM_PHASES = (Phase.PREFILL, Phase.DECODE, Phase.MIXED, Phase.VERIFY, Phase.DRAFT)


UNFIT_STEP = ("partial", "empty", "no_kernels")
"""Flags of a step whose time says nothing of its like."""


class Kind(StrEnum):
    """What a row of the kernels table is."""

    KERNEL = "kernel"
    MEMCPY = "memcpy"
    MEMSET = "memset"
    CPU_OP = "cpu_op"


class Bottleneck(StrEnum):
    """What limits a kernel; being host-bound belongs to gaps and steps."""

    COMPUTE = "compute"
    DRAM = "dram"
    L2 = "l2"
    LATENCY = "latency"
    COMMUNICATION = "communication"
    COPY = "copy"
    UNKNOWN = "unknown"


class WorkSource(StrEnum):
    """Where a FLOP or byte count comes from."""

    SHAPE = "shape"
    ANNOTATION = "annotation"
    DONOR = "donor"
    CONFIG = "config"
    NAME = "name"


class HwStatus(StrEnum):
    """What is known of a kernel's hardware counters."""

    MEASURED = "measured"
    NOT_COLLECTED = "not_collected"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"


class GapCause(StrEnum):
    """Why a device was idle inside a step."""

    HOST = "host"
    SYNC = "sync"
    COMMUNICATION = "communication"
    DEPENDENCY = "dependency"
    PROFILER = "profiler"
    UNKNOWN = "unknown"


class Role(StrEnum):
    """What a capture contributes to a report of several."""

    TIMING = "timing"
    SHAPES = "shapes"
    DONOR = "donor"
    COUNTERS = "counters"
    RANK = "rank"
    SLICE = "slice"
