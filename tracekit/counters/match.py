"""Which launch that a profiler measured is which kernel of a trace.

A counter is given only to a kernel of the same name, grid and block; order decides among those alone, and only where
their counts agree.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.counters.keys import Ints, Keys, compare, named_ranges


class Level(StrEnum):
    """How a counter found its kernel, in order of trust."""

    RANGE = "range"
    PLACE = "place"
    STREAM = "stream"
    MEAN = "mean"


LEVELS = tuple(Level)
SAID = {
    Level.RANGE: "same step, name, grid and occurrence",
    Level.PLACE: "same place in a step of the same annotation",
    Level.STREAM: "same name, grid and occurrence on the stream",
    Level.MEAN: "mean of the launches of the same name and grid",
}


@dataclass(frozen=True, slots=True)
class Matched:
    """Pairs of kernels and launches; a kernel may have several launches, whose mean it takes.

    Attributes:
        kernel: Positions of kernels.
        launch: Positions of launches.
        level: For each kernel of the frame, a position in LEVELS; -1 where it has no launch.
        keys: What was compared of kernels and launches.
    """

    kernel: Ints
    launch: Ints
    level: npt.NDArray[np.int8]
    keys: Keys


def match(
    kernels: pd.DataFrame, launches: pd.DataFrame, annotations: pd.Series, sizes: pd.DataFrame
) -> Matched:
    """Find the launches of each kernel.

    Args:
        kernels: Rows with name, grid, block, stream, device, step_id, in order of start; copies are left out by the
            caller.
        launches: COUNTER_LAUNCHES, in the order in which they were measured.
        annotations: Annotation of each step by step_id.
        sizes: `grid_size` and `block_size` of each launch, for files without grids.
    """
    keys = compare(kernels, launches, sizes)
    step = kernels["step_id"].to_numpy(dtype=np.float64, na_value=np.nan)
    around = annotations.reindex(kernels["step_id"]).to_numpy(dtype=object)
    pairs = _Pairs(keys, launches["process"].to_numpy(dtype=np.float64, na_value=-1.0))
    pairs.by_range(around, named_ranges(launches["ranges"], annotations), step)
    pairs.by_stream(kernels["stream"], launches["stream"])
    pairs.by_mean()
    empty = np.zeros(0, dtype=np.int64)
    kernel, launch = np.concatenate([empty, *pairs.kernels]), np.concatenate([empty, *pairs.launches])
    return Matched(kernel, launch, pairs.level, keys)


class _Pairs:
    """Pairs found so far; each level looks only at kernels that none before it could serve.

    Launches are counted within their process: ranks that did the same work are repeats of each other, not more of it.
    """

    def __init__(self, keys: Keys, process: npt.NDArray[np.float64]) -> None:
        self.process = process
        self.mine = keys.kernels
        self.yours = keys.launches
        self.level = np.full(len(keys.kernels), -1, dtype=np.int8)
        self.kernels: list[Ints] = []
        self.launches: list[Ints] = []

    def by_range(
        self, left: npt.NDArray[np.object_], right: npt.NDArray[np.object_], step: npt.NDArray[np.float64]
    ) -> None:
        """Equal annotation: by occurrence where counts agree, else by place in the step where they are a multiple."""
        a = pd.DataFrame({"key": self.mine, "range": left, "step": step})
        b = pd.DataFrame({"key": self.yours, "range": right, "process": self.process})
        a = a[(a["key"] >= 0) & a["range"].notna()]
        b = b[(b["key"] >= 0) & b["range"].notna()]
        if a.empty or b.empty:
            return
        by = ["key", "range"]
        a["k"], b["k"] = a.groupby(by).cumcount(), b.groupby([*by, "process"]).cumcount()
        a["theirs"] = _each_process(b, by).reindex(pd.MultiIndex.from_frame(a[by])).to_numpy(dtype=np.float64)
        a["ours"] = a.groupby(by)["k"].transform("size")
        self._pair(a[a["theirs"] == a["ours"]], b, [*by, "k"], Level.RANGE)
        a["place"] = a.groupby([*by, "step"]).cumcount()
        a["each"] = a.groupby([*by, "step"])["k"].transform("size")
        even = a.groupby(by)["each"].transform("nunique") == 1
        rest = a[(a["theirs"] != a["ours"]) & even & (a["theirs"] % a["each"] == 0)]
        each = rest.drop_duplicates(by).set_index(by)["each"]
        b["each"] = each.reindex(pd.MultiIndex.from_frame(b[by])).to_numpy(dtype=np.float64)
        b = b[b["each"].notna()].assign(place=lambda frame: (frame["k"] % frame["each"]).astype("int64"))
        self._pair(rest, b, [*by, "place"], Level.PLACE)

    def by_stream(self, left: pd.Series, right: pd.Series) -> None:
        """Equal occurrence on the same stream, where the counts on it agree and nothing was matched before."""
        a = pd.DataFrame({"key": self.mine, "stream": left.to_numpy(dtype=np.float64, na_value=np.nan)})
        streams = right.to_numpy(dtype=np.float64, na_value=np.nan)
        b = pd.DataFrame({"key": self.yours, "stream": streams, "process": self.process})
        touched = np.unique(self.mine[self.level >= 0])
        a, b = a[(a["key"] >= 0) & ~a["key"].isin(touched)], b[b["key"] >= 0]
        # Stream numbers of two runs need not agree; where each has one stream for a key it is the same.
        single = [frame.groupby("key")["stream"].nunique(dropna=False) for frame in (a, b)]
        lone = single[0].index[single[0] == 1].intersection(single[1].index[single[1] == 1])
        a, b = (frame.assign(stream=frame["stream"].mask(frame["key"].isin(lone), -1.0)) for frame in (a, b))
        by = ["key", "stream"]
        both = pd.concat([a.groupby(by, dropna=False).size(), _each_process(b, by)], axis=1).fillna(0)
        odd = both.index.get_level_values("key")[(both.iloc[:, 0] != both.iloc[:, 1]).to_numpy()]
        a, b = a[~a["key"].isin(odd)], b[~b["key"].isin(odd)]
        a = a.assign(k=a.groupby(by, dropna=False).cumcount())
        b = b.assign(k=b.groupby([*by, "process"], dropna=False).cumcount())
        self._pair(a, b, [*by, "k"], Level.STREAM)

    def by_mean(self) -> None:
        """All launches of the key, for every kernel that has none yet."""
        served = (self.mine >= 0) & np.isin(self.mine, self.yours) & (self.level < 0)
        self.level[served] = LEVELS.index(Level.MEAN)

    def _pair(self, a: pd.DataFrame, b: pd.DataFrame, by: list[str], level: Level) -> None:
        joined = a.reset_index(names="kernel").merge(
            b.reset_index(names="launch"),
            on=by,
            validate="many_to_many" if level is Level.PLACE else "one_to_many",
        )
        self.kernels.append(joined["kernel"].to_numpy(dtype=np.int64))
        self.launches.append(joined["launch"].to_numpy(dtype=np.int64))
        self.level[joined["kernel"].unique()] = LEVELS.index(level)


def _each_process(launches: pd.DataFrame, by: list[str]) -> pd.Series:
    """Launches of a key in each process; NaN where processes differ."""
    sizes = launches.groupby([*by, "process"], dropna=False).size()
    ends = sizes.groupby(level=by, dropna=False).agg(["min", "max"])
    return ends["min"].where(ends["min"] == ends["max"])
