"""One phase on both sides, and what its change is made of."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracekit.compare.contract import Pair, Parts, PhaseChange, Verdicts
from tracekit.compare.matching import paired
from tracekit.compare.prepare import Prepared
from tracekit.report.contract import PhaseRow

_SAME = ("exact", "normalised")


def phase_change(
    phase: str, sides: Sequence[Prepared], groups: tuple[pd.DataFrame, pd.DataFrame], result: Verdicts
) -> PhaseChange:
    """What became of a phase.

    Args:
        phase: The phase.
        sides: Base and new.
        groups: Their matched kernel groups.
        result: The verdict on its steps.
    """
    base, new = sides
    wall, busy = (_pair(sides, phase, what) for what in (_wall, _busy))
    table = paired(*(side[side["phase"] == phase] for side in groups))
    both = all(len(side.steps_of(phase)) for side in sides)
    return PhaseChange(
        phase=phase,
        result=_filled(result, wall),
        wall_ns=wall,
        busy_ns=busy,
        idle_ns=Pair(base.idle(phase), new.idle(phase)),
        host_idle_ns=Pair(base.idle(phase, "host"), new.idle(phase, "host")),
        kernels=Pair(base.mean(phase, "n_kernels"), new.mean(phase, "n_kernels")),
        graph_launches=Pair(base.mean(phase, "n_graph_launches"), new.mean(phase, "n_graph_launches")),
        ns_per_token=_pair(sides, phase, _per_token),
        flops_per_s=_of_summary(sides, phase, "flops_per_s"),
        dram_bytes_per_s=_of_summary(sides, phase, "dram_bytes_per_s"),
        arithmetic_intensity=_of_summary(sides, phase, "arithmetic_intensity"),
        mfu=_of_summary(sides, phase, "mfu"),
        mbu=_of_summary(sides, phase, "mbu"),
        bottleneck=[_class(side.summaries(phase)) for side in sides],
        parts=_parts(phase, sides, table, wall) if both and len(table) else None,
        per_call_spread=_spread(table) if both else None,
    )


def _filled(result: Verdicts, wall: Pair) -> Verdicts:
    """The verdict; without comparable steps its ratio is that of the wall times."""
    if result.ratio is not None or not wall.base or wall.new is None:
        return result
    return Verdicts(
        result.verdict, wall.new / wall.base, None, None, result.floor, result.n, result.drift_covered
    )


def _pair(sides: Sequence[Prepared], phase: str, what: Any) -> Pair:
    return Pair(*(what(side, phase) for side in sides))


def _wall(side: Prepared, phase: str) -> float | None:
    found = side.summaries(phase)
    return sum(row.wall_ns for row in found) / side.units(phase) if found else None


def _busy(side: Prepared, phase: str) -> float | None:
    found = side.summaries(phase)
    return sum(row.time_ns for row in found) / side.units(phase) if found else None


def _per_token(side: Prepared, phase: str) -> float | None:
    rates = [row.tokens_per_s for row in side.summaries(phase) if row.tokens_per_s]
    return 1e9 / float(np.median(rates)) if rates else None


def _of_summary(sides: Sequence[Prepared], phase: str, name: str) -> Pair:
    """A figure of the summaries: the mean over runs by their kernel time."""
    return Pair(*(_mean(side.summaries(phase), name) for side in sides))


def _mean(rows: Sequence[PhaseRow], name: str) -> float | None:
    known = [(getattr(row, name), row.time_ns) for row in rows if getattr(row, name) is not None]
    weight = sum(time for _, time in known)
    return sum(value * time for value, time in known) / weight if weight else None


def _class(rows: Sequence[PhaseRow]) -> str | None:
    sums: dict[str, float] = {}
    for row in rows:
        for word, share in row.bottlenecks.items():
            sums[word] = sums.get(word, 0.0) + share * row.time_ns
    return max(sums, key=lambda word: sums[word]) if sums else None


def _parts(phase: str, sides: Sequence[Prepared], table: pd.DataFrame, wall: Pair) -> Parts:
    """Δ of wall time a step: count (n1 - n0)·t0, time a call n1·(t1 - t0), mix, gaps, and the rest."""
    units = [side.units(phase) for side in sides]
    times = [table[f"time_ns{mark}"] / n for mark, n in zip(("_base", "_new"), units, strict=True)]
    counts = [table[f"count{mark}"] / n for mark, n in zip(("_base", "_new"), units, strict=True)]
    same = table["how"].isin(_SAME).to_numpy(dtype=bool)
    a_call = (times[0] / counts[0].where(counts[0] > 0)).fillna(0.0)
    more = ((counts[1] - counts[0]) * a_call)[same].sum()
    delta = times[1] - times[0]
    idle = [side.idle(phase) or 0.0 for side in sides]
    change = (wall.new or 0.0) - (wall.base or 0.0)
    gaps = idle[1] - idle[0]
    return Parts(
        count=float(more),
        per_call=float(delta[same].sum() - more),
        mix=float(delta[~same].sum()),
        gaps=gaps,
        overlap=float(change - delta.sum() - gaps),
    )


def _spread(table: pd.DataFrame) -> float | None:
    """Spread of the ratios of time a call over kernel families, by base's time; None for fewer than three."""
    same = table[table["how"].isin(_SAME) & (table["count_base"] > 0) & (table["count_new"] > 0)]
    scaled = same["time_ns_new"] * same["count_base"] / same["count_new"]
    sums = (
        pd.DataFrame({"family": same["family"], "base": same["time_ns_base"], "new": scaled})
        .groupby("family")
        .sum()
    )
    sums = sums[(sums["base"] > 0) & (sums["base"] >= 0.02 * sums["base"].sum())]
    if len(sums) < 3:  # noqa: PLR2004 - two families can move alike by chance
        return None
    return float((sums["new"] / sums["base"]).std())
