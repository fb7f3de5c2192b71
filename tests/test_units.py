"""Numbers and names as people read them."""

import math

import pytest

from tracekit.units import digits, duration, number_of, parse_duration, percent, plain, si


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (9.994, "9.99"), (9.996, "10.0"), (99.96, "100"), (1234.4, "1234"), (0.5, "0.500"), (0.01234, "0.0123"), (1e-7, "0.000000100"), (-3.2, "-3.20")],
)  # fmt: skip
def test_three_significant_digits_without_an_exponent(value: float, text: str) -> None:
    assert digits(value) == text


def test_steps_units_and_the_unknown() -> None:
    assert si(3.35e12, "B/s") == "3.35 TB/s"
    assert si(999.9, "FLOP/s") == "1.00 kFLOP/s"
    assert si(math.nan, "B/s") == si(None, "B/s") == duration(None) == percent(math.nan) == "-"
    assert duration(1234567) == "1.23 ms"
    assert duration(999.9) == "1.00 us"


def test_a_share_is_never_shown_as_nothing() -> None:
    assert [percent(share) for share in (0, 0.0001, 0.1234, 1)] == ["0 %", "<0.1 %", "12.3 %", "100 %"]


def test_a_name_is_one_line_that_cannot_steer_a_terminal() -> None:
    assert plain("a\x1b[2J\n\u202eb\ud800") == r"a\x1b[2J\n\u202eb\ud800"
    assert plain("abcdefghij" * 1000, 11) == "abcdef..hij"


@pytest.mark.parametrize(
    ("text", "ns"), [("12.3ms", 12.3e6), ("250 us", 250e3), ("1.5S", 1.5e9), (".5ms", 5e5), ("7ns", 7)]
)
def test_durations_are_read_with_their_unit(text: str, ns: float) -> None:
    assert parse_duration(text) == pytest.approx(ns)


@pytest.mark.parametrize("text", ["12", "ms", "0ms", "-1ms", "1e400s", "9" * 400 + "s", "12 min"])
def test_what_is_no_duration_is_none(text: str) -> None:
    assert parse_duration(text) is None


def test_one_is_singular() -> None:
    assert (number_of(1, "token"), number_of(0, "token"), number_of(4, "token")) == (
        "1 token",
        "0 tokens",
        "4 tokens",
    )
