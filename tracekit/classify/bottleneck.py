"""What limits each kernel: ordered rules, the first that answers decides, and `unknown` is an answer."""

import numpy as np
import pandas as pd

from tracekit.classify import analytic, counters
from tracekit.classify.phrases import Phrases, chosen, joined, named
from tracekit.classify.signals import NUMBER, Positions, signals
from tracekit.classify.verdict import Rule, Verdict
from tracekit.tables.ceilings import Ceilings
from tracekit.tables.text import category, numbered
from tracekit.tables.words import Bottleneck

RULES: tuple[Rule, ...] = (analytic.copies, analytic.collectives, *counters.RULES, *analytic.RULES)

_CLASSES = pd.Index([word.value for word in Bottleneck])


class _Answers:
    """The columns that the rules fill, one entry a kernel; texts as numbers of those that were given."""

    def __init__(self, size: int) -> None:
        self.bottleneck = np.full(size, NUMBER[Bottleneck.UNKNOWN])
        self.confidence = np.zeros(size)
        self.evidence = Phrases(np.zeros(size, np.int64), [""])
        self.flag = Phrases(np.zeros(size, np.int64), [""])

    def take(self, verdict: Verdict, still: Positions) -> Positions:
        """Writes a verdict where it decides one of the kernels `still` open; gives those that stay open."""
        decides = verdict.where[still]
        at = still[decides]
        if len(at):
            word, sure = verdict.bottleneck, verdict.confidence
            self.bottleneck[at] = NUMBER[word] if isinstance(word, Bottleneck) else word(at)
            self.confidence[at] = sure(at) if callable(sure) else sure
            self.evidence.put(at, verdict.evidence(at) if callable(verdict.evidence) else verdict.evidence)
            self.flag.put(at, verdict.flag(at) if callable(verdict.flag) else verdict.flag)
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
    seen, answers = signals(kernels, ceilings), _Answers(len(kernels))
    still = np.arange(len(kernels), dtype=np.int64)
    for rule in RULES:
        if not len(still):
            break
        still = answers.take(rule(seen), still)
    out = kernels.copy(deep=False)
    out["bottleneck"] = pd.Categorical.from_codes(answers.bottleneck, _CLASSES)
    out["bottleneck_confidence"] = answers.confidence
    out["bottleneck_evidence"] = numbered(answers.evidence.numbers, answers.evidence.texts)
    out["flags"] = _flags(category(kernels, "flags"), answers.flag)
    return out


def _flags(old: pd.Categorical, new: Phrases) -> pd.Categorical:
    """Comma-separated flags with one more; empty texts add nothing."""
    held = named(old)
    both = joined(held, chosen(held.said() & new.said(), ","), new)
    return numbered(both.numbers, [text or None for text in both.texts])
