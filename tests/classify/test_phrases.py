"""Phrases of rows against the same texts put together row by row."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from tracekit.classify.phrases import Phrases, chosen, joined, named, number, percent

ROWS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["a", "b", None]), st.floats(1e-3, 1e6)), min_size=1, max_size=40
)


@given(ROWS)
def test_joined_phrases_are_the_texts_of_each_row(rows: list[tuple[bool, str | None, float]]) -> None:
    where = np.array([flag for flag, _, _ in rows])
    words = named(pd.Categorical([word for _, word, _ in rows], ["a", "b"]), "none")
    values = number(np.array([value for *_, value in rows]))
    found = joined("<", chosen(where, words, "no"), ": ", values, ">").spelled().tolist()
    said = values.spelled()
    expected = [
        f"<{(word or 'none') if flag else 'no'}: {told}>"
        for (flag, word, _), told in zip(rows, said, strict=True)
    ]
    assert found == expected


def test_numbers_have_three_digits_and_unknown_ones_a_mark() -> None:
    values = np.array([0.0, 1.5, 123.456, 98765.0, np.nan, np.inf, 1.5])
    assert number(values).spelled().tolist() == ["0", "1.5", "123", "98800", "?", "?", "1.5"]
    assert percent(np.array([0.123, np.nan])).spelled().tolist() == ["12 %", "? %"]


def test_some_rows_are_given_others() -> None:
    answers = Phrases(np.zeros(3, np.int64), [""])
    answers.put(np.array([2, 0]), chosen(np.array([True, False]), "yes", "no"))
    assert answers.spelled().tolist() == ["no", "", "yes"]
    assert answers.said().tolist() == [True, False, True]
