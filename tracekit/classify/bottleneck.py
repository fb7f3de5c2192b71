"""What limits each kernel: ordered rules, the first that answers decides, and `unknown` is an answer."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit.classify import analytic, counters
from tracekit.classify.signals import Floats, Objects, signals
from tracekit.classify.verdict import Positions, Rule, Verdict
from tracekit.tables.ceilings import Ceilings
from tracekit.tables.text import coded, words
from tracekit.tables.words import Bottleneck

RULES: tuple[Rule, ...] = (analytic.copies, analytic.collectives, *counters.RULES, *analytic.RULES)


@dataclass(frozen=True, slots=True)
class _Answers:
    """The columns that the rules fill, one entry a kernel."""

    bottleneck: Objects
    confidence: Floats
    evidence: Objects
    flags: Objects

    def take(self, verdict: Verdict, still: Positions) -> Positions:
        """Writes a verdict where it decides one of the kernels `still` open; gives those that stay open."""
        decides = verdict.where[still]
        at = still[decides]
        if len(at):
            self.bottleneck[at] = _of(verdict.bottleneck, at)
            self.confidence[at] = _of(verdict.confidence, at)
            self.evidence[at] = verdict.evidence(at) if callable(verdict.evidence) else verdict.evidence
            flag = verdict.flag if isinstance(verdict.flag, str) else verdict.flag[at]
            self.flags[at] = join_flags(self.flags[at], flag)
        return still[~decides]


def classify(kernels: pd.DataFrame, ceilings: Ceilings) -> pd.DataFrame:
    """Adds bottleneck, bottleneck_confidence, bottleneck_evidence, and marks in `flags`, to each kernel.

    Args:
        kernels: A kernels table after the roofline stage. Read where present: kind, family, name, phase, grid,
            dur_ns, dram_bytes, dram_bytes_hw, arithmetic_intensity, and the internal columns s_compute, s_dram,
            peak, weight_bytes, kv_bytes, bus_bytes (bytes a collective puts on the link), hw_sm_pct, hw_mem_pct,
            hw_dram_pct, hw_l2_pct, hw_l1_pct, hw_tensor_pct and hw_waves.
        ceilings: Those of the device, with its SM count, L2 size and launch floor.

    Each kernel is decided by the first rule of `RULES` that holds for it; the last one says `unknown`.
    """
    seen, size = signals(kernels, ceilings), len(kernels)
    blank = np.full(size, "", dtype=object)
    answers = _Answers(blank.copy(), np.zeros(size), blank.copy(), words(kernels, "flags").copy())
    still = np.arange(size, dtype=np.int64)
    for rule in RULES:
        if not len(still):
            break
        still = answers.take(rule(seen), still)
    out = kernels.copy(deep=False)
    out["bottleneck"] = coded(answers.bottleneck).set_categories([word.value for word in Bottleneck])
    out["bottleneck_confidence"] = answers.confidence
    out["bottleneck_evidence"] = coded(answers.evidence)
    answers.flags[answers.flags == ""] = None
    out["flags"] = coded(answers.flags)
    return out


def join_flags(old: Objects, new: Objects | str) -> Objects:
    """Comma-separated flags with one more; empty texts add nothing."""
    both = (old != "") & (new != "")
    return np.asarray(old + np.where(both, ",", "").astype(object) + new, dtype=object)


def _of(values: Objects | Floats | Bottleneck | float | str, at: Positions) -> Objects | Floats | float | str:
    if isinstance(values, np.ndarray):
        return values[at]
    return values.value if isinstance(values, Bottleneck) else values
