"""The screen: what a reader must see, and what a name must not do."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from tracekit.report import Result, print_summary
from tracekit.report import terminal as screen

Make = Callable[..., Result]
HOSTILE = "[bold red]evil[/]\x1b[2J\x1b]0;owned\x07\u202egnp.exe\r\n"


def printed(result: Result) -> str:
    out = io.StringIO()
    print_summary(result, stream=out)
    return out.getvalue()


def test_a_pipe_gets_plain_text_of_eighty_columns(big_result: Make) -> None:
    text = printed(big_result())
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert text == printed(big_result())


def test_the_story_of_a_phase_stands_on_the_screen(make_result: Make) -> None:
    text = printed(
        make_result(
            [
                {
                    "name": "mm", "ts_ns": 0, "dur_ns": 1000, "phase": "decode", "flops": 1e6, "dram_bytes": 1e6,
                    "peak": "bf16", "weight_bytes": 1e6, "flops_source": "shape", "bottleneck": "dram",
                },
                {"name": "add", "ts_ns": 1000, "dur_ns": 1000, "phase": "decode"},
            ],
            steps=[{"phase": "decode", "ts_ns": 0, "dur_ns": 4000, "n_kernels": 2}],
            gaps=[{"step_id": 0, "ts_ns": 2000, "dur_ns": 2000, "cause": "host"}],
        )
    )  # fmt: skip
    # 1e6 FLOP and byte in 1000 ns: 1 TFLOP/s of 1000, 1 TB/s of 2; 1e6 byte in 4000 ns are 12.5 % of 2 TB/s.
    for part in (
        "decode",
        "1.00 TFLOP/s",
        "1.00 TB/s",
        "50% spec",
        "12%",
        "dram 50.0 %",
        "idle 50.0 %",
        "mostly because of the host",
        "work known 50.0 %",
        "by nothing 50.0 %, shape 50.0 %",
    ):
        assert part in " ".join(text.split()), part


def test_warnings_stand_above_the_tables(big_result: Make) -> None:
    text = printed(big_result())
    assert text.index("kernels_without_launch") < text.index("Phase ")


def test_a_hostile_name_is_text_on_one_line(make_result: Make) -> None:
    rows = [{"name": HOSTILE + "x" * 5000, "ts_ns": 0, "dur_ns": 10}]
    text = printed(make_result(rows))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold red]ev" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_terminal_gets_colour_and_no_color_takes_it_away(
    big_result: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_terminal() -> str:
        out = io.StringIO()
        terminal = Console(file=out, force_terminal=True, width=80, color_system="standard")
        monkeypatch.setattr(screen, "console", lambda _: terminal)
        print_summary(big_result())
        return out.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[36m" in on_terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[36m" not in on_terminal()


def test_an_output_that_knows_only_ascii_is_no_reason_to_fail(big_result: Make) -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    print_summary(big_result(names=(("k\u00e9rnel", "gemm", "bf16"),)), stream=out)
    out.flush()
    assert b"k\\xe9rnel" in raw.getvalue()


def test_nothing_to_report_is_said(make_result: Make) -> None:
    assert "nothing to report" in printed(make_result([]))
