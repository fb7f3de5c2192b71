"""What part of a collective's time is waiting for peers, where several ranks of one run are given.

A collective ends on all ranks together and starts where each arrives: the rank that came last waited least, so the
shortest duration of one collective over the ranks is its transfer and the rest of each rank's time is waiting.
"""

import numpy as np
import pandas as pd

from tracekit.tables.columns import column
from tracekit.tables.text import matches, words


def peer_waits(kernels: pd.DataFrame) -> pd.Series:
    """Time that each collective waited for peers [ns]; NaN for other kernels and where ranks cannot be aligned.

    The k-th collective of a name on one rank is the k-th of that name on the others. A name whose counts differ
    between ranks is left out: the captures do not cover the same work.

    Args:
        kernels: Rows of several ranks, with `rank`, `family`, `name`, `ts_ns` and `dur_ns`.
    """
    out = pd.Series(np.nan, index=kernels.index)
    rank = column(kernels, "rank")
    ranked = ~np.isnan(rank)
    if len(np.unique(rank[ranked])) < 2:  # noqa: PLR2004 - waiting takes two
        return out
    kept = np.flatnonzero(ranked & matches(kernels["family"], "^comm"))
    rows = pd.DataFrame(
        {
            "rank": rank[kept],
            "name": words(kernels, "name")[kept],
            "ts": kernels["ts_ns"].to_numpy(dtype=np.int64)[kept],
            "dur": column(kernels, "dur_ns")[kept],
        },
        index=kernels.index[kept],
    )
    rows = rows.sort_values(["rank", "ts"], kind="stable")
    rows["turn"] = rows.groupby(["rank", "name"]).cumcount()
    counts = rows.groupby(["name", "rank"]).size().groupby("name").agg(["min", "max", "size"])
    everywhere = counts["size"] == rows["rank"].nunique()
    alike = counts.index[(counts["min"] == counts["max"]) & everywhere]
    rows = rows[rows["name"].isin(alike)]
    shortest = rows.groupby(["name", "turn"])["dur"].transform("min")
    out.loc[rows.index] = rows["dur"] - shortest
    return out
