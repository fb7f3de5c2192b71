"""The ceilings of a device, as the roofline and classify stages share them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Kind = Literal["measured", "spec"]
KINDS: tuple[Kind, ...] = ("measured", "spec")
"""Kinds of roofs, the one that is used where both are known first."""


@dataclass(frozen=True, slots=True)
class Roof:
    """One ceiling, in SI base units; None is unknown.

    Attributes:
        measured: A microbenchmark's rate on this device.
        spec: The data sheet's dense rate.
        source: Where the used rate comes from.
        status: Trust in the spec: checked, single, conflict or unverified; `measured`, `given` or `reported`
            by the capture otherwise.
        reach: Share of the spec that good kernels reach.
        reach_known: That share was published for this device, and is not the usual one.
    """

    measured: float | None = None
    spec: float | None = None
    source: str = ""
    status: str = "checked"
    reach: float = 0.8
    reach_known: bool = False

    @property
    def used(self) -> float | None:
        """The rate that bounds are computed with: the measured one where there is one."""
        return self.spec if self.measured is None else self.measured

    @property
    def achievable(self) -> float | None:
        """The rate that a good kernel reaches: the measured one, or the reachable share of the spec."""
        if self.measured is not None:
            return self.measured
        return None if self.spec is None else self.spec * self.reach

    def of_kind(self, kind: Kind) -> "Roof":
        """The roof without the figure of the other kind."""
        return replace(self, spec=None) if kind == "measured" else replace(self, measured=None)

    @property
    def is_measured(self) -> bool:
        """Whether `used` was measured."""
        return self.measured is not None


UNKNOWN_ROOF = Roof(status="unknown")


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What a device can do at most.

    Attributes:
        device: Name of the device row, or of the machine; None where no device is known.
        peaks: FLOP/s by the words of the internal `peak` column: dtype words for matrix units, and `vector`.
        dram: DRAM byte/s.
        link: Byte/s per direction to a peer device.
        host_link: Byte/s per direction to the host.
        launch_floor_ns: Time of an empty kernel, or of a framework op on a CPU.
        sm_count: Streaming multiprocessors, or compute units.
        thin: FLOP/s measured of products [M, N, N] by dtype word and rows M; empty where none were.
        l2_bytes: Size of the last cache before DRAM that all SMs share.
        notes: What a reader must know: scaled slices, unknown bandwidth, doubtful matches.
    """

    device: str | None = None
    peaks: Mapping[str, Roof] = field(default_factory=dict)
    dram: Roof = UNKNOWN_ROOF
    link: Roof = UNKNOWN_ROOF
    host_link: Roof = UNKNOWN_ROOF
    launch_floor_ns: float | None = None
    sm_count: int | None = None
    l2_bytes: float | None = None
    thin: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of compute and DRAM roofs that are known."""
        roofs = (*self.peaks.values(), self.dram)
        return tuple(kind for kind in KINDS if any(getattr(roof, kind) is not None for roof in roofs))

    def of_kind(self, kind: Kind) -> "Ceilings":
        """The ceilings without the figures of the other kind."""
        peaks = {word: roof.of_kind(kind) for word, roof in self.peaks.items()}
        return replace(self, peaks=peaks, dram=self.dram.of_kind(kind))

    def peak(self, word: str) -> Roof:
        """The roof of a `peak` word; unknown where the device has none."""
        return self.peaks.get(word, UNKNOWN_ROOF)

    def ridge(self, word: str) -> float | None:
        """Ridge point of a `peak` word: FLOP/s over byte/s [FLOP/byte]."""
        top, bandwidth = self.peak(word).used, self.dram.used
        return None if top is None or not bandwidth else top / bandwidth
