"""Which steps can be held against which: like against like, decode's growing cache taken out."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.compare.statistics import Floats
from tracekit.tables import Phase
from tracekit.tables.columns import column
from tracekit.tables.text import flagged
from tracekit.tables.words import UNFIT_STEP

KEY = ["phase", "context_tokens", "generation_tokens", "requests", "kv_bucket"]
_LEAST_SLOPE_STEPS = 4


@dataclass(frozen=True, slots=True)
class Matched:
    """Steps of both sides that are alike.

    Attributes:
        base: Base steps with `run`, `level` (the base median of their kind) and `time` (detrended, over level).
        new: The same of the new side.
        left_out: Steps of either side without a partner of their kind, or cut off by the window.
    """

    base: pd.DataFrame
    new: pd.DataFrame
    left_out: int


def match_steps(base: pd.DataFrame, new: pd.DataFrame, value: str = "dur_ns") -> Matched:
    """Match steps by phase, tokens, requests and KV bucket, and make their times comparable.

    Times are detrended by Σk within a kind (a common slope of both sides), then divided by the base's median of
    that kind: steps of different kinds then tell of one ratio.

    Args:
        base: STEPS with `run`.
        new: STEPS with `run`.
        value: Column of the time.

    Returns:
        Steps of the kinds that both sides have. A capture that records no tokens has one kind a phase.
    """
    sides = [_kinds(side, value) for side in (base, new)]
    shared = set(sides[0]["kind"]) & set(sides[1]["kind"])
    fit = [side[side["kind"].isin(shared)] for side in sides]
    whole = _detrended(pd.concat([fit[0].assign(new=False), fit[1].assign(new=True)], ignore_index=True))
    level = whole[~whole["new"]].groupby("kind")["time"].median().rename("level")
    whole = whole.join(level, on="kind", validate="m:1")
    whole["time"] = whole["time"] / whole["level"]
    whole = whole[whole["time"] > 0]
    return Matched(whole[~whole["new"]], whole[whole["new"]], len(base) + len(new) - len(whole))


def _kinds(steps: pd.DataFrame, value: str) -> pd.DataFrame:
    """Usable steps with their kind as text, their Σk and their time."""
    cut = flagged(steps["flags"], UNFIT_STEP)
    usable = ~cut & (column(steps, value) > 0) & (steps["n_kernels"] > 0).to_numpy(dtype=bool)
    steps = steps[usable]
    sum_k = column(steps, "sum_k")
    asked = {
        "phase": steps["phase"].astype(object).to_numpy(),
        "context_tokens": column(steps, "context_tokens"),
        "generation_tokens": column(steps, "generation_tokens"),
        "requests": column(steps, "context_requests") + column(steps, "generation_requests"),
        "kv_bucket": _bucket(sum_k),
    }
    frame = pd.DataFrame(asked)
    kind = frame[KEY[0]].astype(str)
    for name in KEY[1:]:
        kind = kind + "|" + frame[name].fillna(-1).astype(int).astype(str)
    return pd.DataFrame(
        {
            "step_id": steps["step_id"].to_numpy(),
            "run": steps["run"].to_numpy(),
            "phase": frame["phase"],
            # As objects: pandas 3 joins no text columns of which both are empty.
            "kind": kind.astype(object),
            "sum_k": sum_k,
            "time": column(steps, value),
        }
    )


def _bucket(sum_k: Floats) -> Floats:
    """The octave of the cached tokens, centred on powers of two; NaN where they are unknown."""
    out = np.full(len(sum_k), np.nan)
    np.log2(sum_k, out=out, where=sum_k > 0)
    return np.asarray(np.round(out), dtype=np.float64)


def _detrended(steps: pd.DataFrame) -> pd.DataFrame:
    """Times of decode at their kind's mean Σk, by the common slope of the captures of both sides."""
    trended = (steps["phase"] == str(Phase.DECODE)) & steps["sum_k"].notna()
    if trended.sum() < _LEAST_SLOPE_STEPS:
        return steps
    part = steps[trended]
    within = part.groupby(["kind", "new", "run"])
    x = (part["sum_k"] - within["sum_k"].transform("mean")).to_numpy(dtype=np.float64)
    y = (part["time"] - within["time"].transform("mean")).to_numpy(dtype=np.float64)
    slopes = _slopes(part["kind"].to_numpy(), x, y)
    apart = (part["sum_k"] - part.groupby("kind")["sum_k"].transform("mean")).to_numpy(dtype=np.float64)
    steps = steps.copy()
    steps.loc[trended, "time"] = part["time"].to_numpy(dtype=np.float64) - slopes * apart
    return steps


def _slopes(kinds: npt.NDArray[np.object_], x: Floats, y: Floats) -> Floats:
    """Least-squares slope of each row's kind; 0 where Σk does not change or time falls with it."""
    sums = pd.DataFrame({"kind": kinds, "xx": x * x, "xy": x * y}).groupby("kind").transform("sum")
    xx = sums["xx"].to_numpy(dtype=np.float64)
    slope = np.divide(sums["xy"].to_numpy(dtype=np.float64), xx, out=np.zeros(len(x)), where=xx > 0)
    return np.asarray(np.maximum(slope, 0.0), dtype=np.float64)


def by_run(steps: pd.DataFrame, name: str = "time") -> list[Floats]:
    """The values of each run's steps."""
    return [part[name].to_numpy(dtype=np.float64) for _, part in steps.groupby("run")]
