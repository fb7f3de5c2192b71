"""What one rule says, and how the words of its evidence are put together."""

from collections.abc import Callable
from dataclasses import dataclass

from tracekit.classify.phrases import Phrases, chosen, joined, named, number, percent
from tracekit.classify.signals import Bools, Floats, Positions, Signals
from tracekit.tables.words import Bottleneck


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rule's answer for all kernels; it counts where `where` holds and no earlier rule answered.

    What differs from kernel to kernel is a function from positions, asked only of the kernels that the rule decides.

    Attributes:
        where: Kernels that the rule decides.
        bottleneck: The class, as a word or as positions in the enumeration.
        confidence: 0 to 1.
        evidence: Why.
        flag: A mark for the `flags` column; empty for none.
    """

    where: Bools
    bottleneck: Callable[[Positions], Positions] | Bottleneck
    confidence: Callable[[Positions], Floats] | float
    evidence: Callable[[Positions], Phrases] | str
    flag: Callable[[Positions], Phrases] | str = ""


Rule = Callable[[Signals], Verdict]


def shares(signals: Signals, more: str = "") -> Callable[[Positions], Phrases]:
    """Evidence from both shares: `87 % of the measured DRAM roof, 3 % of the bf16 roof, intensity 1.0`."""

    def texts(at: Positions) -> Phrases:
        computes, lower = signals.is_compute[at], signals.of_roof[at] < signals.compute[at]
        kind = chosen(signals.measured[at], "measured ", "spec ")
        counted = chosen(signals.dram_hw[at], " (counters)", " (minimum traffic)")
        dram = joined(percent(signals.dram[at]), " of the ", chosen(computes, "", kind), "DRAM roof", counted)
        reached = joined(" (", percent(signals.compute[at]), " of the reachable)")
        roof = joined(
            chosen(computes, kind), named(signals.peak[at], "compute"), " roof", chosen(lower, reached)
        )
        compute = joined(percent(signals.of_roof[at]), " of the ", roof)
        first, last = chosen(computes, compute, dram), chosen(computes, dram, compute)
        return joined(first, ", ", last, ", intensity ", number(signals.intensity[at]), more)

    return texts
