"""The levers of LLM inference, each with the time that it would save by the model's own bytes.

All of them need known weight or KV bytes, and a DRAM roof; without these they say nothing.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from tracekit.classify.case import Case, Finding, top_names
from tracekit.classify.signals import Bools, Floats
from tracekit.tables import Kind, Phase
from tracekit.tables.columns import column
from tracekit.tables.stored import weight_item
from tracekit.tables.text import is_word, matches, numbers, valued, where
from tracekit.tables.words import Bottleneck
from tracekit.units import digits, duration, number_of, percent, si

_NS = 1e9
_NEIGHBOURS = 4
_LIGHT = ("norm", "rope", "act", "elementwise", "eltwise", "mem", "copy", "cat", "reduce", "quant", "fused")
_PRODUCTS = ("aten::bmm", "aten::baddbmm", "aten::matmul")
_WIDTHS = {"fp8": 1.0, "int8": 1.0, "fp4": 0.5, "int4": 0.5, "fp32": 4.0, "tf32": 4.0, "fp64": 8.0}
_INT4, _INT4_GROUPS = 0.5, 0.5 + 2 / 128
"""Bytes of a 4-bit element, without a scale, and with one of two bytes a group of 128."""
_SOME = 0.05
"""A width that saves less than this share of the bytes is not worth naming: they are that narrow already."""
_STEP_UP = 1.2
"""Another device's memory is worth naming where it is a fifth faster."""
_MEMORY_BOUND = (Bottleneck.DRAM.value, Bottleneck.UNKNOWN.value, Bottleneck.LATENCY.value)


def kv_quantisation(case: Case) -> Iterator[Finding]:
    """KV cache in fewer bits, and with fewer heads."""
    yield from _fewer_bytes(
        case, "kv_bytes", "a KV cache", _INT4,
        "store the cache in fp8 or int8; paging it moves the same bytes and lets the batch grow",
    )  # fmt: skip


def weight_quantisation(case: Case) -> Iterator[Finding]:
    """Weights in fewer bits than they have: those that a kernel's name tells to be narrow are taken as such."""
    yield from _fewer_bytes(
        case, "weight_bytes", "weights", _INT4_GROUPS,
        "quantise the weights; 4 bits move fewer bytes, the arithmetic stays that of the activations",
    )  # fmt: skip


def _fewer_bytes(case: Case, name: str, what: str, four_bits: float, next_step: str) -> Iterator[Finding]:
    rate, rows = case.ceilings.dram.achievable, _decode(case)
    if rate is None or rows.empty:
        return
    chosen = (column(rows, name) > 0) & is_word(rows, "bottleneck", *_MEMORY_BOUND)
    rows = rows[chosen]
    if rows.empty:
        return
    moved, width = column(rows, name), _width(rows)
    steps = max(1, len(case.steps_of(Phase.DECODE.value)))
    saved = {word: _saved(rows, moved * (1 - np.minimum(1.0, item / width)), rate)
             for word, item in (("8 bits", 1.0), ("4 bits", four_bits))}  # fmt: skip
    total = float(moved.sum())
    # What is that narrow already has next to nothing to save.
    saved = {word: won for word, won in saved.items() if won > _SOME * total / rate * _NS}
    if not saved:
        return
    word = next(iter(saved))
    share = total / float(np.nansum(column(rows, "dram_bytes")) or np.nan)
    more = [f"{wide} save {duration(won / steps)}" for wide, won in saved.items() if wide != word]
    if name == "kv_bytes":
        more.append(f"half as many KV heads save {duration(_saved(rows, moved / 2, rate) / steps)}")
    yield Finding(
        f"decode: {what} of {word} would save {duration(saved[word] / steps)} a step",
        Phase.DECODE.value,
        top_names(rows),
        saved[word],
        0.6,
        f"{si(total / steps, 'B')} a step now, {percent(share)} of these kernels' bytes, at {si(rate, 'B/s')} achievable; "
        + ", ".join(more),
        next_step,
    )


def _width(rows: pd.DataFrame) -> Floats:
    """Bytes of one stored element: by the kernel's name, else of its dtype, else two."""
    by_name, by_dtype = valued(rows["name"], weight_item), numbers(rows, "dtype", _WIDTHS)
    return np.where(np.isnan(by_name), np.nan_to_num(by_dtype, nan=2.0), by_name)


def _saved(rows: pd.DataFrame, fewer: Floats, rate: float) -> float:
    """Time of fewer bytes; a kernel can lose no more than its own time, and in a host-bound step nothing [ns]."""
    free = ~rows["held"].to_numpy(dtype=bool)
    return float(np.where(free, np.minimum(fewer / rate * _NS, column(rows, "own_ns")), 0.0).sum())


def larger_batch(case: Case) -> Iterator[Finding]:
    """Weights read once for more tokens, until the products reach the ridge."""
    rate, rows = case.ceilings.dram.achievable, _decode(case)
    steps = case.steps_of(Phase.DECODE.value)
    tokens = column(steps, "generation_tokens")
    if rate is None or rows.empty or not (tokens > 0).any():
        return
    weights = column(rows, "weight_bytes")
    bound = (weights > 0) & is_word(rows, "bottleneck", Bottleneck.DRAM)
    rows = rows[bound & ~rows["held"].to_numpy(dtype=bool)]
    batch = float(np.nanmedian(tokens[tokens > 0]))
    ridge = _ridge_tokens(case, rows, batch)
    if ridge is None or batch >= ridge:
        return
    spent = float(np.minimum(column(rows, "weight_bytes") / rate * _NS, column(rows, "own_ns")).sum())
    yield Finding(
        f"decode reads its weights for {number_of(round(batch), 'token')} a step; the ridge is near {ridge:.0f}",
        Phase.DECODE.value,
        top_names(rows),
        spent * (1 - batch / ridge),
        0.5,
        f"{duration(spent / len(steps))} of weight reading a step; the same tokens in steps of {ridge:.0f} read them "
        f"{digits(ridge / batch)} times less often",
        "batch more requests a step while the KV cache fits and the latency target allows it",
    )


def _ridge_tokens(case: Case, rows: pd.DataFrame, batch: float) -> float | None:
    """Tokens at which reading the weights is as long as the math on them.

    With W bytes of weights and F FLOPs of M tokens: W / B = (F / M) M* / P. Activations are left out, so it is low;
    experts that a larger batch would touch more of make it higher. None where FLOPs or roofs are unknown.
    """
    peaks = {word: roof.used for word, roof in case.ceilings.peaks.items() if roof.used is not None}
    math = column(rows, "flops") / numbers(rows, "peak", peaks)
    known = math > 0
    bandwidth = case.ceilings.dram.used
    if not known.any() or not bandwidth:
        return None
    return batch * float((column(rows, "weight_bytes")[known] / bandwidth).sum() / math[known].sum())


def fused_attention(case: Case) -> Iterator[Finding]:
    """A softmax between two batched products: attention whose scores go through DRAM."""
    for phase in case.phases():
        rows = case.of_phase(phase)
        if not _is_softmax(rows).any():
            continue
        rows = rows.sort_values("ts_ns", kind="stable")
        product, softmax = is_word(rows, "op", *_PRODUCTS), _is_softmax(rows)
        between = _lately(product) & _lately(product[::-1])[::-1]
        chain = between & ~product & (_lately(softmax) | _lately(softmax[::-1])[::-1])
        unfused = softmax & chain
        if not unfused.any():
            continue
        free = ~rows["held"].to_numpy(dtype=bool)
        lost = float(rows["own_ns"].to_numpy(dtype=np.float64)[chain & free].sum())
        yield Finding(
            f"{phase}: attention is unfused",
            phase,
            top_names(rows, chain),
            lost,
            0.7,
            f"{number_of(int(unfused.sum()), 'softmax kernel')} between batched products; with their neighbours "
            f"{duration(float(rows['own_ns'].to_numpy(dtype=np.float64)[chain].sum()))}",
            "use FlashAttention or SDPA: scores then never reach DRAM",
        )


def _is_softmax(rows: pd.DataFrame) -> Bools:
    return matches(rows["family"], "^softmax") | is_word(rows, "op", "aten::softmax", "aten::_softmax")


def fusion(case: Case) -> Iterator[Finding]:
    """Runs of element-wise and normalisation kernels, each of which reads what the one before has written.

    A fused run still takes as long as its longest kernel; the rest is what could go.
    """
    kernel = is_word(case.rows, "kind", Kind.KERNEL)
    for phase in case.phases():
        mine = case.rows[kernel & case.is_in(phase)].sort_values("ts_ns", kind="stable")
        light = where(mine["family"], lambda family: family.startswith(_LIGHT))
        if not light.any():
            continue
        place = np.stack([column(mine, "stream"), column(mine, "step_id")])
        moved = np.r_[True, np.any(place[:, 1:] != place[:, :-1], axis=0)]
        run = np.cumsum(moved | np.r_[True, light[1:] != light[:-1]])
        own = pd.Series(np.where(mine["held"], 0.0, column(mine, "own_ns")))[light].groupby(run[light])
        size = own.size()
        lost = float((own.sum() - own.max())[size > 1].sum())
        inside = light & np.isin(run, size.index[size > 1])
        yield Finding(
            f"{phase}: {int(inside.sum())} element-wise kernels stand in runs that could be fused",
            phase,
            top_names(mine, inside) if inside.any() else (),
            lost,
            0.5,
            f"{number_of(int((size > 1).sum()), 'run')} of {digits(float(size[size > 1].mean() if (size > 1).any() else 0))} kernels take "
            f"{duration(float(column(mine, 'own_ns')[inside].sum()))}; one kernel a run would save {duration(lost)}",
            "compile the model, or use fused norm, rotary and activation kernels",
        )


def _lately(marks: Bools) -> Bools:
    """Whether a row or one of the few before it is marked."""
    recent = pd.Series(marks).rolling(_NEIGHBOURS + 1, min_periods=1).max()
    return np.asarray(recent.to_numpy() > 0, dtype=bool)


def faster_memory(case: Case) -> Iterator[Finding]:
    """The same DRAM-bound bytes on the next device that is given, data sheet against data sheet.

    Kernels whose bytes nobody knows are left out: that they wait for memory was told by their name.
    """
    roof, rows = case.ceilings.dram, _decode(case)
    own = roof.used if roof.spec is None else roof.spec
    faster = {name: rate for name, rate in case.faster.items() if own is not None and rate >= _STEP_UP * own}
    if own is None or not faster or rows.empty:
        return
    known = ~np.isnan(np.fmax(column(rows, "dram_bytes"), column(rows, "dram_bytes_hw")))
    bound = known & is_word(rows, "bottleneck", Bottleneck.DRAM) & ~rows["held"].to_numpy(dtype=bool)
    if not bound.any():
        return
    spent = float(column(rows, "own_ns")[bound].sum())
    steps = max(1, len(case.steps_of(Phase.DECODE.value)))
    name, rate = min(faster.items(), key=lambda item: item[1])
    won = spent * (1 - own / rate)
    yield Finding(
        f"decode: the memory of {name} would save {duration(won / steps)} a step",
        Phase.DECODE.value,
        top_names(rows, bound),
        won,
        0.4,
        f"{duration(spent / steps)} a step is DRAM-bound at {si(own, 'B/s')}; {name} has {si(rate, 'B/s')}",
        "`tracekit whatif` on this capture, with --device, says it for the whole step",
    )


def _decode(case: Case) -> pd.DataFrame:
    return case.of_phase(Phase.DECODE.value)


RULES: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    kv_quantisation, weight_quantisation, larger_batch, fused_attention, fusion, faster_memory,
)  # fmt: skip
