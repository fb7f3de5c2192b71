"""`tracekit collect`: run a workload under a profiler and write a capture folder."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

from tracekit.cli.engines import check_options, engine_request, show_run
from tracekit.errors import TracekitError, UnsupportedError, UsageError
from tracekit.formats import (
    ATTENTION,
    BACKENDS,
    DTYPES,
    KV_DTYPES,
    PHASES,
    CollectRequest,
    Progress,
    Rate,
    RunManifest,
)
from tracekit.units import digits, duration, percent

GROUP = "tracekit.collectors"
_INSTALL = "pip install 'tracekit-llm[collect]'"

_SIZE = "Work"
_RUN = "Run"
_ENGINE = "A running engine"


def collect(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder to write.", rich_help_panel=_RUN)
    ] = Path("tracekit-capture"),
    model: Annotated[
        str | None,
        typer.Option(
            help="Presets (such as Llama-3.1-8B), or Hugging Face config.json files or folders. [default: a small one on a CPU]",
            show_default=False,
            rich_help_panel=_SIZE,
        ),
    ] = None,
    layers: Annotated[
        int | None,
        typer.Option(help="Keep so many layers.", show_default=False, min=1, rich_help_panel=_SIZE),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(DTYPES)}. [default: fp32 on a CPU, bf16 on a GPU]",
            show_default=False,
            rich_help_panel=_SIZE,
        ),
    ] = None,
    kv_dtype: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(KV_DTYPES)}. [default: as --dtype]", show_default=False, rich_help_panel=_SIZE
        ),
    ] = None,
    phase: Annotated[
        str, typer.Option(help=f"Phases, in one capture: {', '.join(PHASES)}.", rich_help_panel=_SIZE)
    ] = "prefill,decode",
    batch: Annotated[str, typer.Option(help="Requests of a step.", rich_help_panel=_SIZE)] = "1",
    prompt_len: Annotated[str, typer.Option(help="Tokens of a prompt.", rich_help_panel=_SIZE)] = "512",
    kv_len: Annotated[
        str,
        typer.Option(
            help="Tokens in the KV cache before decode; they are not decoded.", rich_help_panel=_SIZE
        ),
    ] = "1000",
    decode_steps: Annotated[
        int, typer.Option(help="Decode steps of a repeat.", min=1, rich_help_panel=_SIZE)
    ] = 32,
    tp: Annotated[
        int,
        typer.Option(help="Run one rank's part of a tensor-parallel group.", min=1, rich_help_panel=_SIZE),
    ] = 1,
    attention: Annotated[str, typer.Option(help=f"{', '.join(ATTENTION)}.", rich_help_panel=_RUN)] = "sdpa",
    backend: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(BACKENDS)}: tracekit's own model, or Hugging Face's classes.",
            rich_help_panel=_RUN,
        ),
    ] = "decoder",
    compiled: Annotated[
        bool,
        typer.Option("--compile", help="Compile the model with torch.compile.", rich_help_panel=_RUN),
    ] = False,
    cuda_graphs: Annotated[
        bool,
        typer.Option("--cuda-graphs", help="Replay decode steps as CUDA graphs.", rich_help_panel=_RUN),
    ] = False,
    warmup: Annotated[int, typer.Option(help="Steps of each phase first.", min=0, rich_help_panel=_RUN)] = 2,
    repeats: Annotated[int, typer.Option(help="Repeats of each phase.", min=1, rich_help_panel=_RUN)] = 3,
    seed: Annotated[int, typer.Option(help="Seed of weights and tokens.", min=0, rich_help_panel=_RUN)] = 0,
    device: Annotated[
        str | None,
        typer.Option(
            help="cpu or cuda. [default: a GPU where there is one]", show_default=False, rich_help_panel=_RUN
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            help="CPU threads. [default: physical cores]", show_default=False, min=1, rich_help_panel=_RUN
        ),
    ] = None,
    counters: Annotated[
        str | None,
        typer.Option(
            help="Also collect hardware counters under Nsight Compute: lite, flops or full.",
            show_default=False,
            rich_help_panel=_RUN,
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="vllm or sglang: drive a server that runs already, and gather its traces.",
            show_default=False,
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Its address, such as http://127.0.0.1:8000.", show_default=False, rich_help_panel=_ENGINE
        ),
    ] = None,
    trace_dir: Annotated[
        Path | None,
        typer.Option(
            help="The folder it writes traces to, where this machine sees it.",
            show_default=False,
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(
            help="Environment variable that holds its key.", show_default=False, rich_help_panel=_ENGINE
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Longest wait for an answer [s].", min=1, rich_help_panel=_ENGINE)
    ] = 120,
    stop_timeout: Annotated[
        float, typer.Option(help="Longest wait for its profile to stop [s].", min=1, rich_help_panel=_ENGINE)
    ] = 900,
    print_commands: Annotated[
        bool,
        typer.Option(
            "--print-commands",
            help="Print the ncu and nsys lines, or how to record an --engine (also trtllm, transformers, lmdeploy, llama.cpp), and do nothing.",
            rich_help_panel=_RUN,
        ),
    ] = False,
) -> None:
    """Run prefill and decode of a model under a profiler, and measure this device's ceilings.

    The weights are random: nothing is downloaded. Commas in --model, --dtype, --batch, --prompt-len and
    --kv-len make a sweep: a folder each, and an index; collect again to go on where a sweep stopped.
    With --engine, requests of those lengths go to a running server instead, while its own profiler records.
    """
    check_options(context, driven=engine is not None)
    if engine is not None and print_commands:
        typer.echo(find_collector("engine-commands")(engine))
        return
    phases = tuple(dict.fromkeys(_words(phase)))
    if engine is not None:
        lists = {
            "model": tuple(_words(model)),
            "batch": _numbers("--batch", batch),
            "prompt_len": _numbers("--prompt-len", prompt_len),
            "kv_len": _numbers("--kv-len", kv_len),
        }
        asked = engine_request(
            engine,
            url,
            lists,
            api_key_env=api_key_env,
            output=output,
            trace_dir=trace_dir,
            phases=phases,
            decode_steps=decode_steps,
            warmup=warmup,
            repeats=repeats,
            seed=seed,
            timeout_s=timeout,
            stop_timeout_s=stop_timeout,
        )
        with collecting() as progress:
            run = find_collector("engine")(asked, progress)
        show_run(output, run)
        return
    request = CollectRequest(
        output=output,
        models=tuple(_words(model)) or (None,),
        layers=layers,
        dtypes=tuple(_words(dtype)) or (None,),
        kv_dtype=kv_dtype,
        phases=phases,
        batches=_numbers("--batch", batch),
        prompt_lens=_numbers("--prompt-len", prompt_len),
        kv_lens=_numbers("--kv-len", kv_len),
        decode_steps=decode_steps,
        warmup=warmup,
        repeats=repeats,
        seed=seed,
        device=device,
        attention=attention,
        backend=backend,
        compile=compiled,
        cuda_graphs=cuda_graphs,
        tensor_parallel=tp,
        threads=threads,
        counters=counters,
    )
    if print_commands:
        typer.echo("\n".join(find_collector("commands")(request)))
        return
    if compiled or attention == "flex":
        # Compiled C++ brings a second OpenMP runtime beside PyTorch's: threads of one that spin starve the other's.
        # Both read this when they are loaded, so it is set before PyTorch is imported.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    collector = find_collector("collect")
    with collecting() as progress:
        outcomes = collector(request, progress)
    _show(output, outcomes)


def find_collector(name: str) -> Callable[..., Any]:
    """The collector of a name, found by entry point: tracekit itself never imports one.

    Raises:
        UnsupportedError: None is installed, or PyTorch is not.
    """
    found = tuple(entry_points(group=GROUP, name=name))
    if not found:
        raise UnsupportedError(f"no collector {name!r} is installed", hint=_INSTALL)
    try:
        loaded: Callable[..., Any] = found[0].load()
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        reason = "collecting needs PyTorch, and it is not installed here"
        raise UnsupportedError(reason, hint=_INSTALL) from error
    return loaded


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _numbers(option: str, text: str) -> tuple[int, ...]:
    words = _words(text)
    if not words or not all(word.isascii() and word.isdigit() for word in words):
        raise UsageError(f"{option} {text!r}: write numbers", hint=f"for example {option} 1,8,64")
    return tuple(dict.fromkeys(map(int, words)))


class _Silent:
    """Progress where nobody looks: notes alone are said."""

    def begin(self, task: str, total: int) -> None:
        """Nothing."""

    def advance(self) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Say it on stderr."""
        typer.echo(f"note: {text}", err=True)


@contextmanager
def collecting() -> Iterator[Progress]:
    """A progress bar on stderr, where that is a terminal."""
    if not sys.stderr.isatty():
        yield _Silent()
        return
    from tracekit.cli.progress import Bar

    with Bar() as bar:
        yield bar


def _show(output: Path, outcomes: Sequence[Any]) -> None:
    """The table of rates, notes on stderr, and an error where a capture of a sweep failed."""
    done = [outcome for outcome in outcomes if outcome.manifest is not None]
    for note in dict.fromkeys(note for outcome in done for note in outcome.manifest.notes):
        typer.echo(f"note: {note}", err=True)
    if done:
        typer.echo("\n".join(_table([outcome.manifest for outcome in done])))
    resumed = sum(outcome.resumed for outcome in done)
    kept = f" ({resumed} of {len(outcomes)} were there already)" if resumed else ""
    typer.echo(f"\n{output}{kept}")
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    for outcome in failed[:-1]:
        typer.echo(f"error: {outcome.folder.name}: {outcome.error.message}", err=True)
    if failed:
        last = failed[-1]
        raise TracekitError(f"{last.folder.name}: {last.error.message}", hint=last.error.hint)


_HEADER = ("model", "dtype", "batch", "test", "time/step", "spread", "token/s", "profiled")


def _table(manifests: Sequence[RunManifest]) -> list[str]:
    rows = [_HEADER, *(_row(manifest, rate) for manifest in manifests for rate in manifest.rates)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lefts = (True, True, False, True, False, False, False, False)
    return [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(row, widths, lefts, strict=True)
        ).rstrip()
        for row in rows
    ]


def _row(manifest: RunManifest, rate: Rate) -> tuple[str, ...]:
    overhead = rate.timing_overhead
    slower = "-" if overhead is None else f"{'+' if overhead >= 0 else '-'}{percent(abs(overhead))}"
    return (
        manifest.workload.model,
        manifest.workload.dtype,
        str(rate.batch),
        rate.test,
        duration(rate.step_ns),
        f"±{duration(rate.spread_ns)}" if manifest.workload.repeats > 1 else "-",
        digits(rate.tokens_per_s),
        slower,
    )
