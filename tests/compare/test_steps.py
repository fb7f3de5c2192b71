"""Which steps are held against which."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tracekit.compare.steps import by_run, match_steps


def steps(times: Any, phase: Any = "decode", sum_k: Any = None, **columns: Any) -> Any:
    count = len(times)
    given = {
        "run": 0, "phase": phase, "flags": None, "n_kernels": 1, "context_requests": 0, "context_tokens": 0,
        "generation_requests": 1, "generation_tokens": 1, "sum_k": sum_k if sum_k is not None else 1000.0,
    }  # fmt: skip
    return pd.DataFrame({"step_id": range(count), "dur_ns": np.asarray(times, float), **given, **columns})


def test_only_steps_of_a_kind_that_both_sides_have_are_compared() -> None:
    base = steps([100, 100, 400], generation_requests=[1, 1, 4])
    new = steps([110, 900], generation_requests=[1, 8])
    matched = match_steps(base, new)
    assert by_run(matched.new)[0] == pytest.approx([1.1])
    assert by_run(matched.base)[0] == pytest.approx([1.0, 1.0])
    assert matched.left_out == 2


def test_steps_cut_off_by_the_window_are_left_out() -> None:
    matched = match_steps(steps([100, 30], flags=[None, "partial"]), steps([100]))
    assert len(matched.base) == 1


def test_of_steps_that_are_all_cut_off_none_is_compared() -> None:
    matched = match_steps(steps([100], flags=["partial"]), steps([100], flags=["partial"]))
    assert (len(matched.base), len(matched.new), matched.left_out) == (0, 0, 2)


def test_growth_of_the_cache_is_not_a_slowdown() -> None:
    """5 ns a cached token on both sides; new has 100 tokens more, and is otherwise the same."""
    first, later = np.arange(1000.0, 1012), np.arange(1100.0, 1112)
    matched = match_steps(steps(1000 + 5 * first, sum_k=first), steps(1000 + 5 * later, sum_k=later))
    assert np.median(by_run(matched.new)[0]) == pytest.approx(1.0)


def test_sequences_eight_times_as_long_are_not_compared() -> None:
    assert match_steps(steps([100], sum_k=1000.0), steps([100], sum_k=8000.0)).new.empty
