"""Windowed layers told by their times: sums over requests do not know of sliding windows.

The layers of one step attend over the same requests, so full attention takes the same time in each (in a mixed step
that has a kernel for each side, in those of one side). Where the
times fall into two groups far apart, the short ones cannot have read every key.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.tables import WorkSource
from tracekit.tables.text import category, is_word, with_flag
from tracekit.work.known import TEXT

WINDOWED = "windowed_attention"
# Times of one group differ by less than this factor, those of the two groups by more.
MIN_RATIO = 1.8
MIN_GROUP = 2

_NUMBERS = ("flops", "dram_bytes", "weight_bytes", "kv_bytes")


def forget_windowed(kernels: pd.DataFrame, recorded: npt.NDArray[np.bool_] | None = None) -> pd.DataFrame:
    """Take back the work that sums gave to kernels that cannot have seen all keys, and flag them.

    Args:
        kernels: Kernels with work, `step_id` and `dur_ns`.
        recorded: Kernels whose window was recorded and is in their work: their times are not judged.

    Returns:
        The kernels; the short group of a bimodal step has no work and the flag `windowed_attention`.
    """
    if "step_id" not in kernels:
        return kernels
    summed = is_word(kernels, "flops_source", WorkSource.ANNOTATION)
    if recorded is not None:
        summed = summed & ~recorded
    if not summed.any():
        return kernels
    short = np.zeros(len(kernels), dtype=np.bool_)
    rows = np.flatnonzero(summed)
    times = kernels["dur_ns"].to_numpy(dtype=np.float64)[rows]
    short[rows[_short(_alike(kernels.iloc[rows]), times)]] = True
    if not short.any():
        return kernels
    changed = {name: kernels[name].mask(short) for name in _NUMBERS}
    changed |= {
        name: kernels[name].astype(object).mask(short, None).astype("category")
        for name in TEXT
        if name.endswith("_source")
    }
    return kernels.assign(**changed, flags=with_flag(category(kernels, "flags"), short, WINDOWED))


def _alike(kernels: pd.DataFrame) -> npt.NDArray[np.int64]:
    """A number for the kernels of one step that were given the same work: in a mixed step, those of one side."""
    return np.asarray(kernels.groupby(["step_id", "flops"], sort=False).ngroup(), dtype=np.int64)


def _short(steps: npt.NDArray[np.int64], times: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Members of the short group of each step; none where its times are of one group."""
    frame = pd.DataFrame({"step": steps, "time": times, "row": np.arange(len(times))})
    frame = frame.sort_values(["step", "time"], kind="stable")
    groups = frame.groupby("step", sort=False)
    frame["ratio"] = (frame["time"] / groups["time"].shift(1)).fillna(0.0)
    frame["place"] = groups.cumcount()
    widest = frame.loc[frame.groupby("step", sort=False)["ratio"].idxmax(), ["step", "ratio", "place"]]
    widest = widest.rename(columns={"ratio": "widest", "place": "cut"})
    frame = frame.merge(widest, on="step", how="left", validate="many_to_one")
    count = frame.groupby("step", sort=False)["row"].transform("size")
    two = (frame["widest"] >= MIN_RATIO) & (frame["cut"] >= MIN_GROUP) & (count - frame["cut"] >= MIN_GROUP)
    short = np.zeros(len(times), dtype=np.bool_)
    short[frame.loc[two & (frame["place"] < frame["cut"]), "row"].to_numpy()] = True
    return short
