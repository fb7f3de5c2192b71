"""The summary of a report, as `report --json` and summary.json give it: declared once, with units and meanings.

The JSON schema and the reference page are generated from these declarations.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

SCHEMA_VERSION = 1

Share = Annotated[float | None, Meta(description="A share, 0 to 1; null where unknown.")]
Shares = Annotated[
    dict[str, float], Meta(description="Shares of the time by word; they sum to 1 where there is time.")
]
Nanoseconds = Annotated[int, Meta(description="Time [ns].")]
Flops = Annotated[
    float | None, Meta(description="Useful operations by the model [FLOP]; a multiply-add is two.")
]
Bytes = Annotated[float | None, Meta(description="Minimum traffic by the model, a lower bound [byte].")]
MeasuredBytes = Annotated[
    float | None, Meta(description="Traffic measured by hardware counters [byte]; null without.")
]
FlopRate = Annotated[
    float | None, Meta(description="Useful operations over time of the kernels whose work is known [FLOP/s].")
]
ByteRate = Annotated[
    float | None,
    Meta(description="Measured bytes where there are any, else modelled ones, over the same time [byte/s]."),
]
Intensity = Annotated[float | None, Meta(description="flops over modelled dram_bytes [FLOP/byte].")]
Text = Annotated[str, Meta(description="Text for a reader.")]


class DeviceUsed(Struct, frozen=True):
    """The device, as the capture names it, and the row of the device table it was matched to."""

    name: str | None = None
    matched: str | None = None
    match: str | None = None


class RoofRow(Struct, frozen=True):
    """One ceiling: FLOP/s for a dtype or `vector`, byte/s for `dram`."""

    measured: float | None
    spec: float | None
    source: str
    status: Annotated[
        str,
        Meta(
            description="Trust in the spec: checked, single, conflict, unverified; or measured, given, reported by the capture."
        ),
    ]
    in_force: Annotated[bool, Meta(description="Whether a kernel of this report was held against it.")]


class CaptureUsed(Struct, frozen=True):
    """A capture and what it contributed."""

    path: str
    role: Annotated[str, Meta(description="timing, shapes, donor, counters, rank or slice.")]
    evidence: Text


class CountersRow(Struct, frozen=True):
    """What hardware counters say of a phase, beside what the model says is the least."""

    time_share: Annotated[float, Meta(description="Share of time_ns whose kernels have counters.")]
    least_bytes: Annotated[
        float | None,
        Meta(description="Modelled minimum of the kernels whose bytes were measured too [byte]."),
    ]
    moved_bytes: Annotated[float | None, Meta(description="Measured DRAM bytes of the same kernels [byte].")]
    dram_over_least: Annotated[
        float | None,
        Meta(
            description="moved_bytes over least_bytes: above 1, operands are read again; below, caches held some."
        ),
    ]
    flops_over_model: Annotated[
        float | None,
        Meta(
            description="Counted over modelled operations of the kernels that have both: above 1, tiles were padded or work was done that is not useful."
        ),
    ]
    l2_hit: Annotated[float | None, Meta(description="Share of L2 sectors found there, mean by L2 traffic.")]
    status: Annotated[
        dict[str, float],
        Meta(description="Shares of time_ns by hw_status: measured, not_collected, unsupported, failed."),
    ]
    joined: Annotated[
        dict[str, float],
        Meta(
            description="How counters found their kernels: shares of the joined time by range, place, stream, mean, in order of trust."
        ),
    ]


class RoofShares(Struct, frozen=True):
    """Shares of the roofs of one kind; null where one that applies is not known."""

    compute: Annotated[Share, Meta(description="Time at the compute roofs over time of known work.")]
    dram: Annotated[Share, Meta(description="dram_bytes_per_s over the DRAM roof.")]
    mfu: Annotated[Share, Meta(description="As `mfu`, of these roofs.")]
    mbu: Annotated[Share, Meta(description="As `mbu`, of this DRAM roof.")]


class ProfilerRow(Struct, frozen=True):
    """Steps under the profiler and without it, where the time without was given."""

    profiled_ns: Annotated[
        float, Meta(description="Median step under the profiler, from its start to that of the next [ns].")
    ]
    unprofiled_ns: Annotated[float, Meta(description="The given time of a step without it: TPOT, TTFT [ns].")]
    host_ns: Annotated[float, Meta(description="Time of a step in which the device waits for the host [ns].")]
    profiler_ns: Annotated[
        float,
        Meta(
            description="The profiler's part of host_ns: profiled_ns less unprofiled_ns, 0 to host_ns [ns]."
        ),
    ]
    host_share: Annotated[Share, Meta(description="profiler_ns over host_ns.")]


class LaunchRow(Struct, frozen=True):
    """Launches of a phase that were recorded; a graph replay is one."""

    n: int
    delay_ns: Annotated[
        float, Meta(description="Median from the end of the call to the start of its first kernel [ns].")
    ]
    delay_p95_ns: Annotated[float, Meta(description="Its 95th percentile [ns].")]
    call_ns: Annotated[float | None, Meta(description="Median length of the call [ns].")]
    queued: Annotated[
        float,
        Meta(description="Share of launches that waited in a queue; near 0 the host is behind the device."),
    ]
    deepest: Annotated[int, Meta(description="Most launches issued and not yet started at once.")]


class PhaseRow(Struct, frozen=True):
    """One phase: its time, rates against the roofs, and what bounds it."""

    phase: str
    time_ns: Annotated[int, Meta(description="Exclusive kernel time: an overlap is assigned once [ns].")]
    wall_ns: Annotated[
        int, Meta(description="Sum of the step windows, or the span of the kernels without steps [ns].")
    ]
    wall_from: Annotated[Literal["steps", "span"], Meta(description="Which of the two wall_ns is.")]
    share: Annotated[float, Meta(description="Share of all exclusive time.")]
    n_steps: int
    n_kernels: int
    work_known: Annotated[
        float, Meta(description="Share of time_ns whose kernels have known FLOPs and bytes.")
    ]
    flops: Flops
    dram_bytes: Bytes
    dram_bytes_hw: MeasuredBytes
    flops_per_s: FlopRate
    dram_bytes_per_s: ByteRate
    arithmetic_intensity: Intensity
    compute_roof_share: Annotated[
        float | None,
        Meta(description="Time at the compute roofs over time of known work: % of the compute ceiling."),
    ]
    dram_roof_share: Annotated[float | None, Meta(description="dram_bytes_per_s over the DRAM ceiling.")]
    mfu: Annotated[
        float | None,
        Meta(
            description="Sum over dtypes of flops over peak, over wall_ns; a lower bound where work is unknown."
        ),
    ]
    mbu: Annotated[float | None, Meta(description="Weight and KV bytes over (wall_ns times DRAM ceiling).")]
    weight_bytes: Bytes
    kv_bytes: Bytes
    tokens: Annotated[int | None, Meta(description="Query tokens of its steps.")]
    tokens_per_s: Annotated[
        float | None, Meta(description="tokens over wall_ns of the steps that say theirs [token/s].")
    ]
    idle_ns: Annotated[dict[str, int], Meta(description="Idle time inside its steps, by cause [ns].")]
    bottlenecks: Shares
    bottleneck_confidence: Annotated[
        dict[str, float], Meta(description="Mean confidence of each bottleneck, weighted by time, 0 to 1.")
    ]
    evidence: Annotated[
        dict[str, float], Meta(description="How the phase is known: shares of time_ns by kind.")
    ]
    work_sources: Annotated[
        dict[str, float], Meta(description="Where FLOPs come from: shares of time_ns; `none` where unknown.")
    ]
    apportioned: Annotated[
        dict[str, float],
        Meta(
            description="Of a mixed phase, the shares of time of its prefill and decode parts, by tokens and, for attention, by query times key lengths: apportioned, not measured. Empty for other phases."
        ),
    ] = {}
    of_measured: Annotated[
        RoofShares | None, Meta(description="Shares of the measured roofs; null where none was measured.")
    ] = None
    of_spec: Annotated[
        RoofShares | None, Meta(description="Shares of the data sheet's roofs; null where there is none.")
    ] = None
    launches: Annotated[
        LaunchRow | None,
        Meta(description="How far the host runs ahead; null without launch records."),
    ] = None
    profiler: Annotated[
        ProfilerRow | None,
        Meta(description="What the profiler costs a step; null without a time without it."),
    ] = None
    counters: Annotated[CountersRow | None, Meta(description="What hardware counters say; null without.")] = (
        None
    )


class FamilyRow(Struct, frozen=True):
    """One kernel family in one phase."""

    family: str
    phase: str
    time_ns: Nanoseconds
    share: Annotated[float, Meta(description="Share of all exclusive time.")]
    count: int
    flops: Flops
    dram_bytes: Bytes
    bottlenecks: Shares


class Coverage(Struct, frozen=True):
    """Shares of exclusive time that each stage could say something about."""

    linked: Share
    phase_known: Share
    work_known: Share
    classified: Share


class FindingRow(Struct, frozen=True):
    """One thing that could be won, most recoverable time first."""

    title: str
    phase: str
    kernels: list[str]
    recoverable_ns: Annotated[float, Meta(description="Time that the steps could lose at most [ns].")]
    confidence: float
    evidence: Text
    next_step: Text


class QualityRow(Struct, frozen=True):
    """One thing that was repaired, dropped or missing."""

    rank: int | None
    code: str
    count: int
    time_ns: int | None
    message: Text


class ErrorRow(Struct, frozen=True):
    """A capture that could not be read, beside those that could."""

    path: str
    code: str
    message: Text
    hint: Text


class Summary(Struct, frozen=True):
    """A report's summary."""

    schema_version: int
    device: DeviceUsed
    roofs: Annotated[
        dict[str, RoofRow], Meta(description="By dtype word, `vector` and `dram`; absent where unknown.")
    ]
    roof_used: Annotated[
        Literal["measured", "spec"] | None,
        Meta(description="`measured` where every ceiling used was; null where none is known."),
    ]
    captures: list[CaptureUsed]
    phases: list[PhaseRow]
    families: list[FamilyRow]
    coverage: Coverage
    findings: list[FindingRow]
    quality: list[QualityRow]
    errors: list[ErrorRow]
