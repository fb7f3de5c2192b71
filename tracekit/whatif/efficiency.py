"""How near to their floors kernels come: from a capture by group of pieces, or by named defaults."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tracekit.classify.analytic import LOW
from tracekit.tables import Bottleneck
from tracekit.tables.ceilings import Ceilings
from tracekit.tables.columns import column, is_true
from tracekit.whatif.floors import GROUPS, Load
from tracekit.whatif.scenario import STORED

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
        replayed: Share of its kernels that came from graphs.
    """

    groups: Mapping[str, Group]
    other_s: float
    idle_s: float
    host_s: float
    spread: float
    wall_s: float
    replayed: float = 0.0


def group_of(family: str) -> str | None:
    """The group of a kernel family; None where the model has no piece of it."""
    head = family.split(".", 1)[0]
    return next((group for group, heads in _FAMILIES.items() if head in heads), None)


def observe(kernels: pd.DataFrame, steps: pd.DataFrame, gaps: pd.DataFrame) -> Observed:
    """What a phase's steps are made of: medians over steps, which a disturbed step does not move.

    Args:
        kernels: KERNELS of the phase.
        steps: STEPS of the phase that ran kernels; at least one.
        gaps: GAPS of those steps.
    """
    families = kernels["family"].astype(object)
    groups = families.map({family: group_of(str(family)) for family in families.unique()})
    small = (kernels["bottleneck"].astype(object) == str(Bottleneck.LATENCY)).to_numpy(dtype=bool)
    host = (gaps["cause"].astype(object) == "host").to_numpy(dtype=bool)
    inside = gaps["step_id"].isin(steps["step_id"]).to_numpy(dtype=bool)
    walls = column(steps, "dur_ns") / 1e9
    low, middle, high = np.quantile(walls, [_QUARTILES[0], 0.5, _QUARTILES[1]])
    of_group = {group: (groups == group).to_numpy(dtype=bool) for group in GROUPS}
    return Observed(
        {
            group: Group(_a_step(kernels[chosen], steps), _a_step(kernels[chosen & small], steps))
            for group, chosen in of_group.items()
            if chosen.any()
        },
        _a_step(kernels[groups.isna().to_numpy(dtype=bool)], steps),
        _a_step(gaps[inside], steps),
        _a_step(gaps[inside & host], steps),
        float((high - low) / 2 / middle) if middle else 0.0,
        float(middle),
        float(is_true(kernels, "from_graph").mean()) if len(kernels) else 0.0,
    )


def _a_step(rows: pd.DataFrame, steps: pd.DataFrame) -> float:
    """Median over steps of the rows' time in each [s]."""
    sums = pd.Series(column(rows, "dur_ns")).groupby(column(rows, "step_id")).sum()
    times = sums.reindex(steps["step_id"].to_numpy(dtype=np.float64), fill_value=0.0)
    return float(times.median()) / 1e9


@dataclass(frozen=True, slots=True)
class Point:
    """One step to scale times from or to.

    Attributes:
        loads: Its pieces.
        ceilings: Of its device.
        rows: Rows of its products: query tokens of all requests.
    """

    loads: list[Load]
    ceilings: Ceilings
    rows: float

    def floor_s(self, group: str) -> float:
        """Least time of a group [s]."""
        return sum(part.least_s(self.ceilings) for part in self.loads if part.group == group)

    def shape(self) -> float:
        """Share of the nearer roof that a product of so many rows was measured to reach; 1 where none was.

        Between the measured numbers of rows the logarithm of the share is a line over the logarithm of the rows. From
        the ridge on, where a row costs as much arithmetic as its share of the weights' reading, it stays: tiles are full.
        """
        word = self._peak_word()
        thin, peak, dram = (
            self.ceilings.thin.get(word),
            self.ceilings.peak(word).used,
            self.ceilings.dram.used,
        )
        if not thin or not peak or not dram:
            return 1.0
        rows = np.array(sorted(thin), dtype=np.float64)
        rates = np.array([thin[int(count)] for count in rows])
        # A product [M, N, N] of large N does 2 M FLOP for each weight that it reads.
        shares = np.maximum(rates / peak, rates * STORED.get(word, 2.0) / (2 * rows) / dram)
        return float(np.exp(np.interp(np.log(self.thin_rows()), np.log(rows), np.log(shares))))

    def thin_rows(self) -> float:
        """Rows of its products, at most those of the ridge."""
        word = self._peak_word()
        ridge = (self.ceilings.ridge(word) or 0.0) * STORED.get(word, 2.0) / 2
        return float(np.clip(self.rows, 1.0, max(ridge, 1.0)))

    def _peak_word(self) -> str:
        products = (part for part in self.loads if part.group == "products" and part.role != "lm_head")
        return next((part.peak for part in products), "")


def expected_by_group(before: Point, after: Point, observed: Observed) -> Iterator[tuple[str, float]]:
    """Predicted time of each group: the capture's, by the ratio of floors; latency and other limits stay.

    Products of few rows reach another share of their roof with another number of rows: its course is that of the
    thin products that were measured on the machine.

    Args:
        before: The captured step.
        after: The asked step.
        observed: The capture's times.
    """
    for group in GROUPS:
        seen, floor = observed.groups.get(group), before.floor_s(group)
        if seen is None:
            continue
        if not floor:
            yield group, seen.time_s
            continue
        # What exceeds the least share of the floor has another limit, and does not grow with the work.
        near = min(seen.time_s - seen.latency_s, floor / LEAST_EFFICIENCY)
        scale = after.floor_s(group) / floor
        grown = seen.latency_s * max(1.0, scale / _OUTGROWN)
        if group == "products":
            # Another device has no thin products of its own: the course is the captured one's.
            scale *= before.shape() / replace(after, ceilings=before.ceilings).shape()
        yield group, near * scale + (seen.time_s - seen.latency_s - near) + grown


LEAST_EFFICIENCY = LOW
"""Share of its floor below which a group is not taken to be limited by it: that below which the classifier names no
roof as a kernel's limit either."""
_OUTGROWN = 8.0
"""Growth of the work at which a kernel at its latency floor begins to take longer."""


def default_by_group(after: list[Load], ceilings: Ceilings) -> Iterator[tuple[str, float]]:
    """Time of each group by the share of the roofs that good kernels reach, each kernel at least `LATENCY_S`."""
    for group in GROUPS:
        parts = [part for part in after if part.group == group]
        if parts:
            yield group, sum(max(LATENCY_S, part.least_s(ceilings, achievable=True)) for part in parts)
