"""NVIDIA's published speed-of-light rule, for kernels whose counters were read.

Source: the `SpeedOfLight` bottleneck rule that Nsight Compute ships: with the SM and the memory share in percent
of sustained peak, at least 80 is high throughput of the larger unit; with both under 60 it is a small grid
(waves < 1) or latency; else a difference of 10 points decides, and less is balanced. The memory level is the
largest of its breakdown.
"""

from collections.abc import Callable

import numpy as np

from tracekit.classify.signals import Bools, Objects, Signals
from tracekit.classify.verdict import Positions, Rule, Verdict, number
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
    apart = np.abs(s.sm_pct - s.mem_pct) >= _POINTS
    flag = np.where(apart, "", "balanced").astype(object)
    return Verdict(_seen(s), _unit(s), np.where(apart, 0.85, 0.6), _text(s), flag)


RULES: tuple[Rule, ...] = (throughput, small_grid, latency, leaning)


def _seen(s: Signals) -> Bools:
    return np.asarray(~np.isnan(s.sm_pct) & ~np.isnan(s.mem_pct), dtype=bool)


def _larger(s: Signals) -> np.ndarray:
    return np.fmax(s.sm_pct, s.mem_pct)


def _idle(s: Signals) -> Bools:
    return np.asarray(_seen(s) & (_larger(s) < _LOW), dtype=bool)


def _unit(s: Signals) -> Objects:
    """Compute, or the busiest memory level; L1 and shared memory stand on the SM, so they count as compute."""
    levels = np.stack([np.nan_to_num(s.level_pct[name], nan=-1.0) for name in ("dram", "l2", "l1")])
    names = np.array([Bottleneck.DRAM.value, Bottleneck.L2.value, Bottleneck.COMPUTE.value], dtype=object)
    return np.where(s.sm_pct > s.mem_pct, Bottleneck.COMPUTE.value, names[np.argmax(levels, axis=0)]).astype(
        object
    )


def _text(s: Signals, more: str = "") -> Callable[[Positions], Objects]:
    def texts(at: Positions) -> Objects:
        levels = np.stack([np.nan_to_num(s.level_pct[name], nan=-1.0)[at] for name in ("dram", "l2", "l1")])
        level = np.array(["DRAM", "L2", "L1"], dtype=object)[np.argmax(levels, axis=0)]
        level = np.where(levels.max(axis=0) < 0, "level not read", level)
        text = (
            "counters: SM "
            + number(s.sm_pct[at])
            + " %, memory "
            + number(s.mem_pct[at])
            + " % ("
            + level
            + ")"
        )
        tensor = ~np.isnan(s.tensor_pct[at])
        pipe = np.where(tensor, ", tensor pipe " + number(s.tensor_pct[at]) + " %", "")
        return np.asarray(text + pipe + more, dtype=object)

    return texts
