"""A text for each of many rows, put together from the few distinct phrases that they share."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.units import digits

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

_SPARSE = 16
"""Combinations are all spelled while they are fewer than one in so many rows; else those alone that occur."""


@dataclass(frozen=True, slots=True)
class Phrases:
    """A text a row, as a number: a million kernels have a few hundred things said of them, and each is spelled once.

    Attributes:
        numbers: For each row the position of its text in `texts`.
        texts: The texts.
    """

    numbers: Numbers
    texts: list[str]

    def said(self) -> Bools:
        """Whether the text of each row is not empty."""
        return np.array([text != "" for text in self.texts], np.bool_)[self.numbers]

    def put(self, rows: Numbers, part: "Phrases | str") -> None:
        """Give some rows others, in place."""
        others = _phrases(part, len(rows))
        self.numbers[rows] = others.numbers + len(self.texts)
        self.texts.extend(others.texts)

    def spelled(self) -> npt.NDArray[np.object_]:
        """The text of each row."""
        return np.array(self.texts, dtype=object)[self.numbers]


def named(words: pd.Categorical, none: str = "") -> Phrases:
    """The words of a category, `none` where null."""
    codes = words.codes.astype(np.int64)
    texts = [*map(str, words.categories), none]
    return Phrases(np.where(codes < 0, len(texts) - 1, codes), texts)


def chosen(where: Bools, yes: Phrases | str, no: Phrases | str = "") -> Phrases:
    """One phrase or the other of each row."""
    first, second = _phrases(yes, len(where)), _phrases(no, len(where))
    numbers = np.where(where, first.numbers, second.numbers + len(first.texts))
    return Phrases(numbers, [*first.texts, *second.texts])


def joined(*parts: Phrases | str) -> Phrases:
    """The phrases of each row after each other; one of them at least is not the same for all."""
    numbers, texts = np.zeros(1, np.int64), [""]
    for part in parts:
        if isinstance(part, str):
            texts = [text + part for text in texts]
            continue
        width = len(part.texts)
        numbers, pairs = numbers * width + part.numbers, np.arange(len(texts) * width)
        if _SPARSE * len(pairs) > len(numbers):
            numbers, pairs = pd.factorize(numbers)
        texts = [texts[pair // width] + part.texts[pair % width] for pair in pairs.tolist()]
    return Phrases(numbers, texts)


def _phrases(part: Phrases | str, rows: int) -> Phrases:
    return Phrases(np.zeros(rows, np.int64), [part]) if isinstance(part, str) else part


def number(values: Floats) -> Phrases:
    """Numbers to three digits, `?` where unknown."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (2 - np.floor(np.log10(np.abs(values))))
        rough = np.where(np.isfinite(values) & (values != 0), np.round(values * scale) / scale, values)
    numbers, distinct = pd.factorize(rough)
    texts = [_plain(value) if np.isfinite(value) else "?" for value in distinct.tolist()]
    return Phrases(np.where(numbers < 0, len(texts), numbers), [*texts, "?"])


def _plain(value: float) -> str:
    text = digits(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(shares: Floats) -> Phrases:
    """Whole percentages of shares."""
    return joined(number(np.round(100 * shares)), " %")
