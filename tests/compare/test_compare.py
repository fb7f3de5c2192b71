"""Two builds from capture to verdict, and through the files of their reports."""

import json
from pathlib import Path
from typing import Any

import pytest
from tracebuilder import TraceBuilder
from typer.testing import CliRunner

from tracekit.cli import app
from tracekit.formats import RequestSums, step_annotation

STEPS = 12


def decode(path: Path, attention: float, name: str = "flash_fwd_kernel<64>") -> str:
    """A trace of decode steps: a norm of 20 us and attention of the given time, with a little jitter."""
    trace = TraceBuilder()
    for step in range(STEPS):
        start = step * 1000.0
        text = step_annotation(RequestSums(), RequestSums.of([(1, 1000)]))
        trace.annotation(text, start, 300)
        trace.launched("rms_norm_kernel", start + 5, start + 20, 20 + step % 2)
        trace.launched(name, start + 10, start + 50, attention + step % 3)
    return trace.write(path)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["compare", *arguments])


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    return decode(tmp_path / "base.json", 100), decode(tmp_path / "new.json", 150, "fa3_fwd_kernel<128>")


def test_a_slower_kernel_that_was_replaced_is_found_and_named(pair: tuple[str, str]) -> None:
    found = json.loads(run(*pair, "--json").stdout)
    assert found["result"]["verdict"] == "slower"
    # The window of a step goes from 20 us to 150 us, then to 200 us.
    assert found["result"]["ratio"] == pytest.approx(181 / 131, rel=0.02)
    (kernel,) = [row for row in found["kernels"] if "fa3_fwd_kernel<128>" in row["new_names"]]
    assert kernel["base_names"] == ["flash_fwd_kernel<64>"]
    assert kernel["delta_ns"] == pytest.approx(50_000)
    assert found["phases"][0]["parts"]["mix"] == pytest.approx(50_000)
    assert not found["result"]["drift_covered"]


def test_the_parts_of_a_change_sum_to_it(pair: tuple[str, str]) -> None:
    (phase,) = json.loads(run(*pair, "--json").stdout)["phases"]
    change = phase["wall_ns"]["new"] - phase["wall_ns"]["base"]
    assert sum(phase["parts"].values()) == pytest.approx(change)


def test_a_capture_against_itself_is_no_change(pair: tuple[str, str]) -> None:
    found = json.loads(run(pair[0], pair[0], "--json").stdout)
    assert (found["result"]["verdict"], found["result"]["ratio"]) == ("no_change", 1.0)


def test_saved_reports_compare_as_their_captures_do(pair: tuple[str, str], tmp_path: Path) -> None:
    folders = [str(tmp_path / word) for word in ("one", "two")]
    for capture, folder in zip(pair, folders, strict=True):
        CliRunner().invoke(app, ["report", capture, "-o", folder, "--format", "json,parquet"])
    direct, saved = (json.loads(run(*sides, "--json").stdout) for sides in (pair, folders))
    assert saved["result"] == direct["result"]
    assert saved["kernels"] == direct["kernels"]


def test_a_crossed_threshold_ends_with_3_and_its_reason(pair: tuple[str, str]) -> None:
    found = run(*pair, "--fail-on", "decode.time > 3%")
    assert found.exit_code == 3
    assert "decode.time > 3%: changed by +38" in found.stderr
    assert run(pair[0], pair[0], "--fail-on", "decode.time > 3%").exit_code == 0


def test_names_from_a_trace_are_text_in_every_file(tmp_path: Path) -> None:
    base = decode(tmp_path / "a.json", 100, "<script>alert(1)</script>|@x")
    run(base, decode(tmp_path / "b.json", 200, "<script>alert(1)</script>|@x"), "-o", str(tmp_path / "out"))
    assert "<script" not in (tmp_path / "out" / "compare.html").read_text()
    assert "<script" not in (tmp_path / "out" / "compare.md").read_text().replace("\\<", "")
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "compare.html", "compare.md", "compare.json", "kernel_changes.parquet",
    }  # fmt: skip
