"""Predictions that start from a capture."""

import json
from pathlib import Path
from typing import Any

import pytest
from tracebuilder import TraceBuilder
from typer.testing import CliRunner

from tracekit.cli import app
from tracekit.formats import RequestSums, step_annotation


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """Decode of two requests over 1,000 cached tokens on an A100: a product of 40 us, a wait, attention of 60 us."""
    trace = TraceBuilder()
    for step in range(4):
        start = step * 1000.0
        text = step_annotation(RequestSums(), RequestSums.of([(1, 1001), (1, 1001)]))
        trace.annotation(text, start, 400)
        trace.launched("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", start + 5, start + 20, 40)
        trace.launched("flash_fwd_splitkv_kernel<bf16>", start + 190, start + 200, 60)
    return trace.write(tmp_path / "decode.json")


def ask(*arguments: str) -> Any:
    done = CliRunner().invoke(app, ["whatif", *arguments, "--json"])
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_what_a_capture_ran_is_read_from_its_steps(capture: str) -> None:
    found = ask(capture, "--model", "Llama-3.1-8B")
    assert (found["phase"], found["device"]) == ("decode", "A100 SXM4 80GB")
    assert found["measured_s"] == pytest.approx(240e-6)
    # Two requests read 1,001 tokens and write one each: 131,072 bytes a token.
    assert found["kv_bytes"] == pytest.approx(2 * 1002 * 131072)


def test_cuda_graphs_win_the_waits_for_the_host_alone(capture: str) -> None:
    asked = ask(capture, "--model", "Llama-3.1-8B", "--cuda-graphs")["answer"]["groups_s"]
    before = ask(capture, "--model", "Llama-3.1-8B")["answer"]["groups_s"]
    assert before["idle"] == pytest.approx(140e-6)
    assert asked["idle"] < before["idle"]
    assert {name: asked[name] for name in asked if name != "idle"} == {
        name: before[name] for name in before if name != "idle"
    }


def test_a_capture_without_a_model_is_wrong_usage(capture: str) -> None:
    assert CliRunner().invoke(app, ["whatif", capture]).exit_code != 0


def test_an_answer_is_written_as_a_page_markdown_and_json(capture: str, tmp_path: Path) -> None:
    out = tmp_path / "answer"
    asked = ["whatif", capture, "--model", "Llama-3.1-8B", "-o", str(out)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.stderr
    assert json.loads((out / "whatif.json").read_text()) == ask(capture, "--model", "Llama-3.1-8B")
    assert "| kv-dtype fp8 |" in (out / "whatif.md").read_text()
    assert "<h2>Each change by itself</h2>" in (out / "whatif.html").read_text()
    only = CliRunner().invoke(app, [*asked[:-1], str(tmp_path / "one"), "--format", "md"])
    assert only.exit_code == 0
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["whatif.md"]
    refused = CliRunner().invoke(app, [*asked, "--format", "parquet"])
    assert "one or more of html,md,json" in getattr(refused.exception, "hint", "")


def test_graphs_are_a_lever_where_none_are_replayed(capture: str) -> None:
    levers = {lever["lever"] for lever in ask(capture, "--model", "Llama-3.1-8B")["levers"]}
    assert "cuda-graphs" in levers
