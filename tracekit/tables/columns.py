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
