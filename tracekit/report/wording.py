"""The sentences that every rendering of a report shares, so that they tell one story."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from tracekit.counters.match import SAID, Level
from tracekit.report.contract import FindingRow, PhaseRow, QualityRow, Summary
from tracekit.tables import Phase
from tracekit.taxonomy import demangle
from tracekit.units import digits, duration, number_of, percent, plain, si

PLAIN_BOUND = {
    "compute": "arithmetic",
    "dram": "DRAM bandwidth",
    "l2": "L2 cache",
    "latency": "latency",
    "communication": "communication",
    "copy": "copies",
    "unknown": "nothing told apart",
}
_CAUSES = {
    "host": "the host",
    "sync": "synchronisation",
    "dependency": "dependencies",
    "unknown": "causes that cannot be told",
}
STATUS_SAID = {
    "measured": "measured",
    "not_collected": "not collected",
    "unsupported": "not available on this chip",
    "failed": "failed to be read",
}
_IDLE_MATTERS, _MOSTLY_IDLE = 0.2, 0.5
_DOMINANT = 0.5
LEAST_KNOWN = 0.05
_NEARLY_ALL = 0.95
_LONGEST_READ = 1000
_OPENED_BY = {")": "(", ">": "<"}
_NAME_SPACES = re.compile(r"\b(?:[A-Za-z_]\w*::)+")
_BEHIND = 0.5
_WHOLE_PERCENT = 0.0995
_LEAST_SHOWN = 0.0005
_SURE = 0.5
_MOST_RANKS = 8


def roof_word(summary: Summary) -> str:
    """What a percentage of a roof is of: `measured`, `spec`, or `-` where there is none."""
    return summary.roof_used or "-"


def top_bottleneck(phase: PhaseRow) -> tuple[str, float] | None:
    """The class that holds most of the phase's time, and its share."""
    return next(iter(phase.bottlenecks.items()), None)


def idle_share(phase: PhaseRow) -> float | None:
    """Idle time over the wall time of the phase's steps."""
    if phase.wall_from != "steps" or not phase.wall_ns:
        return None
    return sum(phase.idle_ns.values()) / phase.wall_ns


def idle_bound(phase: PhaseRow) -> tuple[str, float] | None:
    """The cause of most idle time and the idle share, where a device is idle for more than half of a phase."""
    idle = idle_share(phase)
    return None if idle is None or idle <= _MOSTLY_IDLE else (next(iter(phase.idle_ns)), idle)


def verdict(phase: PhaseRow) -> str:
    """What bounds a phase, in one sentence; where the device is mostly idle, that comes first."""
    if (waiting := idle_bound(phase)) is not None:
        cause, share = waiting
        return f"bound by {_CAUSES.get(cause, cause)}: the device is idle {percent(share)} of the wall time; kernel time: {_kernels_bound(phase)}"
    idle, waits = idle_share(phase), ""
    if idle is not None and idle >= _IDLE_MATTERS:
        cause = next(iter(phase.idle_ns))
        waits = f"; the device is idle {percent(idle)} of the wall time, mostly because of {_CAUSES.get(cause, cause)}"
    return f"{_kernels_bound(phase)}{waits}"


def _kernels_bound(phase: PhaseRow) -> str:
    """What bounds the kernels of a phase."""
    top = top_bottleneck(phase)
    if top is None:
        return "no kernel time"
    word, share = top
    if word == "unknown":
        then = next((other for other in list(phase.bottlenecks.items())[1:]), None)
        second = "" if then is None else f", then {PLAIN_BOUND[then[0]]} ({percent(then[1])})"
        return f"bound cannot be told for {percent(share)} of the time{second}"
    how = "mostly" if share >= _DOMINANT else "first"
    sure = phase.bottleneck_confidence.get(word, 0.0)
    how = how if sure >= _SURE else f"(a guess, confidence {sure:.2f}) {how}"
    return f"bound {how} by {PLAIN_BOUND[word]} ({percent(share)} of the time)"


def adds_phase(finding: FindingRow) -> bool:
    """Whether a finding's phase says what its title does not."""
    return bool(finding.phase) and finding.phase != Phase.UNKNOWN and finding.phase not in finding.title


def brief(share: float | None) -> str:
    """A share in a narrow column: `41%`, `4.1%`."""
    if share is None or math.isnan(share):
        return "-"
    if share >= _WHOLE_PERCENT:
        return f"{100 * share:.0f}%"
    return f"{100 * share:.1f}%" if share >= _LEAST_SHOWN or share == 0 else "<0.1%"


def of_roofs(phase: PhaseRow, name: str) -> list[str]:
    """Shares of the roofs that a rate reaches, one a kind that is known: `83% meas`, `61% spec`.

    Args:
        phase: The phase.
        name: `compute`, `dram`, `mfu` or `mbu`.
    """
    kinds = (("measured", phase.of_measured), ("spec", phase.of_spec))
    found = [(word, getattr(shares, name)) for word, shares in kinds if shares is not None]
    return [of_roof(share, word) or f"- {word[:4]}" for word, share in found]


def launches(phase: PhaseRow) -> str | None:
    """How far the host runs ahead of the device; None without launch records."""
    found = phase.launches
    if found is None:
        return None
    call = "" if found.call_ns is None else f" of {duration(found.call_ns)}"
    behind = "the host is behind" if found.queued < _BEHIND else "the host is ahead"
    return (
        f"{number_of(found.n, 'launch', 'launches')}{call}, {percent(found.queued)} queued ({behind}); first kernel "
        f"{duration(found.delay_ns)} after the call (95 %: {duration(found.delay_p95_ns)}), at most {found.deepest} waiting"
    )


def profiler(phase: PhaseRow) -> str | None:
    """How much of a step is the profiler's; None where no time without it was given."""
    found = phase.profiler
    if found is None:
        return None
    told = f"a step takes {duration(found.profiled_ns)} under the profiler and {duration(found.unprofiled_ns)} without (given)"
    over = found.profiled_ns - found.unprofiled_ns
    if over <= 0:
        return f"{told}: nothing of it is the profiler's"
    if over <= found.host_ns:
        return f"{told}: {duration(over)} are the profiler's, {percent(found.host_share)} of the {duration(found.host_ns)} that the device waits for the host"
    return (
        f"{told}; of these {duration(over)} the profiler can have cost at most the {duration(found.host_ns)} that the device "
        "waits for the host: the given time is of another step, with other tokens or clocks"
    )


def of_roof(share: float | None, roof: str) -> str:
    """A share of a roof, with which: `41% spec`."""
    return "" if share is None or roof == "-" else f"{brief(share)} {roof[:4]}"


def intensity(value: float | None) -> str:
    """Arithmetic intensity with its unit."""
    return "-" if value is None or math.isnan(value) else f"{digits(value)} FLOP/B"


def listed(shares: Mapping[str, float], least: float = 0.005) -> str:
    """Shares as text, largest first; what is under `least` is put together."""
    shown = [f"{word} {percent(share)}" for word, share in shares.items() if share >= least]
    rest = sum(share for share in shares.values() if share < least)
    return ", ".join([*shown, f"rest {percent(rest)}"] if rest > 0 else shown) or "-"


def coverage_line(summary: Summary) -> str:
    """How much of the time each stage could say something about."""
    found = summary.coverage
    parts = (
        ("linked to a launch", found.linked),
        ("phase known", found.phase_known),
        ("work known", found.work_known),
        ("bottleneck told", found.classified),
    )
    return ", ".join(f"{what} {percent(share)}" for what, share in parts)


def has_rates(phase: PhaseRow) -> bool:
    """Whether so much of a phase's work is known that its rates say something of the phase."""
    return phase.work_known >= LEAST_KNOWN


def display_name(name: str, width: int) -> str:
    """A kernel name for a narrow column: without return type, arguments and name spaces, cut in the middle."""
    name = demangle(name)
    if "<" not in name and ("(" not in name or " (" in name):
        return plain(name, width)
    # The rest of a longer name could not be shown, and a name is hostile input.
    seen = name[:_LONGEST_READ].replace("(anonymous namespace)::", "").replace("->", "")
    start, end = _function(seen)
    return plain(_NAME_SPACES.sub("", seen[start:end]) or name, width)


def _function(name: str) -> tuple[int, int]:
    """Where the function's own name with its template arguments begins and ends in a C++ signature."""
    start, open_brackets = 0, ""
    for at, character in enumerate(name):
        if not open_brackets and character == "(" and at > start:
            return start, at
        if not open_brackets and character == " ":
            start = at + 1
        elif character in "(<":
            open_brackets += character
        # A `>` inside parentheses compares: enable_if<(8 > 0)>.
        elif open_brackets.endswith(_OPENED_BY.get(character, " ")):
            open_brackets = open_brackets[:-1]
    return start, len(name)


def how_known(phase: PhaseRow) -> str:
    """What the phase and the work of its kernels were taken from."""
    told = (
        f"phase by {listed(_named(phase.evidence))}; FLOPs and bytes by {listed(_named(phase.work_sources))}"
    )
    if phase.apportioned:
        told = f"apportioned, not measured: {listed(phase.apportioned)} (by tokens, attention by query times key lengths); {told}"
    if not has_rates(phase):
        return f"{told}; too little is known for rates"
    if phase.work_known > _NEARLY_ALL:
        return told
    return f"{told}; rates are of the {percent(phase.work_known)} that is known, MFU and MBU lower bounds"


def _named(shares: Mapping[str, float]) -> dict[str, float]:
    return {"nothing" if word == "none" else word: share for word, share in shares.items()}


def counted(phase: PhaseRow) -> str | None:
    """What hardware counters say beside the model; None where there are none."""
    found = phase.counters
    if found is None:
        return None
    parts = [f"counters of {percent(found.time_share)} of the time" if found.time_share else "no counters"]
    rest = {STATUS_SAID[word]: share for word, share in found.status.items() if word != "measured"}
    if rest:
        parts[0] += f" ({listed(rest)})"
    if found.dram_over_least is not None:
        parts.append(
            f"{si(found.moved_bytes, 'B')} of DRAM traffic where the model needs {si(found.least_bytes, 'B')}: re-read factor {digits(found.dram_over_least)}"
        )
    elif phase.dram_bytes_hw is not None:
        parts.append(f"{si(phase.dram_bytes_hw, 'B')} of DRAM traffic, of kernels without a modelled least")
    if found.flops_over_model is not None:
        parts.append(f"{digits(found.flops_over_model)} times the modelled operations")
    if found.l2_hit is not None:
        parts.append(f"{percent(found.l2_hit)} of L2 sectors found there")
    if found.joined:
        parts.append(f"joined by {joined_by(found.joined)}")
    return "; ".join(parts)


def note(summary: Summary) -> str:
    """What the figures of a report are, in a few words."""
    measured = any(phase.dram_bytes_hw is not None for phase in summary.phases)
    traffic = "; DRAM rates use measured bytes where counters gave them" if measured else ""
    return f"FLOPs are useful work; bytes are minimum traffic, a lower bound{traffic}. Percentages of a roof are of the one named."


def joined_by(levels: Mapping[str, float]) -> str:
    """How counters found their kernels, in words."""
    return listed({SAID[Level(word)]: share for word, share in levels.items()})


def status(word: str) -> str:
    """A counter's status in words."""
    return STATUS_SAID[word]


def factor(value: float | None) -> str:
    """A factor: `2.00x`, `-` where unknown."""
    return "-" if value is None or math.isnan(value) else f"{digits(value)}x"


def roofs_line(summary: Summary) -> str:
    """The ceilings that kernels were held against, with their kind."""
    texts = []
    for word, roof in summary.roofs.items():
        if not roof.in_force:
            continue
        rate = roof.spec if roof.measured is None else roof.measured
        kind = (
            "measured"
            if roof.measured is not None
            else "spec"
            if roof.status == "checked"
            else f"spec, {roof.status}"
        )
        texts.append(f"{word} {si(rate, 'B/s' if word == 'dram' else 'FLOP/s')} ({kind})")
    return ", ".join(texts) or "none known: give --device NAME, or --peak and --dram"


def device_line(summary: Summary) -> str:
    """The device's name and what it was matched to."""
    device = summary.device
    name = device.name or "not named by the capture"
    if device.matched is None:
        return f"{name} (not in the device table)" if device.name else name
    return f"{name} (ceilings of {device.matched}; match: {device.match or 'given'})"


def warnings(summary: Summary) -> Iterator[str]:
    """One line a quality note and a capture that could not be read."""
    for error in summary.errors:
        reason = error.message.removeprefix(f"{error.path}: ")
        yield f"{error.path} could not be read: {reason}" + (f" ({error.hint})" if error.hint else "")
    merged: dict[tuple[str, str], list[QualityRow]] = {}
    for note in summary.quality:
        # That counters found their kernels is told beside the phases.
        if note.code != "counters_joined":
            merged.setdefault((note.code, note.message), []).append(note)
    for (code, message), notes in merged.items():
        where = _ranks([note.rank for note in notes]) if len(notes) > 1 else ""
        yield f"{code} ({sum(note.count for note in notes)}{where}): {message}"


def _ranks(ranks: Iterable[int | None]) -> str:
    """Which ranks said the same: `; ranks 0, 1`."""
    known = sorted({rank for rank in ranks if rank is not None})
    if not known:
        return ""
    shown = ", ".join(str(rank) for rank in known[:_MOST_RANKS])
    return f"; ranks {shown}" + (f" and {len(known) - _MOST_RANKS} more" if len(known) > _MOST_RANKS else "")
