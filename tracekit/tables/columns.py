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
    codes, _ = pd.factorize(key)
    order = np.argsort(codes, kind="stable")
    return np.split(rows[order], np.cumsum(np.bincount(codes))[:-1])


def until_next(frame: pd.DataFrame, lane: tuple[str, ...], otherwise: int) -> npt.NDArray[np.int64]:
    """Time from each row's start to that of the next row of its lane [ns]; something else for the last one."""
    starts = frame["ts_ns"].to_numpy(dtype=np.int64)
    out = np.full(len(frame), otherwise, np.int64)
    for rows in lanes(frame, *lane):
        out[rows[:-1]] = np.diff(starts[rows])
    return out
