"""Text columns by their distinct values: a column of a million names has a few hundred, and each is looked at once."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Bools = npt.NDArray[np.bool_]
Objects = npt.NDArray[np.object_]
Floats = npt.NDArray[np.float64]


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


def words(frame: pd.DataFrame, name: str) -> Objects:
    """A text column as objects, empty where null or absent."""
    if name not in frame:
        return np.full(len(frame), "", dtype=object)
    column = _coded(frame[name])
    texts = np.array([*column.cat.categories, ""], dtype=object)
    return texts[column.cat.codes.to_numpy()]


def numbers(frame: pd.DataFrame, name: str, values: Mapping[str, float]) -> Floats:
    """The number that each word of a text column stands for; NaN where it stands for none, or there is no such column."""
    if name not in frame:
        return np.full(len(frame), np.nan)
    return np.asarray(mapped(frame[name], values.get), dtype=np.float64)


def flagged(column: pd.Series, flags: Iterable[str]) -> Bools:
    """Whether any of some flags is in each comma-separated text."""
    wanted = set(flags)
    return where(column, lambda text: not wanted.isdisjoint(text.split(",")))


def coded(texts: Objects) -> pd.Categorical:
    """Texts as a category, its words in order; None and NaN are null."""
    codes, distinct = pd.factorize(texts)
    order = sorted(range(len(distinct)), key=distinct.__getitem__)
    place = np.full(len(distinct) + 1, -1, np.int64)
    place[order] = np.arange(len(order))
    return pd.Categorical.from_codes(place[codes], pd.Index(distinct[order], dtype=object))


def distinct(column: pd.Series, none: str = "") -> tuple[list[str], npt.NDArray[np.intp]]:
    """The distinct texts of a text column, `none` for null last, and which of them each text is."""
    column = _coded(column)
    codes = column.cat.codes.to_numpy(dtype=np.intp)
    found = [*column.cat.categories, none]
    return found, np.where(codes < 0, len(found) - 1, codes)
