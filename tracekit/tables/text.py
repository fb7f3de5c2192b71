"""Text columns by their distinct values: a column of a million names has a few hundred, and each is looked at once."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Bools = npt.NDArray[np.bool_]


def matches(column: pd.Series, pattern: str | re.Pattern[str]) -> Bools:
    """Whether each text of a text column has a match of the pattern; false where there is no text."""
    search = re.compile(pattern).search
    return where(column, lambda text: search(text) is not None)


def where(column: pd.Series, holds: Callable[[str], bool]) -> Bools:
    """Whether a condition holds of each text of a text column; false where there is no text."""
    column = _coded(column)
    hit = np.array([holds(text) for text in column.cat.categories], np.bool_)
    codes = column.cat.codes.to_numpy()
    return hit[codes] & (codes >= 0) if len(hit) else np.zeros(len(codes), np.bool_)


def mapped(column: pd.Series, change: Callable[[str], Any]) -> npt.NDArray[np.object_]:
    """What `change` makes of each text of a text column; None where there is no text."""
    column = _coded(column)
    values = np.array([change(text) for text in column.cat.categories] + [None], dtype=object)
    return values[column.cat.codes.to_numpy()]


def _coded(column: pd.Series) -> pd.Series:
    return column if isinstance(column.dtype, pd.CategoricalDtype) else column.astype("category")
