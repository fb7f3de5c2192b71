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
    words = _coded(column)
    held: Bools = np.array([*map(holds, words.categories), False], np.bool_)[words.codes]
    return held


def is_word(frame: pd.DataFrame, name: str, *wanted: str) -> Bools:
    """Whether each text of a text column is one of some words; false where null, or where there is no such column."""
    if name not in frame:
        return np.zeros(len(frame), np.bool_)
    return where(frame[name], set(wanted).__contains__)


def mapped(column: pd.Series, change: Callable[[str], Any]) -> Objects:
    """What `change` makes of each text of a text column; None where there is no text."""
    words = _coded(column)
    made: Objects = np.array([*map(change, words.categories), None], dtype=object)[words.codes]
    return made


def valued(column: pd.Series | pd.Categorical, change: Callable[[str], float | None]) -> Floats:
    """The number that `change` makes of each text of a text column; NaN where it makes none, or there is no text."""
    words = _coded(column)
    made: Floats = np.array([*map(change, words.categories), None], dtype=np.float64)[words.codes]
    return made


def _coded(column: pd.Series | pd.Categorical) -> pd.Categorical:
    values = column.array if isinstance(column, pd.Series) else column
    return values if isinstance(values, pd.Categorical) else pd.Categorical(values)


def category(frame: pd.DataFrame, name: str) -> pd.Categorical:
    """A text column as a category, which compares to a word by numbers; all null where there is no such column."""
    if name not in frame:
        return pd.Categorical.from_codes(np.full(len(frame), -1), pd.Index([], dtype=object))
    return _coded(frame[name])


def occurring(frame: pd.DataFrame, name: str) -> list[str]:
    """The words that a text column holds, in the order of their first rows; empty for null, or where it is absent."""
    words = category(frame, name)
    found = [*words.categories, ""]
    return [found[code] for code in pd.unique(words.codes)]


def in_words(frame: pd.DataFrame, name: str) -> pd.Categorical:
    """A text column as a category of the words that it holds, in order; empty where null or absent."""
    found, number = distinct(category(frame, name))
    return numbered(number, found)


def words(frame: pd.DataFrame, name: str) -> Objects:
    """A text column as objects, empty where null or absent."""
    column = category(frame, name)
    texts: Objects = np.array([*column.categories, ""], dtype=object)[column.codes]
    return texts


def numbers(frame: pd.DataFrame, name: str, values: Mapping[str, float]) -> Floats:
    """The number that each word of a text column stands for; NaN where it stands for none, or there is no such column."""
    return valued(category(frame, name), values.get)


def flagged(column: pd.Series, flags: Iterable[str]) -> Bools:
    """Whether any of some flags is in each comma-separated text."""
    wanted = set(flags)
    return where(column, lambda text: not wanted.isdisjoint(text.split(",")))


def numbered(numbers: Numbers, texts: Sequence[str | None]) -> pd.Categorical:
    """Texts by their numbers as a category, its words in order; null where the number is negative or its text None.

    A text may have several numbers, and one that no row has is no word of the category. Making a million texts first,
    to find the few distinct ones among them again, takes a hundred times as long.
    """
    used = np.bincount(numbers.astype(np.intp) + 1, minlength=len(texts) + 1)[1:] > 0
    named = [text if here else None for text, here in zip(texts, used, strict=True)]
    found = sorted({text for text in named if text is not None})
    place = {text: number for number, text in enumerate(found)}
    codes = np.array([*(-1 if text is None else place[text] for text in named), -1], np.int32)
    return pd.Categorical.from_codes(codes[numbers], pd.Index(found, dtype=object), validate=False)


def with_flag(flags: pd.Series | pd.Categorical, rows: Bools, flag: str) -> pd.Categorical:
    """Comma-separated flags with one more at some rows."""
    found, old = distinct(flags)
    longer = [f"{text},{flag}" if text else flag for text in found]
    return numbered(np.where(rows, old + len(found), old), [text or None for text in (*found, *longer)])


def distinct(column: pd.Series | pd.Categorical, none: str = "") -> tuple[list[str], npt.NDArray[np.intp]]:
    """The distinct texts of a text column, `none` for null last, and which of them each text is."""
    words = _coded(column)
    codes = words.codes.astype(np.intp)
    found = [*words.categories, none]
    return found, np.where(codes < 0, len(found) - 1, codes)
