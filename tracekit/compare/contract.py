"""The document of `compare --json`: declared once, with units and meanings."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

SCHEMA_VERSION = 1

Verdict = Annotated[
    Literal["no_change", "slower", "faster", "insufficient"],
    Meta(description="Of step times; insufficient where a side has fewer than ten steps."),
]
Ratio = Annotated[float | None, Meta(description="New over base.")]
PerStep = Annotated[float | None, Meta(description="Nanoseconds a step of the phase [ns].")]


class Pair(Struct, frozen=True):
    """One figure on both sides; null where unknown."""

    base: float | None
    new: float | None


class Verdicts(Struct, frozen=True):
    """What is said of step times, and how sure."""

    verdict: Verdict
    ratio: Ratio
    ci_low: Annotated[float | None, Meta(description="Lower end of the 95 % interval of the ratio.")]
    ci_high: Annotated[float | None, Meta(description="Upper end.")]
    floor: Annotated[float, Meta(description="Relative change that was required before anything is said.")]
    n: Annotated[list[int], Meta(description="Steps of base and of new.")]
    drift_covered: Annotated[
        bool,
        Meta(description="Whether several captures a side put the drift between runs into the interval."),
    ]


class Parts(Struct, frozen=True):
    """Where the change of a phase's wall time a step comes from; the parts sum to it [ns]."""

    count: Annotated[
        float, Meta(description="More or fewer launches of the same kernels, at base's time a call.")
    ]
    per_call: Annotated[float, Meta(description="The same kernels taking longer or shorter a call.")]
    mix: Annotated[float, Meta(description="Kernels replaced by others, appeared and disappeared.")]
    gaps: Annotated[float, Meta(description="Idle time of the device inside steps.")]
    overlap: Annotated[
        float, Meta(description="The rest: kernels that ran side by side, or outside the window.")
    ]


class PhaseChange(Struct, frozen=True):
    """One phase on both sides."""

    phase: str
    result: Verdicts
    wall_ns: Annotated[Pair, Meta(description="Wall time a step [ns].")]
    busy_ns: Annotated[Pair, Meta(description="Kernel time a step [ns].")]
    idle_ns: Annotated[Pair, Meta(description="Idle time a step [ns].")]
    host_idle_ns: Annotated[Pair, Meta(description="Idle time a step because of the host [ns].")]
    kernels: Annotated[Pair, Meta(description="Kernels a step.")]
    graph_launches: Annotated[Pair, Meta(description="Graph replays a step.")]
    ns_per_token: Annotated[Pair, Meta(description="Wall time a token [ns].")]
    flops_per_s: Pair
    dram_bytes_per_s: Pair
    arithmetic_intensity: Pair
    mfu: Pair
    mbu: Pair
    bottleneck: Annotated[list[str | None], Meta(description="Class of most of the time, base and new.")]
    parts: Parts | None
    per_call_spread: Annotated[
        float | None, Meta(description="Spread of the ratios of time a call over kernel families.")
    ]


class KernelChange(Struct, frozen=True):
    """Kernels of base and what they are in new."""

    phase: str
    family: str
    op: str
    how: Annotated[str, Meta(description="exact, normalised, role, family, appeared or disappeared.")]
    base_names: list[str]
    new_names: list[str]
    time_ns: Annotated[Pair, Meta(description="Time a step [ns].")]
    count: Annotated[Pair, Meta(description="Launches a step.")]
    delta_ns: Annotated[float, Meta(description="New less base, a step [ns].")]
    per_call_ratio: Ratio
    flops_per_s: Pair
    arithmetic_intensity: Pair
    roof_share: Annotated[Pair, Meta(description="Least time at the roofs over time.")]
    bottleneck: list[str | None]
    p_adjusted: Annotated[
        float | None,
        Meta(
            description="Probability where nothing changed, by Holm over all kernels; null without statistics."
        ),
    ]


class FamilyChange(Struct, frozen=True):
    """One kernel family of a phase."""

    phase: str
    family: str
    time_ns: Pair
    delta_ns: float


class PlaceChange(Struct, frozen=True):
    """One place of the repeated layer sequence, over all layers; places stand in its order."""

    phase: str
    place: Annotated[
        str,
        Meta(
            description="before the layers, before attention, attention, after attention, after the layers; in a layer with the kernel family, matrix products by their order."
        ),
    ]
    time_ns: Annotated[Pair, Meta(description="Time a step [ns].")]
    count: Annotated[Pair, Meta(description="Kernels a step.")]
    delta_ns: Annotated[float, Meta(description="New less base, a step [ns].")]


class LayerChange(Struct, frozen=True):
    """One layer, all of its places."""

    phase: str
    layer: Annotated[int, Meta(description="0 for the first layer that the capture has.")]
    time_ns: Annotated[Pair, Meta(description="Time a step [ns].")]
    delta_ns: Annotated[float, Meta(description="New less base, a step [ns].")]


class Comparison(Struct, frozen=True):
    """A comparison of two sides."""

    schema_version: int
    base: list[str]
    new: list[str]
    devices: Annotated[list[str | None], Meta(description="Devices of base and of new.")]
    roofs: Annotated[
        list[dict[str, float]],
        Meta(
            description="Roofs in force of base and of new, measured where they are: FLOP/s by type, byte/s of dram."
        ),
    ]
    result: Verdicts
    phases: list[PhaseChange]
    families: list[FamilyChange]
    places: list[PlaceChange]
    layers: list[LayerChange]
    kernels: list[KernelChange]
    notes: list[str]
