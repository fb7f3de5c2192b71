"""NVIDIA's published speed-of-light rule, for kernels whose counters were read.

Source: the `SpeedOfLight` bottleneck rule that Nsight Compute ships: with the SM and the memory share in percent
of sustained peak, at least 80 is high throughput of the larger unit; with both under 60 it is a small grid
(waves < 1) or latency; else a difference of 10 points decides, and less is balanced. The memory level is the
largest of its breakdown.
"""

from collections.abc import Callable

import numpy as np

from tracekit.classify.phrases import Phrases, chosen, joined, number
from tracekit.classify.signals import NUMBER, Bools, Floats, Positions, Signals
from tracekit.classify.verdict import Rule, Verdict
from tracekit.tables.words import Bottleneck

_HIGH, _LOW, _POINTS = 80.0, 60.0, 10.0


def throughput(s: Signals) -> Verdict:
    """Either unit at 80 % or more: the larger one."""
    return Verdict(_seen(s) & (_larger(s) >= _HIGH), _unit(s), 0.95, _text(s))


def small_grid(s: Signals) -> Verdict:
    """Both units under 60 % and less than one wave of thread blocks."""
    return Verdict(
        _idle(s) & (s.waves < 1), Bottleneck.LATENCY, 0.8, _text(s, "; less than one wave"), "small_grid"
    )


def latency(s: Signals) -> Verdict:
    """Both units under 60 % with a full grid."""
    return Verdict(_idle(s), Bottleneck.LATENCY, 0.6, _text(s, "; neither unit is busy"))


def leaning(s: Signals) -> Verdict:
    """Between 60 and 80 %: the larger unit, sure of it where it leads by ten points."""

    def apart(at: Positions) -> Bools:
        return np.asarray(np.abs(s.sm_pct[at] - s.mem_pct[at]) >= _POINTS, dtype=bool)

    return Verdict(
        _seen(s),
        _unit(s),
        lambda at: np.where(apart(at), 0.85, 0.6),
        _text(s),
        lambda at: chosen(apart(at), "", "balanced"),
    )


RULES: tuple[Rule, ...] = (throughput, small_grid, latency, leaning)


def _seen(s: Signals) -> Bools:
    return np.asarray(~np.isnan(s.sm_pct) & ~np.isnan(s.mem_pct), dtype=bool)


def _larger(s: Signals) -> np.ndarray:
    return np.fmax(s.sm_pct, s.mem_pct)


def _idle(s: Signals) -> Bools:
    return np.asarray(_seen(s) & (_larger(s) < _LOW), dtype=bool)


def _unit(s: Signals) -> Callable[[Positions], Positions]:
    """Compute, or the busiest memory level; L1 and shared memory stand on the SM, so they count as compute."""
    of_level = np.array([NUMBER[word] for word in (Bottleneck.DRAM, Bottleneck.L2, Bottleneck.COMPUTE)])

    def units(at: Positions) -> Positions:
        busiest = of_level[np.argmax(_levels(s, at), axis=0)]
        return np.where(s.sm_pct[at] > s.mem_pct[at], NUMBER[Bottleneck.COMPUTE], busiest)

    return units


def _levels(s: Signals, at: Positions) -> Floats:
    """Use of DRAM, L2 and L1, a row each; -1 where it was not read."""
    return np.stack([np.nan_to_num(s.level_pct[name][at], nan=-1.0) for name in ("dram", "l2", "l1")])


def _text(s: Signals, more: str = "") -> Callable[[Positions], Phrases]:
    def texts(at: Positions) -> Phrases:
        levels = _levels(s, at)
        read = np.where(levels.max(axis=0) < 0, 3, np.argmax(levels, axis=0))
        memory = joined(
            number(s.mem_pct[at]), " % (", Phrases(read, ["DRAM", "L2", "L1", "level not read"]), ")"
        )
        tensor = joined(", tensor pipe ", number(s.tensor_pct[at]), " %")
        pipe = chosen(~np.isnan(s.tensor_pct[at]), tensor)
        return joined("counters: SM ", number(s.sm_pct[at]), " %, memory ", memory, pipe, more)

    return texts
