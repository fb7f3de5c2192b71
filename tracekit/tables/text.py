"""Text columns by their distinct values: a column of a million names has a few hundred, and each is looked at once."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Bools = npt.NDArray[np.bool_]
Objects = npt.NDArray[np.object_]
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.integer[Any]]


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


def is_word(frame: pd.DataFrame, name: str, *wanted: str) -> Bools:
    """Whether each text of a text column is one of some words; false where null, or where there is no such column."""
    if name not in frame:
        return np.zeros(len(frame), np.bool_)
    return where(frame[name], set(wanted).__contains__)


def mapped(column: pd.Series, change: Callable[[str], Any]) -> npt.NDArray[np.object_]:
    """What `change` makes of each text of a text column; None where there is no text."""
    column = _coded(column)
    values = np.array([change(text) for text in column.cat.categories] + [None], dtype=object)
    return values[column.cat.codes.to_numpy()]


def valued(column: pd.Series, change: Callable[[str], float | None]) -> Floats:
    """The number that `change` makes of each text of a text column; NaN where it makes none, or there is no text."""
    column = _coded(column)
    values = np.array([change(text) for text in column.cat.categories] + [None], dtype=np.float64)
    return values[column.cat.codes.to_numpy()]


def renamed(column: pd.Series, change: Callable[[str], str | None]) -> pd.Categorical:
    """What `change` makes of each text of a text column, as `coded` gives it; null where it makes none."""
    column = _coded(column)
    return numbered(column.cat.codes.to_numpy(), [change(text) for text in column.cat.categories])


def _coded(column: pd.Series) -> pd.Series:
    return column if isinstance(column.dtype, pd.CategoricalDtype) else column.astype("category")


def category(frame: pd.DataFrame, name: str) -> pd.Categorical:
    """A text column as a category, which compares to a word by numbers; all null where there is no such column."""
    if name not in frame:
        return pd.Categorical.from_codes(np.full(len(frame), -1), pd.Index([], dtype=object))
    return pd.Categorical(_coded(frame[name]).array)


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
    return valued(frame[name], values.get)


def flagged(column: pd.Series, flags: Iterable[str]) -> Bools:
    """Whether any of some flags is in each comma-separated text."""
    wanted = set(flags)
    return where(column, lambda text: not wanted.isdisjoint(text.split(",")))


def coded(texts: Objects) -> pd.Categorical:
    """Texts as a category, its words in order; None and NaN are null."""
    return numbered(*pd.factorize(texts))


def numbered(numbers: Numbers, texts: Sequence[str | None] | Objects) -> pd.Categorical:
    """Texts by their numbers as a category, its words in order; null where the number is negative or its text None.

    A text may have several numbers, and one that no row has is no word of the category. Making a million texts first,
    to find the few distinct ones among them again, takes a hundred times as long.
    """
    used = np.bincount(numbers[numbers >= 0], minlength=len(texts)) > 0
    named = [text if here else None for text, here in zip(texts, used, strict=True)]
    found = sorted({text for text in named if text is not None})
    place = {text: number for number, text in enumerate(found)}
    codes = np.array([*(-1 if text is None else place[text] for text in named), -1], np.int32)
    return pd.Categorical.from_codes(codes[numbers], pd.Index(found, dtype=object))


def codes_of(column: pd.Series, texts: Iterable[str]) -> npt.NDArray[np.intp]:
    """The number of each text of a text column among some texts; -1 where it is none of them or null."""
    place = {text: number for number, text in enumerate(texts)}
    column = _coded(column)
    numbers = np.array([*(place.get(text, -1) for text in column.cat.categories), -1], np.intp)
    return numbers[column.cat.codes.to_numpy()]


def with_flag(flags: pd.Series, rows: Bools, flag: str) -> pd.Categorical:
    """Comma-separated flags with one more at some rows."""
    found, old = distinct(flags)
    longer = [f"{text},{flag}" if text else flag for text in found]
    return numbered(np.where(rows, old + len(found), old), [text or None for text in (*found, *longer)])


def distinct(column: pd.Series, none: str = "") -> tuple[list[str], npt.NDArray[np.intp]]:
    """The distinct texts of a text column, `none` for null last, and which of them each text is."""
    column = _coded(column)
    codes = column.cat.codes.to_numpy(dtype=np.intp)
    found = [*column.cat.categories, none]
    return found, np.where(codes < 0, len(found) - 1, codes)
