"""The rules that need no counters: shares of the roofs, grid, duration, kind and name.

Bands: a share of 0.8 of a roof is bound by it, 0.6 likely, 0.3 to 0.6 inefficient and only a lean, less is
latency where grid or duration say so and else unknown. The DRAM share comes from minimum traffic unless counters
measured it, so true DRAM use is at least that.
"""

from collections.abc import Callable

import numpy as np

from tracekit.classify.phrases import Phrases, chosen, joined, number, percent
from tracekit.classify.signals import Bools, Floats, Positions, Signals
from tracekit.classify.verdict import Rule, Verdict, shares
from tracekit.tables.text import where
from tracekit.tables.words import Bottleneck, Kind, Phase

ABOVE = 1.08
"""A share above this breaks the model: no clock or refresh margin explains it."""
HIGH, LIKELY, LOW = 0.8, 0.6, 0.3
RIDGE_BAND = 0.32
"""|log2(intensity / ridge)| within which no side is asserted below 60 %: about +-25 %."""
CLEAR_MARGIN = 1.0
"""|log2(intensity / ridge)| beyond which errors of work and roofs do not turn the sides."""
SHORT_NS = 5_000.0
TINY_NS = 3_000.0
SPARSE = 0.75
"""A grid that leaves a quarter of the SMs empty explains a low share; one that just misses a wave may not."""
COMM_LATENCY_SHARE, COMM_LATENCY_BYTES = 0.3, 1e6
_TAIL_WAVES = 8.0
_L2_RESIDENT, _L2_POSSIBLE = 0.6, 0.5

_MEMORY_FAMILIES = (
    "gemv", "gemm.aux", "norm", "rope", "act", "quant", "eltwise", "elementwise", "fused", "mem", "copy", "softmax", "embed",
    "kv", "reduce", "cat", "pool", "optimizer", "sampling", "sort", "loss", "moe.route", "moe.perm", "attn.combine", "attn.meta",
)  # fmt: skip
_MATRIX_FAMILIES = ("gemm", "moe.gemm", "linear")
_ATTENTION_FAMILIES = ("attn", "attention")


def copies(s: Signals) -> Verdict:
    """Copies to, from or between devices over a link, by kind and direction."""
    return Verdict(
        (s.kind == Kind.MEMCPY) & ~s.on_device, Bottleneck.COPY, 0.95, "a copy over a link, by its kind"
    )


def collectives(s: Signals) -> Verdict:
    """Collectives by family; where the bus bytes are known, small ones far below the link are latency of it."""
    where = _family(s, ("comm",))
    small = (s.bus < COMM_LATENCY_SHARE) & (s.bus_bytes < COMM_LATENCY_BYTES)

    def evidence(at: Positions) -> Phrases:
        rate = chosen(~np.isnan(s.bus[at]), joined(", ", percent(s.bus[at]), " of the link"))
        return joined("a collective by name", rate, "; its time includes waiting for peers")

    return Verdict(
        where, Bottleneck.COMMUNICATION, 0.9, evidence, lambda at: chosen(small[at], "comm_latency")
    )


def l2_resident(s: Signals) -> Verdict:
    """More than the DRAM roof with a working set that fits the L2: the bytes never came from DRAM."""
    where = (s.dram > ABOVE) & ~s.is_compute & ~s.dram_hw & (s.working_set < _L2_RESIDENT * s.l2)
    return Verdict(where, Bottleneck.L2, 0.6, shares(s, "; the working set fits the cache"), "above_roof")


def above_roof(s: Signals) -> Verdict:
    """More than a roof: the model or the roof is wrong, and the class is hardly worth saying."""
    above = np.fmax(s.of_roof, s.dram) > ABOVE
    attention = _family(s, _ATTENTION_FAMILIES)

    def evidence(at: Positions) -> Phrases:
        window = chosen(attention[at], "a sliding window that no size tells, ")
        cause = "the wrong model or the wrong device (--model, --device)"
        return joined(shares(s)(at), "; above the roof: ", window, cause)

    return Verdict(above, s.side, 0.3, evidence, "roof_or_model_wrong")


def high(s: Signals) -> Verdict:
    """At least 80 % of a roof."""
    return Verdict(s.best >= HIGH, s.side, _trust(s, 0.8, 0.65), shares(s), _marks(s))


def tail(s: Signals) -> Verdict:
    """Over 80 % once the last, partly filled wave is taken out; one thread block a SM is assumed."""
    waves = s.ctas / s.sms
    matrix = s.peak.notna() & (s.peak != "vector")
    full = np.where((waves > 1) & (waves < _TAIL_WAVES), waves / np.ceil(waves), 1.0)
    where = (s.best >= LOW) & matrix & (s.best / full >= HIGH) & (full < 1)

    def evidence(at: Positions) -> Phrases:
        return joined(shares(s)(at), "; ", number(waves[at]), " waves leave the last one part empty")

    return Verdict(where, s.side, _trust(s, 0.65, 0.5), evidence, "tail")


def likely(s: Signals) -> Verdict:
    """At least 60 % of a roof; sure where the other share is less than half of it and the roof was measured."""
    clear = np.where(s.margin >= CLEAR_MARGIN, 0.8, 0.65)
    return Verdict(s.best >= LIKELY, s.side, _trust(s, clear, 0.5), shares(s), _marks(s))


def ridge(s: Signals) -> Verdict:
    """Between 30 and 60 % of both roofs and near the ridge point: no side can be asserted."""
    where = (s.best >= LOW) & (s.margin < RIDGE_BAND)
    return Verdict(
        where, Bottleneck.UNKNOWN, 0.3, shares(s, "; near the ridge point: needs counters"), "ridge"
    )


def inefficient(s: Signals) -> Verdict:
    """Between 30 and 60 %: which roof it would meet first, no more."""
    return Verdict(
        s.best >= LOW, s.side, 0.4, shares(s, "; far from either roof: needs counters"), "inefficient"
    )


def starved(s: Signals) -> Verdict:
    """Under 30 % with too few thread blocks or too little time to fill the device."""
    few, short = s.ctas < s.sms, _short(s)
    sparse = s.ctas < SPARSE * s.sms
    known = ~np.isnan(s.best)

    def evidence(at: Positions) -> Phrases:
        grid = joined(number(s.ctas[at]), f" thread blocks on {s.sms:.0f} SMs")
        time = joined(number(s.dur[at] / 1e3), " us is near the launch floor")
        both = chosen(few[at] & short[at], ", ")
        return joined(chosen(few[at], grid), both, chosen(short[at], time), "; ", shares(s)(at))

    def confidence(at: Positions) -> Floats:
        return np.select([few[at] & short[at], short[at] | sparse[at]], [0.8, 0.7], 0.5)

    return Verdict(known & (few | short), Bottleneck.LATENCY, confidence, evidence)


def dispatching(s: Signals) -> Verdict:
    """Self time of a CPU op that neither computes nor moves anything itself: it calls others, or makes a view."""
    where = (s.kind == Kind.CPU_OP) & (s.compute == 0) & (s.dram == 0)
    return Verdict(where, Bottleneck.LATENCY, 0.7, "does its work through other ops: time of the call itself")


def idle_units(s: Signals) -> Verdict:
    """Under 30 % and nothing says why."""
    return Verdict(
        ~np.isnan(s.best), Bottleneck.UNKNOWN, 0.3, shares(s, "; low utilisation"), "low_utilisation"
    )


def moved_in_place(s: Signals) -> Verdict:
    """A fill or a copy on the device whose size or roof is not known."""
    where = (s.kind == Kind.MEMCPY) | (s.kind == Kind.MEMSET)
    return Verdict(where & (s.dur >= TINY_NS), Bottleneck.DRAM, 0.5, "moves bytes on the device, by its kind")


def tiny(s: Signals) -> Verdict:
    """Work unknown, but the time is that of a launch."""
    gpu = (s.dur < TINY_NS) & (s.kind != Kind.CPU_OP)
    where = gpu | (s.dur < 2 * s.floor) | (_short(s) & (s.ctas < s.sms))

    def evidence(at: Positions) -> Phrases:
        return joined(number(s.dur[at] / 1e3), " us is near the launch floor; work or roof unknown")

    return Verdict(where, Bottleneck.LATENCY, 0.5, evidence, "no_work_model")


def memory_by_name(s: Signals) -> Verdict:
    """Work unknown; kernels of this family, or of this family in decode, usually read DRAM."""
    decode = s.phase == Phase.DECODE
    where = _family(s, _MEMORY_FAMILIES) | (decode & _family(s, (*_MATRIX_FAMILIES, *_ATTENTION_FAMILIES)))
    return Verdict(
        where, Bottleneck.DRAM, 0.35, "by family and phase alone; work or roof unknown", "no_work_model"
    )


def compute_by_name(s: Signals) -> Verdict:
    """Work unknown; matrix products and attention of a prefill usually meet the compute roof."""
    where = (s.phase == Phase.PREFILL) & _family(s, (*_MATRIX_FAMILIES, *_ATTENTION_FAMILIES))
    return Verdict(
        where, Bottleneck.COMPUTE, 0.3, "by family and phase alone; work or roof unknown", "no_work_model"
    )


def nothing_known(s: Signals) -> Verdict:
    """No work, no telling time, no telling family."""
    return Verdict(
        np.ones(len(s.dur), dtype=bool), Bottleneck.UNKNOWN, 0.0, "work or roof unknown", "no_work_model"
    )


RULES: tuple[Rule, ...] = (
    l2_resident, above_roof, high, tail, likely, ridge, inefficient, starved,
    dispatching, idle_units,
    moved_in_place, tiny, memory_by_name, compute_by_name, nothing_known,
)  # fmt: skip


def _family(s: Signals, prefixes: tuple[str, ...]) -> Bools:
    return where(s.family, lambda family: family.startswith(prefixes))


def _short(s: Signals) -> Bools:
    """What the roofs do not explain of a kernel's time is no more than the fixed cost of a kernel."""
    fixed = s.dur * (1 - np.nan_to_num(s.best, nan=0.0))
    gpu = (fixed < SHORT_NS) & (s.kind != Kind.CPU_OP)
    return np.asarray(gpu | (s.dur < 2 * s.floor), dtype=bool)


def _trust(s: Signals, measured: Floats | float, spec: float) -> Callable[[Positions], Floats]:
    """Confidence by the roof's source; less near the ridge, and where the L2 may have served the bytes."""

    def confidence(at: Positions) -> Floats:
        base = np.where(s.measured[at], measured if isinstance(measured, float) else measured[at], spec)
        base = np.where(s.margin[at] < RIDGE_BAND, np.minimum(base, 0.5), base)
        return np.where(_maybe_cached(s, at), np.minimum(base, 0.65), base)

    return confidence


def _maybe_cached(s: Signals, at: Positions) -> Bools:
    """Small activations just written may still be in the L2; weights and KV cache are read once a step."""
    touched = s.working_set[at]
    small = (touched < _L2_POSSIBLE * s.l2) & (touched - s.streamed[at] > 0.5 * touched)
    return np.asarray(small & ~s.is_compute[at] & ~s.dram_hw[at], dtype=bool)


def _marks(s: Signals) -> Callable[[Positions], Phrases]:
    def marks(at: Positions) -> Phrases:
        compute, dram = s.compute[at], s.dram[at]
        balanced = (np.fmin(compute, dram) >= LIKELY) & (np.abs(compute - dram) <= 0.1)  # noqa: PLR2004 - ten points
        # Above the roof by less than the models' and data sheets' tolerance: the class stands, and it is said.
        above = chosen(np.fmax(s.of_roof[at], dram) > 1, "above_roof")
        return chosen(balanced, "balanced", chosen(_maybe_cached(s, at), "l2_resident_possible", above))

    return marks
