"""How near to their floors kernels come: from a capture by group of pieces, or by named defaults."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit.tables import Bottleneck
from tracekit.tables.ceilings import Ceilings
from tracekit.tables.columns import column
from tracekit.whatif.floors import GROUPS, Load

LATENCY_S = 3e-6
"""Least time of a kernel where nothing was measured; source: aiconfigurator's constant latency of its systems' files."""
COLLECTIVE_S = 10e-6
"""Latency of a collective where nothing was measured; source: aiconfigurator's p2p latency."""
SPREAD = 0.2
"""Relative uncertainty of the default shares of the roofs that kernels reach: GEMMs on Hopper reach 0.75 to 0.80 of
their peak, attention and small shapes less, copies 0.88 to 0.92."""
_FAMILIES = {
    "products": ("gemm", "gemv"),
    "experts": ("moe",),
    "attention": ("attn", "softmax"),
    "cache": ("kv",),
    "pointwise": ("norm", "rope", "act", "eltwise"),
}
_QUARTILES = (0.25, 0.75)


@dataclass(frozen=True, slots=True)
class Group:
    """What a capture says of one group of pieces, a step.

    Attributes:
        time_s: Time of its kernels.
        latency_s: The part of it in kernels that are too small to be near a roof.
    """

    time_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Observed:
    """A phase of a capture, a step.

    Attributes:
        groups: By word of `GROUPS`.
        other_s: Time of kernels of no group: kept as it is.
        idle_s: Idle time inside steps.
        host_s: The part of it that waits for the host.
        spread: Half of the interquartile range of step times over their median.
        wall_s: Median step.
    """

    groups: Mapping[str, Group]
    other_s: float
    idle_s: float
    host_s: float
    spread: float
    wall_s: float


def group_of(family: str) -> str | None:
    """The group of a kernel family; None where the model has no piece of it."""
    head = family.split(".", 1)[0]
    return next((group for group, heads in _FAMILIES.items() if head in heads), None)


def observe(kernels: pd.DataFrame, steps: pd.DataFrame, gaps: pd.DataFrame) -> Observed:
    """What a phase's steps are made of.

    Args:
        kernels: KERNELS of the phase.
        steps: STEPS of the phase that ran kernels; at least one.
        gaps: GAPS of those steps.
    """
    count = len(steps)
    families = kernels["family"].astype(object)
    groups = families.map({family: group_of(str(family)) for family in families.unique()})
    time = pd.Series(column(kernels, "dur_ns") / 1e9 / count, index=kernels.index)
    small = (kernels["bottleneck"].astype(object) == str(Bottleneck.LATENCY)).to_numpy(dtype=bool)
    inside = gaps[gaps["step_id"].isin(steps["step_id"])]
    host = (inside["cause"].astype(object) == "host").to_numpy(dtype=bool)
    idle = column(inside, "dur_ns") / 1e9 / count
    walls = column(steps, "dur_ns") / 1e9
    low, middle, high = np.quantile(walls, [_QUARTILES[0], 0.5, _QUARTILES[1]])
    return Observed(
        {
            group: Group(float(time[chosen].sum()), float(time[chosen & small].sum()))
            for group in GROUPS
            if (chosen := (groups == group).to_numpy(dtype=bool)).any()
        },
        float(time[groups.isna().to_numpy(dtype=bool)].sum()),
        float(idle.sum()),
        float(idle[host].sum()),
        float((high - low) / 2 / middle) if middle else 0.0,
        float(walls.mean()),
    )


def expected_by_group(
    before: list[Load], after: list[Load], observed: Observed, ceilings: tuple[Ceilings, Ceilings]
) -> Iterator[tuple[str, float]]:
    """Predicted time of each group: the capture's, by the ratio of floors; latency and other limits stay.

    Args:
        before: The captured step's pieces.
        after: The asked step's pieces.
        observed: The capture's times.
        ceilings: Of the capture's device and of the asked one.
    """
    for group in GROUPS:
        floors = [
            sum(part.least_s(roof) for part in parts if part.group == group)
            for parts, roof in zip((before, after), ceilings, strict=True)
        ]
        seen = observed.groups.get(group)
        if seen is None:
            continue
        if not floors[0]:
            yield group, seen.time_s
            continue
        # What exceeds five times the floor has another limit, and does not grow with the work.
        near = min(seen.time_s - seen.latency_s, floors[0] / LEAST_EFFICIENCY)
        grown = seen.latency_s * max(1.0, floors[1] / floors[0] / _OUTGROWN)
        yield group, near * floors[1] / floors[0] + (seen.time_s - seen.latency_s - near) + grown


LEAST_EFFICIENCY = 0.2
"""Share of its floor below which a group is not taken to be limited by it."""
_OUTGROWN = 8.0
"""Growth of the work at which a kernel at its latency floor begins to take longer."""


def default_by_group(after: list[Load], ceilings: Ceilings) -> Iterator[tuple[str, float]]:
    """Time of each group by the share of the roofs that good kernels reach, each kernel at least `LATENCY_S`."""
    for group in GROUPS:
        parts = [part for part in after if part.group == group]
        if parts:
            yield group, sum(max(LATENCY_S, part.least_s(ceilings, achievable=True)) for part in parts)
