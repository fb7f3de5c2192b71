"""Columns of a frame as plain arrays."""

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]


def column(frame: pd.DataFrame, name: str) -> Floats:
    """A column as float64, NaN where null; all NaN where there is no such column."""
    if name not in frame:
        return np.full(len(frame), np.nan, dtype=np.float64)
    return np.asarray(frame[name].to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def lanes(
    frame: pd.DataFrame, *names: str, among: npt.NDArray[np.bool_] | None = None
) -> list[npt.NDArray[np.intp]]:
    """Positions of the rows of each combination of some numeric columns' values, null being one.

    Args:
        frame: The rows.
        names: Columns; one that is not there is null.
        among: Rows to look at; all of them by default.
    """
    rows = np.arange(len(frame)) if among is None else np.flatnonzero(among)
    key = np.zeros(len(rows), np.int64)
    for name in names:
        values = column(frame, name)[rows]
        # Most captures are of one rank and device.
        if not (np.isnan(values).all() or (values == values[0]).all()):
            codes, found = pd.factorize(values)
            key = key * (len(found) + 1) + codes + 1
    if not key.any():
        return [rows] if len(rows) else []
    codes, combinations = pd.factorize(key)
    return [rows[codes == number] for number in range(len(combinations))]
