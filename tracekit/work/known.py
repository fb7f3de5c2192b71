"""Filling work that is still unknown, from a table of the same rows that knows more."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.tables import Kind
from tracekit.tables.columns import column
from tracekit.tables.text import distinct, is_word, numbered

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
Ints = npt.NDArray[np.intp]


def unknown_work(kernels: pd.DataFrame) -> Bools:
    """Device kernels and op rows of which neither operations nor bytes are known."""
    lacking = np.isnan(column(kernels, "flops")) & np.isnan(column(kernels, "dram_bytes"))
    return lacking & is_word(kernels, "kind", Kind.KERNEL, Kind.CPU_OP)


def fill_work(kernels: pd.DataFrame, rows: Bools, work: pd.DataFrame) -> pd.DataFrame:
    """The kernels with the work columns of `rows` taken from `work`, whose rows are those rows in order.

    A dtype or peak that is already known stays where `work` has none.
    """
    places = np.flatnonzero(rows)
    filled = {name: _texts(kernels, places, work, name) for name in COLUMNS if name in TEXT}
    return kernels.assign(
        **filled, **{name: _numbers(kernels, places, work, name) for name in COLUMNS if name not in TEXT}
    )


def _numbers(kernels: pd.DataFrame, places: Ints, work: pd.DataFrame, name: str) -> npt.NDArray[np.float64]:
    out, values = column(kernels, name).copy(), column(work, name)
    known = ~np.isnan(values)
    out[places[known]] = values[known]
    return out


def _texts(kernels: pd.DataFrame, places: Ints, work: pd.DataFrame, name: str) -> pd.Categorical:
    (texts, number), (others, values) = distinct(kernels[name]), distinct(work[name])
    known = values < len(others) - 1
    number[places[known]] = values[known] + len(texts)
    return numbered(number, [*texts[:-1], None, *others])
