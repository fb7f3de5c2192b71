"""`tracekit collect --engine`: the same words as for an own workload, sent to a server that runs already."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from tracekit.errors import UsageError
from tracekit.formats import EngineRequest

_ONE = ("model", "batch", "prompt_len", "kv_len")
_WORKLOAD_ONLY = (
    "layers", "dtype", "kv_dtype", "tp", "attention", "backend", "compiled", "cuda_graphs", "device", "threads", "counters",
)  # fmt: skip
_SPELLED = {"compiled": "--compile"}
_ENGINE_ONLY = ("url", "trace_dir", "api_key_env", "timeout", "stop_timeout")


def check_options(context: typer.Context, *, driven: bool) -> None:
    """Refuse options that the other kind of collection takes.

    Raises:
        UsageError: One was given.
    """
    foreign = _WORKLOAD_ONLY if driven else _ENGINE_ONLY
    given = [name for name in foreign if _was_given(context, name)]
    if not given:
        return
    option = _SPELLED.get(given[0], "--" + given[0].replace("_", "-"))
    if driven:
        hint = "the engine decides that when it starts; leave the option out"
        raise UsageError(f"{option} means nothing for a running engine", hint=hint)
    raise UsageError(f"{option} is for a running engine", hint="say which with --engine")


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def engine_request(
    engine: str,
    url: str | None,
    lists: Mapping[str, tuple[Any, ...]],
    *,
    api_key_env: str | None,
    **rest: Any,
) -> EngineRequest:
    """The request that the options say.

    Args:
        engine: Which engine serves.
        url: Where.
        lists: `model`, `batch`, `prompt_len` and `kv_len`, which may be lists elsewhere.
        api_key_env: The environment variable that holds the key.
        rest: The other fields of the request.

    Raises:
        UsageError: The address is missing, a list has several values, or the variable is not set.
    """
    if url is None:
        hint = f"--url http://127.0.0.1:8000, or `tracekit collect --engine {engine} --print-commands`"
        raise UsageError("--engine needs the address of the server", hint=hint)
    for name in _ONE:
        if len(lists[name]) > 1:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} takes one value for an engine", hint="collect once for each value")
    values: dict[str, Any] = {name: lists[name][0] if lists[name] else None for name in _ONE}
    return EngineRequest(engine=engine, url=url, api_key=_key(api_key_env), **values, **rest)


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        hint = "export the server's key in it; the name of the variable is given, never the key"
        raise UsageError("--api-key-env names a variable that is not set", hint=hint)
    return key


def show_run(output: Path, run: Any) -> None:
    """Loads as a table, notes on stderr, and what to do next.

    Args:
        output: The capture folder.
        run: What the collector returned.
    """
    for note in run.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"{run.engine} {run.version or '(version not said)'}, {run.model}")
    rows = [("load", "requests", "prompt", "output", "seconds")]
    rows += [
        (
            sent.load,
            str(sent.requests),
            str(sent.prompt_tokens),
            str(sent.output_tokens),
            f"{sent.seconds:.2f}",
        )
        for sent in run.loads
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        typer.echo("  ".join([first.ljust(widths[0]), *cells]))
    if run.files:
        size = sum(file.size_bytes for file in run.files) / 1e6
        typer.echo(f"\n{output}: {len(run.files)} trace{'s' * (len(run.files) > 1)}, {size:.1f} MB")
