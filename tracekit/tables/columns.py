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


def is_true(frame: pd.DataFrame, name: str) -> npt.NDArray[np.bool_]:
    """Whether a yes-or-no column says yes; no where null, or where there is no such column."""
    if name not in frame:
        return np.zeros(len(frame), np.bool_)
    return np.asarray(frame[name].to_numpy(dtype=np.bool_, na_value=False), dtype=np.bool_)


def since(frame: pd.DataFrame, name: str, origin: int) -> Floats:
    """A column of times as ns after an origin, NaN where null; all NaN where there is no such column.

    A float holds a time since 1970 to 256 ns only, and one since the start of a recording to the nanosecond.
    """
    if name not in frame:
        return column(frame, name)
    times = frame[name]
    after = times.to_numpy(dtype=np.int64, na_value=origin) - origin
    return np.where(times.isna().to_numpy(dtype=bool), np.nan, after)


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
    columns = (column(frame, name)[rows] for name in names)
    # Most captures are of one rank and device.
    several = [one for one in columns if not (np.isnan(one).all() or (one == one[0]).all())]
    if not several:
        return [rows] if len(rows) else []
    codes = combined(*(pd.factorize(one)[0] + 1 for one in several))
    order = np.argsort(codes, kind="stable")
    return np.split(rows[order], np.cumsum(np.bincount(codes))[:-1])


def combined(*keys: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """A number for each combination of numbers from 0 on, in the order of their first rows."""
    both = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        both = pd.factorize(both * (int(key.max(initial=0)) + 1) + key)[0]
    return both


def until_next(frame: pd.DataFrame, lane: tuple[str, ...], otherwise: int) -> npt.NDArray[np.int64]:
    """Time from each row's start to that of the next row of its lane [ns]; something else for the last one."""
    starts = frame["ts_ns"].to_numpy(dtype=np.int64)
    out = np.full(len(frame), otherwise, np.int64)
    for rows in lanes(frame, *lane):
        out[rows[:-1]] = np.diff(starts[rows])
    return out
