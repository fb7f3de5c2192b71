"""The answer: floor, expected time, memory, and what each lever would do."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from msgspec import Struct

from tracekit.errors import TracekitError
from tracekit.tables.ceilings import Ceilings
from tracekit.units import si
from tracekit.whatif.assumptions import assumptions
from tracekit.whatif.efficiency import (
    COLLECTIVE_S,
    SPREAD,
    Observed,
    Point,
    default_by_group,
    expected_by_group,
)
from tracekit.whatif.floors import Load, all_reduce_s, floor_s, is_floor, loads, ridge_batch
from tracekit.whatif.memory import Memory, memory
from tracekit.whatif.scenario import Scenario

SCHEMA_VERSION = 1
_THIN_SPREAD = 0.15
"""Widening of the interval for each factor of e between the rows of products left of the ridge: predictions of a small
model on a CPU were off by a third from 1 to 4 rows, and by 44 % from 1 to 16."""
_REPLAYED = 0.5
"""Share of kernels from graphs above which a capture replays already: its waits for the host are of another kind."""


@dataclass(frozen=True, slots=True)
class Target:
    """A device to ask about.

    Attributes:
        ceilings: Its ceilings.
        capacity: Its memory [byte]; None where not known.
    """

    ceilings: Ceilings
    capacity: float | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A captured phase that predictions start from.

    Attributes:
        scenario: What it ran.
        target: The device it ran on.
        observed: Its times.
        label: Its path.
    """

    scenario: Scenario
    target: Target
    observed: Observed
    label: str

    def point(self) -> Point:
        """The captured step, to scale times from."""
        return point(self.scenario, self.target)


def point(scenario: Scenario, target: Target) -> Point:
    """A step on a device, to scale times from or to."""
    rows = float(scenario.batch * scenario.queries)
    return Point(loads(scenario, target.ceilings), target.ceilings, rows)


class MemoryUse(Struct, frozen=True):
    """Bytes of one rank, and what still fits."""

    weight_bytes: float
    kv_bytes: float
    capacity_bytes: float | None
    most_requests: int | None
    most_tokens: int | None
    fits: bool | None


class Answer(Struct, frozen=True):
    """What a step costs. Times in seconds a step, bytes and operations of one rank a step."""

    floor_s: float
    expected_s: float
    expected_low_s: float
    expected_high_s: float
    tokens_per_s: float
    floor_tokens_per_s: float
    weight_bytes: float
    kv_bytes: float
    flops: float
    arithmetic_intensity: float
    bound_by: str
    bound_share: float
    mfu: float
    mbu: float
    ridge_batch: float | None
    groups_s: dict[str, float]
    memory: MemoryUse


class Lever(Struct, frozen=True):
    """One change by itself."""

    lever: str
    expected_s: float
    floor_s: float
    speedup: float
    note: str


class WhatIf(Struct, frozen=True):
    """The document of `whatif --json`: the asked step, the captured one, and each lever by itself."""

    schema_version: int
    model: str
    phase: str
    device: str | None
    floor_s: float
    expected_s: float
    weight_bytes: float
    kv_bytes: float
    flops: float
    bound_by: str
    mfu: float
    mbu: float
    answer: Answer
    captured: Answer | None
    measured_s: float | None
    levers: list[Lever]
    assumptions: list[str]


def answer(scenario: Scenario, target: Target, seen: Seen | None = None) -> Answer:
    """What a step costs at best and by expectation.

    Args:
        scenario: What is asked.
        target: The device.
        seen: A capture to take the efficiency of each group of kernels from.

    Raises:
        UnsupportedError: A ceiling that is needed is not known, or the model does not divide into the ranks.
    """
    scenario.checked()
    parts = loads(scenario, target.ceilings)
    link, collectives = all_reduce_s(scenario, target.ceilings)
    floor = floor_s(parts, target.ceilings) + link
    groups, overhead, spread = _expected(parts, scenario, target, seen)
    if collectives:
        groups["all_reduce"] = (
            all_reduce_s(scenario, target.ceilings, achievable=True)[0] + collectives * COLLECTIVE_S
        )
    groups |= overhead
    least = floor * _under_floor(seen)
    expected = max(least, sum(groups.values()))
    bound, share = _bound(parts, target.ceilings, link)
    weights, kv = (sum(getattr(part, name) for part in parts) for name in ("weight_bytes", "kv_bytes"))
    flops = sum(part.flops for part in parts if is_floor(part))
    compute = sum(part.compute_s(target.ceilings) for part in parts if is_floor(part))
    moved = sum(part.weight_bytes + part.kv_bytes for part in parts if is_floor(part))
    streamed = sum(part.dram_s(target.ceilings, activations=False) for part in parts if is_floor(part))
    return Answer(
        floor_s=floor,
        expected_s=expected,
        expected_low_s=max(least, expected * (1 - spread)),
        expected_high_s=expected * (1 + spread),
        tokens_per_s=scenario.tokens_won / expected,
        floor_tokens_per_s=scenario.tokens_won / floor,
        weight_bytes=weights,
        kv_bytes=kv,
        flops=flops,
        arithmetic_intensity=flops / moved,
        bound_by=bound,
        bound_share=share,
        mfu=compute / expected,
        mbu=streamed / expected,
        ridge_batch=ridge_batch(parts, scenario, target.ceilings),
        groups_s=groups,
        memory=_memory(memory(scenario, target.capacity), scenario),
    )


def _under_floor(seen: Seen | None) -> float:
    """How far under its floor a captured step came, 1 where it did not: its roofs are too low, or caches served it."""
    if seen is None or not seen.observed.wall_s:
        return 1.0
    own, _ = all_reduce_s(seen.scenario, seen.target.ceilings)
    own += floor_s(seen.point().loads, seen.target.ceilings)
    return min(1.0, seen.observed.wall_s / own)


def _expected(
    parts: list[Load], scenario: Scenario, target: Target, seen: Seen | None
) -> tuple[dict[str, float], dict[str, float], float]:
    """Time by group, time beside the groups, and the relative half-width of the interval."""
    if seen is None:
        return dict(default_by_group(parts, target.ceilings)), {}, SPREAD
    before, after = seen.point(), point(scenario, target)
    groups = dict(expected_by_group(before, after, seen.observed))
    groups |= {
        group: time
        for group, time in default_by_group(parts, target.ceilings)
        if group not in groups and group != "pointwise"
    }
    host = 0.0 if scenario.cuda_graphs else seen.observed.host_s
    rest = {"other": seen.observed.other_s, "idle": seen.observed.idle_s - seen.observed.host_s + host}
    apart = abs(
        math.log(
            sum(part.least_s(target.ceilings) for part in parts)
            / sum(part.least_s(seen.target.ceilings) for part in before.loads)
        )
    )
    rows = abs(math.log(after.thin_rows() / before.thin_rows()))
    # The further the asked step is from the captured one, the less its efficiency says; most of all of thin products.
    return groups, rest, min(0.5, max(0.05, seen.observed.spread) + 0.1 * apart + _THIN_SPREAD * rows)


def _bound(parts: list[Load], ceilings: Ceilings, link: float) -> tuple[str, float]:
    """What holds most of the floor: compute, reading weights, the KV cache, or the link; and its share."""
    sums = {"compute": 0.0, "weights": 0.0, "kv_cache": 0.0, "link": link}
    for part in (part for part in parts if is_floor(part)):
        least = part.least_s(ceilings, activations=False)
        if part.compute_s(ceilings) >= part.dram_s(ceilings, activations=False):
            sums["compute"] += least
        else:
            sums["kv_cache" if part.kv_bytes > part.weight_bytes else "weights"] += least
    word = max(sums, key=lambda name: sums[name])
    whole = sum(sums.values())
    return word, sums[word] / whole if whole else 0.0


def _memory(used: Memory, scenario: Scenario) -> MemoryUse:
    fits = None if used.most_requests is None else used.most_requests >= scenario.batch
    return MemoryUse(
        used.weight_bytes, used.kv_bytes, used.capacity_bytes, used.most_requests, used.most_tokens, fits
    )


def what_if(
    scenario: Scenario, target: Target, seen: Seen | None = None, other: Target | None = None
) -> WhatIf:
    """The whole answer, with each lever by itself.

    Args:
        scenario: What is asked.
        target: The device.
        seen: A captured phase to start from.
        other: A device with faster memory, to show what that would do; None for none.

    Raises:
        UnsupportedError: A ceiling that is needed is not known, or the model does not divide into the ranks.
    """
    asked = answer(scenario, target, seen)
    captured = None if seen is None else answer(seen.scenario, seen.target, seen)
    return WhatIf(
        SCHEMA_VERSION,
        scenario.config.name,
        scenario.phase,
        target.ceilings.device,
        asked.floor_s,
        asked.expected_s,
        asked.weight_bytes,
        asked.kv_bytes,
        asked.flops,
        asked.bound_by,
        asked.mfu,
        asked.mbu,
        asked,
        captured,
        None if seen is None else seen.observed.wall_s,
        [*levers(scenario, target, asked, seen), *_elsewhere(scenario, asked, seen, other)],
        assumptions(scenario, target.ceilings, None if seen is None else (seen.label, seen.target.ceilings)),
    )


def _decode_levers(scenario: Scenario) -> dict[str, tuple[Callable[[Scenario], Scenario], str]]:
    return {
        "kv-dtype fp8": (lambda s: replace(s, kv_dtype="fp8"), "halves the cache's bytes, not the weights'"),
        "weight-dtype fp8": (
            lambda s: replace(s, weight_dtype="fp8"),
            "products run in fp8 where the device has it",
        ),
        "weight-dtype int4": (
            lambda s: replace(s, weight_dtype="int4"),
            "weights alone; arithmetic stays as it is",
        ),
        f"batch {2 * scenario.batch}": (
            lambda s: replace(s, batch=2 * s.batch),
            "reads the weights once for twice the requests",
        ),
        "speculative 4,0.7": (
            lambda s: replace(s, draft=4, accept=0.7),
            "cost of the draft model not counted",
        ),
    }


def _prefill_levers(scenario: Scenario) -> dict[str, tuple[Callable[[Scenario], Scenario], str]]:
    found: dict[str, tuple[Callable[[Scenario], Scenario], str]] = {
        "weight-dtype fp8": (
            lambda s: replace(s, weight_dtype="fp8"),
            "products run in fp8 where the device has it",
        ),
        f"batch {2 * scenario.batch}": (
            lambda s: replace(s, batch=2 * s.batch),
            "helps only left of the ridge",
        ),
    }
    if scenario.queries > 1:
        half = scenario.queries // 2
        found[f"chunk {half}"] = (
            lambda s: replace(s, chunk=half),
            "shorter steps; each reads the weights again",
        )
    return found


def levers(scenario: Scenario, target: Target, asked: Answer, seen: Seen | None) -> list[Lever]:
    """Each lever of the phase by itself, by tokens a second against the asked step; those that cannot be are left out."""
    chosen = _decode_levers(scenario) if scenario.phase == "decode" else _prefill_levers(scenario)
    chosen["tp 2"] = (
        lambda s: replace(s, ranks=2 * s.ranks),
        "two all-reduces a layer; tokens/s of the group",
    )
    most = asked.memory.most_requests
    if scenario.phase == "decode" and most is not None and most > 2 * scenario.batch:
        chosen[f"batch {most}"] = (
            lambda s: replace(s, batch=most),
            "as many as the memory holds, which a paged cache lets a batch reach",
        )
    if seen is not None and seen.observed.replayed < _REPLAYED:
        chosen["cuda-graphs"] = (
            lambda s: replace(s, cuda_graphs=True),
            "removes the waits for the host alone",
        )
    out = []
    for name, (change, note) in chosen.items():
        changed = change(scenario)
        if changed == scenario:
            continue
        try:
            found = answer(changed, target, seen)
        except TracekitError:
            continue
        shown = f"tp {changed.ranks}" if name.startswith("tp") else name
        out.append(
            Lever(shown, found.expected_s, found.floor_s, found.tokens_per_s / asked.tokens_per_s, note)
        )
    return out


def _elsewhere(scenario: Scenario, asked: Answer, seen: Seen | None, other: Target | None) -> Iterator[Lever]:
    """The same step on another device."""
    if other is None:
        return
    try:
        found = answer(scenario, other, seen)
    except TracekitError:
        return
    rate = other.ceilings.dram.used or 0.0
    yield Lever(
        f"device {other.ceilings.device}",
        found.expected_s,
        found.floor_s,
        found.tokens_per_s / asked.tokens_per_s,
        f"memory of {si(rate, 'B/s')}",
    )
