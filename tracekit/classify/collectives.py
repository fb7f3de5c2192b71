"""What part of a collective's time is waiting for peers, where several ranks of one run are given.

A collective ends on all ranks together and starts where each arrives: the rank that came last waited least, so the
shortest duration of one collective over the ranks is its transfer and the rest of each rank's time is waiting.
"""

import numpy as np
import pandas as pd

from tracekit.classify.signals import words
from tracekit.tables.columns import column


def peer_waits(kernels: pd.DataFrame) -> pd.Series:
    """Time that each collective waited for peers [ns]; NaN for other kernels and where ranks cannot be aligned.

    The k-th collective of a name on one rank is the k-th of that name on the others. A name whose counts differ
    between ranks is left out: the captures do not cover the same work.

    Args:
        kernels: Rows of several ranks, with `rank`, `family`, `name`, `ts_ns` and `dur_ns`.
    """
    out = pd.Series(np.nan, index=kernels.index)
    comm = pd.Series(words(kernels, "family"), index=kernels.index).str.startswith("comm")
    rank = pd.Series(column(kernels, "rank"), index=kernels.index)
    rows = pd.DataFrame(
        {
            "rank": rank,
            "name": words(kernels, "name"),
            "ts": kernels["ts_ns"].astype("int64"),
            "dur": column(kernels, "dur_ns"),
        }
    )[comm & rank.notna()]
    if rows["rank"].nunique() < 2:  # noqa: PLR2004 - waiting takes two
        return out
    rows = rows.sort_values(["rank", "ts"], kind="stable")
    rows["turn"] = rows.groupby(["rank", "name"]).cumcount()
    counts = rows.groupby(["name", "rank"]).size().groupby("name").agg(["min", "max", "size"])
    everywhere = counts["size"] == rows["rank"].nunique()
    alike = counts.index[(counts["min"] == counts["max"]) & everywhere]
    rows = rows[rows["name"].isin(alike)]
    shortest = rows.groupby(["name", "turn"])["dur"].transform("min")
    out.loc[rows.index] = rows["dur"] - shortest
    return out
