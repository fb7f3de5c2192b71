"""The levers of LLM inference, each with the time that it would save by the model's own bytes.

All of them need known weight or KV bytes, and a DRAM roof; without these they say nothing.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from tracekit.classify.case import Case, Finding, top_names
from tracekit.classify.signals import Bools, words
from tracekit.tables import Kind, Phase
from tracekit.tables.columns import column
from tracekit.tables.words import Bottleneck
from tracekit.units import digits, duration, percent, si

_NS = 1e9
_NEIGHBOURS = 4
_LIGHT = ("norm", "rope", "act", "elementwise", "eltwise", "mem", "copy", "cat", "reduce", "quant", "fused")
_PRODUCTS = ("aten::bmm", "aten::baddbmm", "aten::matmul")
_MEMORY_BOUND = (Bottleneck.DRAM.value, Bottleneck.UNKNOWN.value, Bottleneck.LATENCY.value)


def kv_quantisation(case: Case) -> Iterator[Finding]:
    """KV cache in one byte an element: half of the KV bytes of a 16-bit cache."""
    yield from _fewer_bytes(
        case, "kv_bytes", "the KV cache", "an 8-bit KV cache (fp8 or int8) halves its bytes, a 4-bit one quarters them; "
        "paged or grouped-query attention shares them",
    )  # fmt: skip


def weight_quantisation(case: Case) -> Iterator[Finding]:
    """Weights in one byte an element: half of the weight bytes of a 16-bit model."""
    yield from _fewer_bytes(
        case, "weight_bytes", "the weights", "8-bit weights (fp8 or int8) halve their bytes, 4-bit weights quarter them",
    )  # fmt: skip


def _fewer_bytes(case: Case, name: str, what: str, next_step: str) -> Iterator[Finding]:
    rate = case.ceilings.dram.achievable
    rows = _decode(case)
    if rate is None or rows.empty:
        return
    moved = column(rows, name)
    chosen = (moved > 0) & np.isin(words(rows, "bottleneck"), _MEMORY_BOUND)
    if not chosen.any():
        return
    half = moved[chosen] / 2 / rate * _NS
    # A kernel can lose no more than its own time, and in a host-bound step nothing.
    free = ~rows["held"].to_numpy(dtype=bool)[chosen]
    saved = float(
        np.where(free, np.minimum(half, rows["own_ns"].to_numpy(dtype=np.float64)[chosen]), 0.0).sum()
    )
    steps = len(case.steps_of(Phase.DECODE.value))
    total = float(np.nansum(moved[chosen]))
    share = total / float(np.nansum(column(rows, "dram_bytes")[chosen]) or np.nan)
    yield Finding(
        f"decode: half of {what} read is {duration(saved / max(steps, 1))} a step",
        Phase.DECODE.value,
        top_names(rows[chosen]),
        saved,
        0.6,
        f"{si(total / max(steps, 1), 'B')} a step, {percent(share)} of these kernels' bytes, at {si(rate, 'B/s')} achievable",
        next_step,
    )


def larger_batch(case: Case) -> Iterator[Finding]:
    """Weights read once for more tokens, until the products reach the ridge."""
    rate, rows = case.ceilings.dram.achievable, _decode(case)
    steps = case.steps_of(Phase.DECODE.value)
    tokens = column(steps, "generation_tokens")
    if rate is None or rows.empty or not (tokens > 0).any():
        return
    weights = column(rows, "weight_bytes")
    chosen = (
        (weights > 0) & (words(rows, "bottleneck") == Bottleneck.DRAM) & ~rows["held"].to_numpy(dtype=bool)
    )
    ridge = _ridge_tokens(case, rows[chosen])
    batch = float(np.nanmedian(tokens[tokens > 0]))
    if ridge is None or not chosen.any() or batch >= ridge:
        return
    spent = np.minimum(weights / rate * _NS, rows["own_ns"].to_numpy(dtype=np.float64))[chosen].sum()
    yield Finding(
        f"decode reads its weights for {batch:.0f} tokens a step; the ridge is near {ridge:.0f}",
        Phase.DECODE.value,
        top_names(rows[chosen]),
        float(spent) * (1 - batch / ridge),
        0.5,
        f"{duration(float(spent) / len(steps))} of weight reading a step; the same tokens in steps of {ridge:.0f} read them "
        f"{digits(ridge / batch)} times less often",
        "batch more requests a step while the KV cache fits and the latency target allows it",
    )


def _ridge_tokens(case: Case, rows: pd.DataFrame) -> float | None:
    """Tokens at which a weight read is as long as its math: 2 FLOP a weight and token, bytes/weight of the rows.

    With F = 2 M w/b FLOPs and w bytes of weights, M* = ridge b / 2; activations are left out, so it is low.
    """
    peaks = pd.Series(words(rows, "peak"))
    word = peaks[peaks != ""].mode()
    if word.empty or (ridge := case.ceilings.ridge(str(word.iloc[0]))) is None:
        return None
    width = {"fp8": 1.0, "int8": 1.0, "fp4": 0.5, "fp32": 4.0, "tf32": 4.0}.get(str(word.iloc[0]), 2.0)
    return ridge * width / 2


def fused_attention(case: Case) -> Iterator[Finding]:
    """A softmax between two batched products: attention whose scores go through DRAM."""
    for phase in case.phases():
        rows = case.of_phase(phase).sort_values("ts_ns", kind="stable")
        product = np.isin(words(rows, "op"), _PRODUCTS)
        named = pd.Series(words(rows, "family")).str.startswith("softmax").to_numpy(dtype=bool)
        softmax = named | np.isin(words(rows, "op"), ["aten::softmax", "aten::_softmax"])
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
            top_names(rows[chain]),
            lost,
            0.7,
            f"{int(unfused.sum())} softmax kernels between batched products; they and their neighbours take "
            f"{duration(float(rows['own_ns'].to_numpy(dtype=np.float64)[chain].sum()))}",
            "use FlashAttention or SDPA: scores then never reach DRAM",
        )


def fusion(case: Case) -> Iterator[Finding]:
    """Runs of element-wise and normalisation kernels, each of which reads what the one before has written.

    A fused run still takes as long as its longest kernel; the rest is what could go.
    """
    rows = case.rows.sort_values(["ts_ns"], kind="stable")
    rows = rows[words(rows, "kind") == Kind.KERNEL]
    for phase in case.phases():
        mine = rows[words(rows, "phase") == phase]
        light = pd.Series(words(mine, "family")).str.startswith(_LIGHT).to_numpy(dtype=bool)
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
            top_names(mine[inside]) if inside.any() else (),
            lost,
            0.5,
            f"{int((size > 1).sum())} runs of {digits(float(size[size > 1].mean() if (size > 1).any() else 0))} kernels take "
            f"{duration(float(column(mine, 'own_ns')[inside].sum()))}; one kernel a run would save {duration(lost)}",
            "compile the model, or use fused norm, rotary and activation kernels",
        )


def _lately(marks: Bools) -> Bools:
    """Whether a row or one of the few before it is marked."""
    recent = pd.Series(marks).rolling(_NEIGHBOURS + 1, min_periods=1).max()
    return np.asarray(recent.to_numpy() > 0, dtype=bool)


def faster_memory(case: Case) -> Iterator[Finding]:
    """The same DRAM-bound bytes on the next device that is given."""
    own, rows = case.ceilings.dram.used, _decode(case)
    faster = {name: rate for name, rate in case.faster.items() if own is not None and rate > own}
    if own is None or not faster or rows.empty:
        return
    bound = (words(rows, "bottleneck") == Bottleneck.DRAM) & ~rows["held"].to_numpy(dtype=bool)
    spent = float(rows["own_ns"].to_numpy(dtype=np.float64)[bound].sum())
    name, rate = min(faster.items(), key=lambda item: item[1])
    yield Finding(
        f"decode: DRAM-bound kernels scale with the memory of {name}",
        Phase.DECODE.value,
        top_names(rows[bound]),
        spent * (1 - own / rate),
        0.4,
        f"{duration(spent)} DRAM-bound at {si(own, 'B/s')}; {name} has {si(rate, 'B/s')}",
        f"`tracekit whatif --device` for {name}",
    )


def _decode(case: Case) -> pd.DataFrame:
    return case.of_phase(Phase.DECODE.value)


RULES: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    kv_quantisation, weight_quantisation, larger_batch, fused_attention, fusion, faster_memory,
)  # fmt: skip
