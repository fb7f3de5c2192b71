"""When is a difference said to be real."""

import math
from typing import Any

import numpy as np
import pytest

from tracekit.compare.statistics import holm, measure, student_quantile, student_two_sided

STEADY = np.array([99.0, 100.0, 101.0] * 4)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042)],
)
def test_student_quantiles_are_those_of_printed_tables(freedom: Any, quantile: Any) -> None:
    # Any printed table of Student's t, two-sided 5 %.
    assert student_quantile(0.975, freedom) == pytest.approx(quantile, abs=5e-4)
    assert student_two_sided(quantile, freedom) == pytest.approx(0.05, abs=1e-4)


def test_steps_five_percent_slower_are_slower_by_that_ratio() -> None:
    found = measure([STEADY], [STEADY * 1.05])
    assert (found.verdict, found.n_base, found.n_new) == ("slower", 12, 12)
    assert found.ratio == pytest.approx(1.05)
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert 1.0 < found.ci_low <= 1.05 <= found.ci_high


def test_a_change_under_two_percent_is_no_change_however_sure() -> None:
    found = measure([np.full(1000, 100.0)], [np.full(1000, 101.5)])
    assert found.verdict == "no_change"
    assert found.ratio == pytest.approx(1.015)


def test_nine_steps_are_too_few_and_the_ratio_is_still_given() -> None:
    found = measure([STEADY[:9]], [STEADY * 2])
    assert (found.verdict, found.ci_low, found.p) == ("insufficient", None, None)
    assert found.ratio == pytest.approx(2.0)


def test_runs_that_differ_among_themselves_as_much_as_the_sides_do_are_no_change() -> None:
    """Three runs a side drift by 10 %: a ratio of 1.05 is within that, though each run's own steps are steady."""
    base = [STEADY, STEADY * 1.1, STEADY * 0.9]
    new = [run * 1.05 for run in base]
    found = measure(base, new)
    assert found.drift_covered
    assert found.verdict == "no_change"
    assert measure([STEADY], [STEADY * 1.05]).verdict == "slower"


def test_the_drift_interval_is_students_t_over_the_runs_medians() -> None:
    base, new = [STEADY, STEADY * math.exp(0.02)], [STEADY, STEADY * math.exp(0.02)]
    found = measure(base, new)
    # Each side's medians lie 0.02 apart: variance 2e-4 with 1 + 1 degrees of freedom; error sqrt(2e-4 * (1/2 + 1/2)).
    assert found.ci_high is not None
    assert math.log(found.ci_high) == pytest.approx(4.303 * math.sqrt(2e-4), rel=1e-3)


def test_a_side_without_steps_has_no_ratio() -> None:
    assert measure([], [STEADY]).ratio is None


def test_holm_multiplies_by_the_tests_left_and_never_falls() -> None:
    assert holm([0.01, None, 0.04, 0.03]) == [
        pytest.approx(0.03),
        None,
        pytest.approx(0.06),
        pytest.approx(0.06),
    ]
