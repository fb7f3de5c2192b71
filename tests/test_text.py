"""Text columns by numbers against the same told text by text."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.tables.text import (
    category,
    distinct,
    in_words,
    is_word,
    numbered,
    numbers,
    occurring,
    with_flag,
)

TEXTS = st.lists(st.sampled_from(["b", "a", "c", None]), max_size=12)


def frame(texts: list[str | None], *, coded: bool = True) -> pd.DataFrame:
    column = pd.Series(texts, dtype=object)
    return pd.DataFrame({"word": column.astype("category") if coded else column})


@given(TEXTS, st.booleans())
def test_a_word_is_found_in_rows_that_hold_it(texts: list[str | None], coded: bool) -> None:
    rows = frame(texts, coded=coded)
    assert is_word(rows, "word", "a", "b").tolist() == [text in {"a", "b"} for text in texts]
    assert (category(rows, "word") == "a").tolist() == [text == "a" for text in texts] or not len(
        category(rows, "word").categories
    )
    assert occurring(rows, "word") == list(dict.fromkeys(text or "" for text in texts))
    assert list(in_words(rows, "word")) == [text or "" for text in texts]
    assert list(in_words(rows, "word").categories) == sorted({text or "" for text in texts})
    found, number = distinct(rows["word"])
    assert [found[at] for at in number] == [text or "" for text in texts]


def test_a_column_that_is_not_there_holds_no_word() -> None:
    rows = pd.DataFrame({"other": [1, 2]})
    assert not is_word(rows, "word", "a").any()
    assert category(rows, "word").isna().all()
    assert occurring(rows, "word") == [""]
    assert np.isnan(numbers(rows, "word", {"a": 1.0})).all()


@given(st.lists(st.integers(-1, 4), max_size=12))
def test_numbered_texts_are_words_in_order_without_those_that_no_row_has(rows: list[int]) -> None:
    texts = ["b", "a", None, "b", "z"]
    made = numbered(np.array(rows, np.int64), texts)
    spelled = [None if row < 0 else texts[row] for row in rows]
    assert [None if pd.isna(text) else text for text in made] == spelled
    assert list(made.categories) == sorted({text for text in spelled if text is not None})


def test_words_stand_for_numbers() -> None:
    found = numbers(frame(["a", None, "c"]), "word", {"a": 2.0})
    assert found.tolist() == pytest.approx([2.0, np.nan, np.nan], nan_ok=True)


def test_a_flag_is_added_behind_those_that_are_there() -> None:
    flags = with_flag(frame(["a", None, "b", None])["word"], np.array([True, True, False, False]), "new")
    assert [None if pd.isna(text) else text for text in flags] == ["a,new", "new", "b", None]
