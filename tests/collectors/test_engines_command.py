"""`tracekit collect --engine` as a command, and the commands that it prints."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from engineserver import Engine, serving
from typer.testing import CliRunner, Result

from collectors.engines.recipes import RECIPES, commands
from tracekit.cli.collect import collect
from tracekit.errors import TracekitError, UsageError

Invoke = Callable[..., Result]

SMALL = ("--prompt-len", "8", "--kv-len", "8", "--decode-steps", "2", "--warmup", "1", "--repeats", "1")


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """The command, with this checkout's collectors installed."""
    info = tmp_path / "installed" / "collectors_under_test-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: collectors-under-test\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[tracekit.collectors]\nengine = collectors.engines.command:collect\n"
        "engine-commands = collectors.engines.recipes:commands\n"
    )
    monkeypatch.syspath_prepend(info.parent)
    app = typer.Typer()
    app.command()(collect)
    return lambda *words: CliRunner().invoke(app, list(words))


def test_loads_and_the_folder_are_printed(invoke: Invoke, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    with serving(Engine(trace_dir=traces)) as url:
        result = invoke(
            "--engine", "vllm", "--url", url, "--trace-dir", str(traces), "-o", str(tmp_path / "run"), *SMALL
        )
    assert result.exit_code == 0, result.output
    engine, header, *loads, _, folder = result.stdout.strip().splitlines()
    assert engine == "vllm 0.32.0, tiny-llama"
    assert header.split() == ["load", "requests", "prompt", "output", "seconds"]
    assert [line.split()[:4] for line in loads] == [
        ["warmup", "1", "8", "2"],
        ["decode", "1", "8", "11"],
        ["prefill", "1", "8", "1"],
    ]
    assert folder.startswith(f"{tmp_path / 'run'}: 1 trace, ")


def test_the_key_comes_from_the_environment(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_THE_TEST", "secret")
    with serving(Engine(trace_dir=tmp_path, key="secret")) as url:
        words = ("--engine", "vllm", "--url", url, "-o", str(tmp_path / "run"), *SMALL)
        assert invoke(*words, "--api-key-env", "KEY_OF_THE_TEST").exit_code == 0
        refused = invoke(*words).exception
    assert isinstance(refused, TracekitError)
    assert refused.exit_code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "vllm"], "needs the address"),
        (["--url", "http://127.0.0.1:1"], "is for a running engine"),
        (["--trace-dir", "."], "is for a running engine"),
        (["--engine", "vllm", "--url", "http://127.0.0.1:1", "--layers", "2"], "means nothing for a running"),
        (
            ["--engine", "vllm", "--url", "http://127.0.0.1:1", "--counters", "lite"],
            "means nothing for a running",
        ),
        (["--engine", "vllm", "--url", "http://127.0.0.1:1", "--batch", "1,2"], "takes one value"),
        (["--engine", "vllm", "--url", "http://127.0.0.1:1", "--api-key-env", "NOT_SET_HERE"], "is not set"),
        (["--engine", "tgi", "--print-commands"], "is not known"),
    ],
)
def test_options_that_cannot_mean_anything_are_wrong_usage(
    invoke: Invoke, tmp_path: Path, words: list[str], said: str
) -> None:
    result = invoke(*words, "-o", str(tmp_path / "run"))
    assert isinstance(result.exception, UsageError)
    assert said in result.exception.message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("engine", RECIPES)
def test_a_recipe_is_a_shell_script_that_ends_in_something_to_report(engine: str, invoke: Invoke) -> None:
    printed = invoke("--engine", engine, "--print-commands").stdout
    assert printed == commands(engine) + "\n"
    subprocess.run(["bash", "-n"], input=printed, text=True, check=True)  # noqa: S607 - bash of this machine
    assert "tracekit report" in printed


@pytest.mark.parametrize("engine", RECIPES)
def test_the_docs_show_the_recipe_as_it_is_printed(engine: str) -> None:
    pages = Path(__file__).parents[2] / "docs" / "how-to"
    text = "".join(page.read_text() for page in sorted(pages.glob("collect-from-*.md")))
    assert commands(engine) in text


def test_the_recipe_for_transformers_is_python_that_compiles() -> None:
    script = commands("transformers").split("<<'PY'\n")[1].split("\nPY")[0]
    compile(script, "recipe", "exec")
