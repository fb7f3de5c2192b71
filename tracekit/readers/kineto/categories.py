"""Kineto's event categories, across its eras, as the few kinds that tracekit tells apart.

Names compare case-insensitively: the 1.8-1.11 writer capitalised them (`Kernel`, `Operator` …).
"""

from enum import Enum, auto


class Bucket(Enum):
    """What becomes of an event."""

    KERNEL = auto()
    MEMCPY = auto()
    MEMSET = auto()
    RUNTIME = auto()
    OP = auto()
    ANNOTATION = auto()
    FRAME = auto()
    COUNTER_RANGE = auto()
    IGNORED = auto()


_BUCKETS = {
    Bucket.KERNEL: ("kernel", "concurrent_kernel"),
    Bucket.MEMCPY: ("gpu_memcpy", "memcpy"),
    Bucket.MEMSET: ("gpu_memset", "memset"),
    Bucket.RUNTIME: (
        "cuda_runtime",
        "overhead",
        "cuda_driver",
        "runtime",
        "hip_runtime",
        "xpu_runtime",
        "xpu_driver",
        "mtia_runtime",
        "glow_runtime",
        "privateuse1_runtime",
        "privateuse1_driver",
    ),
    Bucket.OP: ("cpu_op", "operator"),
    Bucket.ANNOTATION: ("user_annotation",),
    Bucket.FRAME: ("python_function",),
    Bucket.COUNTER_RANGE: ("cuda_profiler_range",),
    # Known, and nothing that a kernel's time, phase or work depends on.
    Bucket.IGNORED: (
        "ac2g",
        "async",
        "async_cpu_to_gpu",
        "async_gpu",
        "cpu_instant_event",
        "cuda_event",
        "cuda_sync",
        "external_correlation",
        "fwdbwd",
        "gpu_user_annotation",
        "trace",
    ),
}
BY_CATEGORY = {name: bucket for bucket, names in _BUCKETS.items() for name in names}
# Device work of other accelerators: counted, timed and named like kernels; no model knows them.
OTHER_DEVICE_CATEGORIES = frozenset({"mtia_ccp_events", "hpu_op"})
DEVICE_BUCKETS = (Bucket.KERNEL, Bucket.MEMCPY, Bucket.MEMSET)


def bucket_of(category: str) -> Bucket | None:
    """The bucket of a category, or None where it is unknown."""
    name = category.lower()
    if name in OTHER_DEVICE_CATEGORIES:
        return Bucket.KERNEL
    return BY_CATEGORY.get(name)
