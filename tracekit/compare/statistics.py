"""Is a difference real: ratios of medians over steps, with intervals, a noise floor and a verdict.

The unit of evidence is the step. Where a side has several captures, the drift between them is part of the noise,
and the interval is Student's t over the captures' medians or the bootstrap over steps, whichever is wider.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Verdict = Literal["no_change", "slower", "faster", "insufficient"]

LEAST_STEPS = 10
"""Steps a side below which nothing is said."""
LEAST_EFFECT = 0.02
"""Relative change below which nothing is called slower or faster."""
DRAWS = 2000
ALPHA = 0.05
_FLOOR_MADS = 3.0
_T_LIMIT = 1e6


@dataclass(frozen=True, slots=True)
class Change:
    """How one quantity changed from base to new.

    Attributes:
        verdict: `insufficient` with fewer than `LEAST_STEPS` steps on a side.
        ratio: New over base, of medians; None where a side has none.
        ci_low: Lower end of the 95 % interval of the ratio; None where there are too few steps.
        ci_high: Its upper end.
        floor: Relative change that was required: the larger of `LEAST_EFFECT` and the noise floor.
        n_base: Steps of base.
        n_new: Steps of new.
        drift_covered: Whether several captures of a side put the drift between runs into the interval.
        p: Two-sided probability of such a ratio where nothing changed; None where there are too few steps.
    """

    verdict: Verdict
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    floor: float
    n_base: int
    n_new: int
    drift_covered: bool
    p: float | None


def measure(base: Sequence[Floats], new: Sequence[Floats], *, seed: int = 0) -> Change:
    """The change between two sides, each a list of captures with the times of their steps.

    Args:
        base: For each capture of the base, the times of its steps, all positive.
        new: The same for the new side.
        seed: Seed of the bootstrap.

    Returns:
        The change; the ratio is exp of the difference between the sides' medians of log time, over captures.
    """
    sides = [[np.log(run[run > 0]) for run in side if (run > 0).any()] for side in (base, new)]
    n_base, n_new = (sum(len(run) for run in side) for side in sides)
    if not (n_base and n_new):
        return Change(
            "insufficient", None, None, None, LEAST_EFFECT, n_base, n_new, drift_covered=False, p=None
        )
    middles = [np.array([np.median(run) for run in side]) for side in sides]
    centre = float(middles[1].mean() - middles[0].mean())
    freedom = sum(len(side) - 1 for side in sides)
    floor = max(LEAST_EFFECT, _noise_floor(sides))
    if min(n_base, n_new) < LEAST_STEPS:
        ratio = math.exp(centre)
        return Change(
            "insufficient", ratio, None, None, floor, n_base, n_new, drift_covered=freedom > 0, p=None
        )
    low, high, spread = _bootstrap(sides, centre, seed)
    p = math.erfc(abs(centre) / spread / math.sqrt(2)) if spread else float(centre == 0)
    if freedom:
        error = _drift_error(middles, freedom)
        half = student_quantile(1 - ALPHA / 2, freedom) * error
        low, high = min(low, centre - half), max(high, centre + half)
        p = max(p, student_two_sided(abs(centre) / error, freedom)) if error else p
    verdict = decide(centre, low, high, floor)
    ratio, least, most = (math.exp(end) for end in (centre, low, high))
    return Change(verdict, ratio, least, most, floor, n_base, n_new, drift_covered=freedom > 0, p=p)


def decide(centre: float, low: float, high: float, floor: float) -> Verdict:
    """The verdict of a log ratio: its interval must leave out 0, and its size must exceed the floor."""
    if low <= 0 <= high or abs(math.expm1(centre)) <= floor:
        return "no_change"
    return "slower" if centre > 0 else "faster"


def _noise_floor(sides: list[list[Floats]]) -> float:
    """3·MAD/√n of log times around their capture's median, both sides together."""
    total = 0.0
    for side in sides:
        apart = np.concatenate([run - np.median(run) for run in side])
        total += float(np.median(np.abs(apart))) ** 2 / len(apart)
    return _FLOOR_MADS * math.sqrt(total)


def _bootstrap(sides: list[list[Floats]], centre: float, seed: int) -> tuple[float, float, float]:
    """Percentile interval of the log ratio over steps drawn within each capture, and the draws' spread."""
    rng = np.random.default_rng(seed)
    drawn = []
    for side in sides:
        medians = [np.median(run[rng.integers(0, len(run), (DRAWS, len(run)))], axis=1) for run in side]
        drawn.append(np.mean(medians, axis=0))
    ratios = drawn[1] - drawn[0]
    low, high = np.quantile(ratios, [ALPHA / 2, 1 - ALPHA / 2])
    return min(float(low), centre), max(float(high), centre), float(np.std(ratios))


def _drift_error(middles: list[Floats], freedom: int) -> float:
    """Standard error of the difference between the sides' means, from the spread of captures within sides."""
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in middles)
    return math.sqrt(squares / freedom * sum(1 / len(side) for side in middles))


def student_two_sided(t: float, freedom: int) -> float:
    """P(|T| > t) of Student's t, whole degrees of freedom.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    term, total = (cosine, 0.0) if freedom % 2 else (1.0, 0.0)
    first = 1 if freedom % 2 else 0
    for step in range(first, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (step + 1) / (step + 2)
    if freedom % 2:
        return 1 - 2 / math.pi * (angle + math.sin(angle) * total)
    return 1 - math.sin(angle) * total


def student_quantile(level: float, freedom: int) -> float:
    """The t below which a share `level` (above one half) of Student's t lies, by bisection."""
    low, high = 0.0, _T_LIMIT
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if student_two_sided(middle, freedom) > 2 * (1 - level) else (low, middle)
    return (low + high) / 2


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Probabilities adjusted for their number by Holm's step-down; None stays None.

    Source: Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statistics 6, 1979.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    out: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        out[place] = largest
    return out
