"""What one rule says, and how the words of its evidence are put together."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.classify.signals import Bools, Floats, Objects, Signals
from tracekit.tables.words import Bottleneck
from tracekit.units import digits

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rule's answer for all kernels; it counts where `where` holds and no earlier rule answered.

    Attributes:
        where: Kernels that the rule decides.
        bottleneck: Class of each kernel, or one for all.
        confidence: 0 to 1, each or one for all.
        evidence: Why: a text for all, or a function from positions to texts.
        flag: A mark for the `flags` column; empty for none. An array where only some get one.
    """

    where: Bools
    bottleneck: Objects | Bottleneck
    confidence: Floats | float
    evidence: Callable[[Positions], Objects] | str
    flag: Objects | str = ""


Rule = Callable[[Signals], Verdict]


def number(values: Floats) -> Objects:
    """Texts of numbers to three digits, `?` where unknown; each distinct text is made once."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (2 - np.floor(np.log10(np.abs(values))))
        rough = np.where(np.isfinite(values) & (values != 0), np.round(values * scale) / scale, values)
    distinct, back = np.unique(rough, return_inverse=True)
    texts = np.array(
        [_plain(float(value)) if np.isfinite(value) else "?" for value in distinct], dtype=object
    )
    return np.asarray(texts[back], dtype=object)


def _plain(value: float) -> str:
    text = digits(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(shares: Floats) -> Objects:
    """Whole percentages of shares."""
    return np.asarray(number(np.round(100 * shares)) + " %", dtype=object)


def shares(signals: Signals, more: str = "") -> Callable[[Positions], Objects]:
    """Evidence from both shares: `87 % of the measured DRAM roof, 3 % of the bf16 roof, intensity 1.0`."""

    def texts(at: Positions) -> Objects:
        kind = np.where(signals.measured[at], "measured", "spec").astype(object)
        math = np.where(signals.peak[at] == "", "compute", signals.peak[at])
        dram = (
            percent(signals.dram[at])
            + " of the "
            + np.where(signals.is_compute[at], "", kind + " ")
            + "DRAM roof"
        )
        dram = dram + np.where(signals.dram_hw[at], " (counters)", " (minimum traffic)")
        known = np.where(signals.is_compute[at], kind + " ", "")
        compute = percent(signals.of_roof[at]) + " of the " + known + math + " roof"
        lower = signals.of_roof[at] < signals.compute[at]
        compute = compute + np.where(lower, " (" + percent(signals.compute[at]) + " of the reachable)", "")
        first, last = (
            np.where(signals.is_compute[at], compute, dram),
            np.where(signals.is_compute[at], dram, compute),
        )
        text = first + ", " + last + ", intensity " + number(signals.intensity[at]) + more
        return np.asarray(text, dtype=object)

    return texts
