"""With `--cache`, a command on the same files says the same again without reading them."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tracekit.cli import app
from tracekit.errors import CaptureError

SAMPLE = str(Path(__file__).parents[2] / "sample_traces" / "cpu-mixed")
COMMANDS = {
    "report": [],
    "kernels": [],
    "annotate": ["-o", "annotated.json"],
    "whatif": ["--model", "qwen3-0.6b"],
    "compare": [SAMPLE],
}


def run(command: str, *options: str) -> str:
    result = CliRunner().invoke(app, [command, SAMPLE, *COMMANDS[command], *options])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_a_second_command_reads_nothing(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = run(command, "--cache-dir", "kept")
    monkeypatch.setattr("tracekit.pipeline.analysis.load", None)
    assert run(command, "--cache-dir", "kept") == first


def test_what_one_command_kept_serves_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run("report", "--cache")
    assert len(list((tmp_path / "tracekit").iterdir())) > 1
    monkeypatch.setattr("tracekit.pipeline.analysis.load", None)
    assert run("kernels", "--cache")


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("tracekit.pipeline.analysis.load", None)
    result = CliRunner().invoke(app, ["report", SAMPLE, "--cache-dir", str(tmp_path / "file" / "below")])
    assert isinstance(result.exception, CaptureError)
    assert "the cache cannot be written" in result.exception.message
