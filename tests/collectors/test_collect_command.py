"""`tracekit collect` as a command: what it finds, prints and refuses."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from tracekit.cli.collect import collect, find_collector
from tracekit.errors import TracekitError, UnsupportedError, UsageError

Invoke = Callable[..., Result]

TINY = (
    "--prompt-len",
    "8",
    "--kv-len",
    "4",
    "--decode-steps",
    "2",
    "--warmup",
    "0",
    "--repeats",
    "1",
    "--device",
    "cpu",
)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """An installed distribution whose collector is `target`."""
    info = folder / "collectors_under_test-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: collectors-under-test\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[tracekit.collectors]\ncollect = {target}\n")
    # In front of the others: the first of a name counts.
    monkeypatch.syspath_prepend(folder)


@pytest.fixture
def invoke() -> Invoke:
    app = typer.Typer()
    app.command()(collect)
    return lambda *words: CliRunner().invoke(app, list(words))


def test_help_names_the_options_people_expect(invoke: Invoke) -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", invoke("--help").output)
    for option in (
        "--model",
        "--layers",
        "--dtype",
        "--batch",
        "--prompt-len",
        "--kv-len",
        "--seed",
        "--output",
    ):
        assert option in text


def test_without_a_collector_the_hint_says_how_to_install_one() -> None:
    with pytest.raises(UnsupportedError) as caught:
        find_collector("no-such-collector")
    assert "tracekit-llm[collect]" in caught.value.hint


def test_without_pytorch_one_line_says_so(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_torch.py").write_text(
        "raise ModuleNotFoundError('No module named torch', name='torch')"
    )
    install(tmp_path, monkeypatch, "needs_torch:collect")
    result = invoke("-o", str(tmp_path / "run"))
    assert isinstance(result.exception, UnsupportedError)
    assert result.exception.message == "collecting needs PyTorch, and it is not installed here"


def test_another_missing_module_is_not_taken_for_pytorch(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_other.py").write_text("import absent_module_of_this_test")
    install(tmp_path, monkeypatch, "needs_other:collect")
    assert isinstance(invoke("-o", str(tmp_path / "run")).exception, ModuleNotFoundError)


@pytest.mark.parametrize("batch", ["", "many", "1,-2", "1.5", "²"])
def test_a_list_that_is_no_list_of_numbers_is_wrong_usage(invoke: Invoke, batch: str) -> None:
    result = invoke("--batch", batch)
    assert isinstance(result.exception, UsageError)
    assert result.exception.exit_code == 2


@pytest.mark.torch
def test_rates_and_the_folder_are_printed(
    invoke: Invoke, tmp_path: Path, tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    install(tmp_path, monkeypatch, "collectortools:collect_quickly")
    result = invoke("--model", str(tiny_config), *TINY, "-o", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    header, prefill, decode, *_, folder = result.stdout.strip().splitlines()
    assert header.split() == ["model", "dtype", "batch", "test", "time/step", "spread", "token/s", "profiled"]
    assert prefill.split()[:4] == ["tiny-llama", "fp32", "1", "pp8"]
    assert decode.split()[:4] == ["tiny-llama", "fp32", "1", "tg2@d4"]
    assert folder == str(tmp_path / "run")


@pytest.mark.torch
def test_a_sweep_with_a_failure_prints_the_others_and_fails(
    invoke: Invoke, tmp_path: Path, tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    install(tmp_path, monkeypatch, "collectortools:collect_quickly")
    words = [*TINY, "--kv-len", "4,1000000000000", "--model", str(tiny_config), "-o", str(tmp_path / "run")]
    result = invoke(*words)
    assert "tg2@d4" in result.stdout
    assert isinstance(result.exception, TracekitError)
    assert "needs" in result.exception.message
    assert (tmp_path / "run" / "index.json").is_file()
