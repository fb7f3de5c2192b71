"""A comparison as tables of text, which the terminal, Markdown and HTML show alike."""

from collections.abc import Iterator

from tracekit.compare.contract import Comparison, KernelChange, Pair, PhaseChange, PlaceChange, Verdicts
from tracekit.report.blocks import Block
from tracekit.report.wording import brief, display_name
from tracekit.units import digits, duration, si

TOP_KERNELS = 12
TOP_FAMILIES = 8
TOP_PLACES = 14
_NAME_WIDTH = 48
_SURE = 0.05
_WORDS = {
    "no_change": "no change",
    "slower": "slower",
    "faster": "faster",
    "insufficient": "too few steps to tell",
}
_HOW = {"exact": "same", "normalised": "other instance", "role": "replaced", "family": "replaced (by family)"}


def headline(comparison: Comparison) -> str:
    """The verdict in one line."""
    return f"{_WORDS[comparison.result.verdict]}: step time {change(comparison.result)}"


def change(result: Verdicts) -> str:
    """A ratio as a change with its interval: `+3.1 % (95 % interval +2.0 to +4.2 %)`."""
    if result.ratio is None:
        return "unknown"
    text = _signed(result.ratio - 1)
    if result.ci_low is None or result.ci_high is None:
        return f"{text} (no statistics)"
    return f"{text} (95 % interval {_signed(result.ci_low - 1)} to {_signed(result.ci_high - 1)})"


def blocks(comparison: Comparison) -> Iterator[Block]:
    """The tables, most important first."""
    phases = comparison.phases
    yield Block(
        "Step time by phase",
        ("Phase", "Verdict", "Wall a step", "Change", "Steps"),
        tuple(
            (p.phase, _WORDS[p.result.verdict], _arrow(p.wall_ns, duration), change(p.result), _steps(p))
            for p in phases
        ),
    )
    yield Block(
        "Where the change of a step comes from",
        ("Phase", "Count", "Time a call", "Mix", "Gaps", "Overlap", "Host idle", "Graph replays"),
        tuple(_part_row(p) for p in phases if p.parts is not None),
    )
    yield Block(
        "Roofline",
        ("Phase", "FLOP/s", "DRAM", "FLOP/byte", "MFU", "MBU", "Time a token", "Bound by"),
        tuple(_roof_row(p) for p in phases),
    )
    yield Block(
        "Families, largest change first",
        ("Phase", "Family", "Time a step", "Change"),
        tuple(
            (f.phase, f.family, _arrow(f.time_ns, duration), delta(f.delta_ns))
            for f in comparison.families[:TOP_FAMILIES]
        ),
    )
    yield Block(
        "Places in the layer, in their order",
        ("Phase", "Place", "Kernels", "Time a step", "Change"),
        tuple(
            (p.phase, p.place, _arrow(p.count, _count), _arrow(p.time_ns, duration), delta(p.delta_ns))
            for p in _told(comparison)
        ),
    )
    yield Block(
        "Kernels, largest change first",
        ("Kernel", "Phase", "How", "Launches", "Time a step", "Change", "Of roof", "Bound by", "Sure"),
        tuple(_kernel_row(k) for k in comparison.kernels[:TOP_KERNELS]),
    )


def _told(comparison: Comparison) -> list[PlaceChange]:
    """The places of most time or change; the others would hide them."""
    times = [max(p.time_ns.base or 0.0, p.time_ns.new or 0.0, abs(p.delta_ns)) for p in comparison.places]
    kept = sorted(range(len(times)), key=lambda at: -times[at])[:TOP_PLACES]
    return [comparison.places[at] for at in sorted(kept)]


def delta(ns: float) -> str:
    """A difference of times with its sign."""
    return f"+{duration(ns)}" if ns > 0 else duration(ns)


def _signed(share: float) -> str:
    return f"{'+' if share > 0 else ''}{digits(100 * share)} %"


def _steps(phase: PhaseChange) -> str:
    return f"{phase.result.n[0]} and {phase.result.n[1]}"


def _arrow(pair: Pair, show: object) -> str:
    texts = [show(value) if callable(show) else "-" for value in (pair.base, pair.new)]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} → {texts[1]}"


def _part_row(phase: PhaseChange) -> tuple[str, ...]:
    parts = phase.parts
    if parts is None:
        return ()
    times = (parts.count, parts.per_call, parts.mix, parts.gaps, parts.overlap)
    return (
        phase.phase,
        *map(delta, times),
        _arrow(phase.host_idle_ns, duration),
        _arrow(phase.graph_launches, _count),
    )


def _roof_row(phase: PhaseChange) -> tuple[str, ...]:
    return (
        phase.phase,
        _arrow(phase.flops_per_s, lambda value: si(value, "FLOP/s")),
        _arrow(phase.dram_bytes_per_s, lambda value: si(value, "B/s")),
        _arrow(phase.arithmetic_intensity, _count),
        _arrow(phase.mfu, brief),
        _arrow(phase.mbu, brief),
        _arrow(phase.ns_per_token, duration),
        _words(phase.bottleneck),
    )


def _kernel_row(kernel: KernelChange) -> tuple[str, ...]:
    return (
        _names(kernel),
        kernel.phase,
        _HOW.get(kernel.how, kernel.how),
        _arrow(kernel.count, _count),
        _arrow(kernel.time_ns, duration),
        delta(kernel.delta_ns),
        _arrow(kernel.roof_share, brief),
        _words(kernel.bottleneck),
        "-" if kernel.p_adjusted is None else ("yes" if kernel.p_adjusted < _SURE else "no"),
    )


def _names(kernel: KernelChange) -> str:
    """The kernel, or what was replaced by what, under the op that both serve."""
    texts = [_some(names) for names in (kernel.base_names, kernel.new_names)]
    shown = [text for text in texts if text]
    if kernel.how in {"exact", "normalised"} or len(shown) == 1:
        return shown[0]
    return f"{kernel.op or kernel.family}: {shown[0]} → {shown[1]}"


def _some(names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return display_name(names[0], _NAME_WIDTH) + more


def _words(pair: list[str | None]) -> str:
    texts = [word or "-" for word in pair]
    return texts[0] if texts[0] == texts[1] else " → ".join(texts)


def _count(value: float | None) -> str:
    return "-" if value is None else digits(value)
