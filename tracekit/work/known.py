"""Filling work that is still unknown, from a table of the same rows that knows more."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.tables import Kind

COLUMNS = (
    "dtype",
    "flops",
    "flops_source",
    "dram_bytes",
    "dram_bytes_source",
    "weight_bytes",
    "kv_bytes",
    "bus_bytes",
    "expected_bytes",
    "peak",
)
TEXT = ("dtype", "flops_source", "dram_bytes_source", "peak")

Bools = npt.NDArray[np.bool_]


def unknown_work(kernels: pd.DataFrame) -> Bools:
    """Device kernels and op rows of which neither operations nor bytes are known."""
    lacking = kernels["flops"].isna() & kernels["dram_bytes"].isna()
    kind = kernels["kind"].astype(object)
    return (lacking & kind.isin([str(Kind.KERNEL), str(Kind.CPU_OP)])).to_numpy(dtype=np.bool_)


def fill_work(kernels: pd.DataFrame, rows: Bools, work: pd.DataFrame) -> pd.DataFrame:
    """The kernels with the work columns of `rows` taken from `work`, whose rows are those rows in order.

    A dtype or peak that is already known stays where `work` has none.
    """
    filled: dict[str, pd.Categorical | npt.NDArray[np.float64]] = {}
    places = np.flatnonzero(rows)
    for name in COLUMNS:
        column = kernels[name].astype(object).to_numpy(copy=True)
        values = work[name].astype(object).to_numpy()
        known = ~pd.isna(values)
        column[places[known]] = values[known]
        filled[name] = pd.Categorical(column) if name in TEXT else column.astype(np.float64)
    return kernels.assign(**filled)


def flagged(kernels: pd.DataFrame, rows: Bools, word: str) -> pd.Series:
    """The flags of the kernels, with one more at some rows."""
    flags = (
        kernels["flags"].astype(object)
        if "flags" in kernels
        else pd.Series(None, index=kernels.index, dtype=object)
    )
    added = flags.where(flags.isna(), flags + f",{word}").fillna(word)
    return flags.mask(rows, added).astype("category")
