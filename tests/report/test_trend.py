"""Decode over steps: what the sentences beside the charts say."""

from collections.abc import Callable

from tracekit.report import Result
from tracekit.report.html.timeline import step_rows, timeline_figures, trend_figures

Make = Callable[..., Result]


def decode(make_result: Make, times: list[int], lengths: list[int]) -> Result:
    steps = [
        {
            "phase": "decode",
            "ts_ns": 10_000_000 * at,
            "dur_ns": dur,
            "sum_k": length,
            "generation_requests": 1,
        }
        for at, (dur, length) in enumerate(zip(times, lengths, strict=True))
    ]
    return make_result([{"name": "a", "ts_ns": 0, "dur_ns": 10, "phase": "decode"}], steps)


def readings(result: Result) -> dict[str, str]:
    return {figure.key: figure.reading for figure in trend_figures(result)}


def test_step_time_that_follows_the_cache_has_a_slope(make_result: Make) -> None:
    # 1 ms and 2 ns a token: 1,000 tokens more take 2 us.
    lengths = [1000 * at for at in range(1, 11)]
    found = readings(decode(make_result, [1_000_000 + 2 * length for length in lengths], lengths))
    assert found["trend-time"] == (
        "Median 1.01 ms a step; first 1.00 ms a step, last 1.02 ms a step, of 10 steps. Each 1,000 tokens more in the "
        "cache add 2.00 us (a line explains 100 % of the variance)."
    )
    assert found["trend-sum-k"].startswith("Median 5,500 tokens; first 1,000 tokens")
    assert found["trend-batch"] == "1 sequence in all 10 steps."


def test_step_time_that_does_not_is_said_not_to(make_result: Make) -> None:
    found = readings(decode(make_result, [1_000_000, 1_500_000] * 5, list(range(1000, 1010))))
    assert found["trend-time"].endswith("No line through KV length explains it.")


def test_a_timeline_without_idle_time_does_not_speak_of_it(make_result: Make) -> None:
    result = decode(make_result, [1_000_000] * 3, [1, 2, 3])
    (figure,) = timeline_figures(result, step_rows(result))
    assert figure.reading == "3 steps take 3.00 ms."
