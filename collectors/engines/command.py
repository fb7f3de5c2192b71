"""The entry point of `tracekit collect --engine`: a request in, a folder of traces and `engine.json` out."""

import platform
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from typing import Any

from collectors.engines import gather, load
from collectors.engines.client import Client, ServerError
from collectors.engines.servers import SERVERS, Server
from collectors.sweep import prepare
from tracekit.errors import CaptureError, TracekitError, UnsupportedError, UsageError
from tracekit.formats import ENGINE, INDEX, PHASES, RUN, SCHEMA_VERSION, EngineRequest, Progress, write_json

_STOP_AFTER_FAILURE_S = 60.0


@dataclass(slots=True)
class EngineRun:
    """What became of a collection; `engine.json` holds it.

    Attributes:
        engine: Which engine served.
        version: Its version, as it says.
        model: The name it serves, without folders.
        settings: What it says of itself.
        loads: What was sent while the profile ran, and the warm-up.
        files: The traces in the folder.
        notes: What the reader of the figures must know.
    """

    engine: str
    version: str | None
    model: str
    settings: dict[str, Any]
    loads: list[load.Sent] = field(default_factory=list)
    files: list[gather.Gathered] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def collect(request: EngineRequest, progress: Progress) -> EngineRun:
    """Send loads to a running engine while its profile runs, and gather the traces that it writes.

    Args:
        request: Which server, and what to send.
        progress: Told how far it is.

    Returns:
        What was sent and gathered.

    Raises:
        UsageError: The request cannot mean anything.
        UnsupportedError: The server cannot profile; the hint turns it on.
        ServerError: It does not answer, refuses, or ended on the way; what it wrote until then is gathered first.
        CaptureError: A folder cannot be read or written, or no trace was written.
    """
    _check(request)
    _prepare(request)
    before = {} if request.trace_dir is None else gather.look(request.trace_dir)
    client = Client(request.url, request.api_key, request.timeout_s)
    server = SERVERS[request.engine](client, request.model, request.trace_dir)
    server.check()
    run = EngineRun(server.name, server.version, PurePath(server.model).name, server.settings())
    try:
        _record(request, server, run, progress)
    except TracekitError as error:
        # Whatever ended it, what was written is worth keeping.
        run.notes.append(f"the collection did not finish: {error.message}")
        _gather(request, run, before, expected=0, timeout_s=min(5.0, request.timeout_s))
        _write(request, run)
        raise
    _gather(request, run, before, expected=server.ranks() or 1, timeout_s=request.timeout_s)
    _write(request, run)
    _judge(request, run, server.ranks())
    return run


def _check(request: EngineRequest) -> None:
    if request.engine not in SERVERS:
        known = ", ".join(SERVERS)
        hint = f"a running {known} can be driven; for others see --print-commands"
        raise UsageError(f"--engine {request.engine!r} cannot be driven", hint=hint)
    unknown = [phase for phase in request.phases if phase not in PHASES]
    if unknown or not request.phases:
        raise UsageError(f"--phase {','.join(unknown)!r} is not a load", hint=f"known: {', '.join(PHASES)}")
    if min(request.batch, request.prompt_len, request.kv_len) < 1:
        raise UsageError("--batch, --prompt-len and --kv-len must be at least 1 for an engine")
    load.check_batch(request.batch)


def _prepare(request: EngineRequest) -> None:
    """Make the output folder ready; a workload's capture in it is not written over."""
    prepare(request.output)
    if not {RUN, INDEX}.isdisjoint(path.name for path in request.output.iterdir()):
        hint = "choose another folder with -o"
        raise CaptureError(str(request.output), "holds a capture of another kind", hint=hint)
    if request.trace_dir is not None and request.trace_dir.resolve() == request.output.resolve():
        raise UsageError("--trace-dir and -o are the same folder", hint="choose another folder with -o")


def _record(request: EngineRequest, server: Server, run: EngineRun, progress: Progress) -> None:
    """Warm up, then one profile over all loads; it is stopped whatever happens to the loads."""
    prompts = load.Prompts(request.seed)
    progress.begin("warm-up", request.warmup)
    for _ in range(request.warmup):
        run.loads.append(load.round_of(server, "warmup", prompts.take(request.batch, request.prompt_len), 2))
        progress.advance()
    if "decode" in request.phases or "mixed" in request.phases:
        _decode(request, server, run, prompts, progress)
    else:
        _profiled(request, server, progress, lambda: _prefill(request, server, run, prompts, progress))


def _decode(
    request: EngineRequest, server: Server, run: EngineRun, prompts: load.Prompts, progress: Progress
) -> None:
    """Start the profile only when every request of the decode load decodes; other loads come behind it."""
    tokens = request.decode_steps + load.slack_tokens(request.batch, request.kv_len)
    running = load.Running(server, "decode", prompts.take(request.batch, request.kv_len), tokens)
    try:
        running.until_decoding(request.timeout_s)

        def loads() -> None:
            progress.begin("decode load", 1)
            if ended := running.ended():
                run.notes.append(
                    f"{ended} of {request.batch} decode requests ended before the profile started"
                )
            if "mixed" in request.phases:
                run.loads.append(load.round_of(server, "mixed", prompts.take(1, request.prompt_len), 1))
            run.loads.append(running.finish())
            progress.advance()
            if "prefill" in request.phases:
                _prefill(request, server, run, prompts, progress)

        _profiled(request, server, progress, loads)
    finally:
        running.abandon()


def _prefill(
    request: EngineRequest, server: Server, run: EngineRun, prompts: load.Prompts, progress: Progress
) -> None:
    """Rounds of prompts that ask for one token: all of their work is prefill."""
    progress.begin("prefill load", request.repeats)
    for _ in range(request.repeats):
        run.loads.append(load.round_of(server, "prefill", prompts.take(request.batch, request.prompt_len), 1))
        progress.advance()


def _profiled(request: EngineRequest, server: Server, progress: Progress, loads: Callable[[], None]) -> None:
    """A profile around loads; it is stopped too when they fail, or when its start was not answered in time."""
    with ExitStack() as on_failure:
        on_failure.callback(_stop_after_failure, request, server, progress)
        try:
            server.start()
        except UnsupportedError:
            on_failure.pop_all()
            raise
        loads()
        on_failure.pop_all()
    progress.begin("stop and write traces", 1)
    try:
        server.stop(request.stop_timeout_s)
    except ServerError as error:
        raise _stop_failed(error) from error
    progress.advance()


def _stop_after_failure(request: EngineRequest, server: Server, progress: Progress) -> None:
    """Stop the profile without hiding why: the failure before is what the reader must see."""
    try:
        server.stop(min(_STOP_AFTER_FAILURE_S, request.stop_timeout_s))
    except ServerError as error:
        progress.note(f"the profile could not be stopped either: {error.message}")


def _stop_failed(error: ServerError) -> ServerError:
    hint = (
        "the server ended while it wrote its traces: record less (--decode-steps, --batch), without stacks"
        if error.lost
        else error.hint
    )
    return ServerError(error.message, hint=hint, status=error.status, lost=error.lost)


def _gather(
    request: EngineRequest, run: EngineRun, before: gather.Seen, *, expected: int, timeout_s: float
) -> None:
    if request.trace_dir is None:
        run.notes.append(_where(request.engine))
        return
    _clear(request.output)
    found = gather.wait_for(request.trace_dir, before, expected, timeout_s)
    run.files = gather.place(found, request.output, run.engine, timeout_s)
    for file in run.files:
        if not file.complete:
            run.notes.append(f"{file.name} is cut off: its complete events are still read")


def _clear(folder: Path) -> None:
    """Remove the traces of an earlier collection: a folder is one capture."""
    for path in folder.glob("*.trace.json.gz"):
        path.unlink(missing_ok=True)


def _where(engine: str) -> str:
    wrote = {
        "vllm": "the folder that its profiler was started with (torch_profiler_dir, or VLLM_TORCH_PROFILER_DIR)",
        "sglang": "SGLANG_TORCH_PROFILER_DIR of its environment, or else its temporary folder",
    }
    return f"the traces are on the server's machine, in {wrote[engine]}: copy them, or give --trace-dir"


def _judge(request: EngineRequest, run: EngineRun, ranks: int | None) -> None:
    """An error where nothing was written, and a note where ranks are missing."""
    if request.trace_dir is None:
        return
    if not run.files:
        hint = "is --trace-dir the folder that the server's profiler was given?"
        raise CaptureError(str(request.trace_dir), "no trace was written to it", hint=hint, code="missing")
    seen = {file.rank for file in run.files}
    if ranks is not None and len(seen) < ranks:
        run.notes.append(f"{len(seen)} of {ranks} ranks wrote a trace")
        _write(request, run)


def _write(request: EngineRequest, run: EngineRun) -> None:
    document = {
        "schema_version": SCHEMA_VERSION,
        **asdict(run),
        "workload": {
            "phases": request.phases,
            "batch": request.batch,
            "prompt_len": request.prompt_len,
            "kv_len": request.kv_len,
            "decode_steps": request.decode_steps,
            "warmup": request.warmup,
            "repeats": request.repeats,
            "seed": request.seed,
        },
        "versions": {"python": platform.python_version(), "tracekit": _own_version()},
        "command": command_line(request),
    }
    write_json(request.output / ENGINE, document)


def command_line(request: EngineRequest) -> str:
    """The command that collects the same again; the address, folders and key are left to the reader."""
    options = {
        "--engine": request.engine,
        "--url": "URL",
        "--phase": ",".join(request.phases),
        "--batch": request.batch,
        "--prompt-len": request.prompt_len,
        "--kv-len": request.kv_len,
        "--decode-steps": request.decode_steps,
        "--warmup": request.warmup,
        "--repeats": request.repeats,
        "--seed": request.seed,
    }
    return shlex.join(["tracekit", "collect", *(str(word) for pair in options.items() for word in pair)])


def _own_version() -> str:
    try:
        return version("tracekit-llm")
    except PackageNotFoundError:
        return "unknown (not installed)"
