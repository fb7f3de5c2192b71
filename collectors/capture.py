"""One capture: an unprofiled run, then a timing pass and a shape pass of the same seeded work.

Where decode steps are replayed as CUDA graphs, a third pass runs them eagerly with shapes: a replay has no ops, and its
kernels take their work from their twins there.
"""

import platform
import shlex
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from collectors import profiling
from collectors.building import Origin
from collectors.machine import Machine
from collectors.workload import GRAPHED, MIXED_STEPS, Runner, Timed
from tracekit.errors import TracekitError, UnsupportedError
from tracekit.formats import (
    CEILINGS,
    DONOR_TRACE,
    RUN,
    SHAPES_TRACE,
    TIMING_TRACE,
    FileRecord,
    Progress,
    Rate,
    RunManifest,
    Workload,
)
from tracekit.models import ModelConfig, kv_bytes_per_token, parameters, weight_bytes


@dataclass(frozen=True, slots=True)
class Passed:
    """What the passes of a capture left.

    Attributes:
        rates: Speeds without a profiler, with the overhead of the timing pass.
        files: The traces.
        notes: What their reader must know.
    """

    rates: tuple[Rate, ...]
    files: tuple[FileRecord, ...]
    notes: tuple[str, ...] = ()


def run(
    config: ModelConfig,
    workload: Workload,
    device: torch.device,
    folder: Path,
    progress: Progress,
    origin: Origin | None = None,
) -> Passed:
    """Run a workload and write its traces into a folder.

    Args:
        config: The model as it runs.
        workload: What to run.
        device: Where.
        folder: An existing folder.
        progress: Told of each step.
        origin: Where a model of Hugging Face's classes comes from.

    Raises:
        UnsupportedError: Out of memory, or a step that cannot be captured as a graph.
        CaptureError: A trace cannot be written, or holds nothing.
    """
    _forget(folder)
    try:
        runner = _ready(config, workload, device, progress, origin)
        return _passes(runner, folder, progress)
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise _out_of_memory(workload) from error
    except RuntimeError as error:
        if "alloc" in str(error) and "memory" in str(error):
            raise _out_of_memory(workload) from error
        raise


def _forget(folder: Path) -> None:
    """Remove an earlier capture's manifest, and those of its files that this one may not write again.

    A folder without a manifest is an unfinished capture; the manifest is written last. Counters and a donor pass of
    another workload would be read as this one's.
    """
    try:
        earlier = RunManifest.read(folder).files
    except TracekitError:
        earlier = ()
    for record in earlier:
        if record.made_by in {"donor", "counters"} and Path(record.name).name == record.name:
            (folder / record.name).unlink(missing_ok=True)
    (folder / RUN).unlink(missing_ok=True)


def _out_of_memory(workload: Workload) -> UnsupportedError:
    reason = f"out of memory while running {workload.model}: another process may have taken some since it was checked"
    return UnsupportedError(reason, hint="lower --layers, --batch, --prompt-len or --kv-len")


def _ready(
    config: ModelConfig, workload: Workload, device: torch.device, progress: Progress, origin: Origin | None
) -> Runner:
    progress.begin("weights and caches", 1)
    runner = Runner(config, workload, device, origin)
    progress.advance()
    progress.begin("warm-up", runner.warm_up_steps)
    runner.warm_up(progress)
    return runner


def _passes(runner: Runner, folder: Path, progress: Progress) -> Passed:
    workload, steps = runner.workload, runner.steps_of_a_pass
    progress.begin("run without a profiler", steps)
    plain = runner.run(progress)
    profiling.start_once(runner.device)
    everything = partial(runner.run, progress)
    timing = _pass(runner, "timing", everything, folder / TIMING_TRACE, steps, progress)
    done = [timing, _pass(runner, "shapes", everything, folder / SHAPES_TRACE, steps, progress)]
    if runner.replays:
        decode = partial(runner.run, progress, phases=(GRAPHED,), repeats=1, eager=True)
        done.append(_pass(runner, "donor", decode, folder / DONOR_TRACE, len(runner.plan[GRAPHED]), progress))
    partials = [
        f"{record.name} is only a part, also at the second try: {record.partial}"
        for record, _ in done
        if record.partial
    ]
    files = tuple(record for record, _ in done)
    return Passed(_rates(workload, plain, timing[1]), files, (*runner.notes, *partials))


def _pass(
    runner: Runner,
    made_by: str,
    work: Callable[[], list[Timed]],
    target: Path,
    steps: int,
    progress: Progress,
) -> tuple[FileRecord, list[Timed]]:
    """One pass under the profiler: the record of its file, and the times it took."""
    progress.begin(f"{made_by} pass", steps)
    recorded = profiling.record(
        work,
        runner.device,
        shapes=made_by != "timing",
        target=target,
        run=_metadata(runner.workload, made_by),
        steps=steps,
    )
    return FileRecord(target.name, made_by, steps, recorded.lacking), recorded.result


def _metadata(workload: Workload, made_by: str) -> dict[str, Any]:
    return {"pass": made_by, **asdict(workload)}


def _rates(workload: Workload, plain: list[Timed], profiled: list[Timed]) -> tuple[Rate, ...]:
    rates = []
    for phase in workload.phases:
        mine = [part for part in plain if part.phase == phase]
        seconds = statistics.median(part.seconds for part in mine)
        slowed = statistics.median(part.seconds for part in profiled if part.phase == phase)
        spread = statistics.median(abs(part.seconds - seconds) for part in mine)
        rates.append(
            Rate(
                test=test_name(workload, phase),
                phase=phase,
                batch=workload.batch,
                step_ns=1e9 * seconds / mine[0].steps,
                spread_ns=1e9 * spread / mine[0].steps,
                tokens_per_s=mine[0].tokens / seconds,
                timing_overhead=slowed / seconds - 1.0,
            )
        )
    return tuple(rates)


def test_name(workload: Workload, phase: str) -> str:
    """A phase's test in the words of llama-bench: `pp512`, `tg32@d1000`."""
    if phase == "prefill":
        return f"pp{workload.prompt_len}"
    if phase == "decode":
        return f"tg{workload.decode_steps}@d{workload.kv_len}"
    return f"pp{workload.prompt_len}+tg{MIXED_STEPS}@d{workload.kv_len}"


def manifest(
    config: ModelConfig,
    workload: Workload,
    machine: Machine,
    passed: Passed,
    notes: list[str],
    layers: int | None,
) -> RunManifest:
    """The manifest of a finished capture."""
    return RunManifest(
        workload=workload,
        model=config.to_json(),
        parameters=parameters(config).total,
        weight_bytes=weight_bytes(config, workload.dtype),
        kv_bytes_per_token=kv_bytes_per_token(config, workload.kv_dtype),
        device=machine.description(),
        versions=_versions(workload),
        command=command_line(workload, layers),
        files=(*passed.files, FileRecord(CEILINGS, "ceilings")),
        rates=passed.rates,
        notes=(*notes, *passed.notes),
    )


def _versions(workload: Workload) -> dict[str, str]:
    found = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "tracekit": _version("tracekit-llm"),
    }
    hosted = {"transformers": _version("transformers")} if workload.backend == "transformers" else {}
    return {**found, **hosted}


def command_line(workload: Workload, layers: int | None) -> str:
    """The command that collects the same again, without folders: they may name a user."""
    options = {
        "--model": workload.model,
        "--layers": layers,
        "--dtype": workload.dtype,
        "--kv-dtype": workload.kv_dtype,
        "--phase": ",".join(workload.phases),
        "--batch": workload.batch,
        "--prompt-len": workload.prompt_len,
        "--kv-len": workload.kv_len,
        "--decode-steps": workload.decode_steps,
        "--warmup": workload.warmup,
        "--repeats": workload.repeats,
        "--seed": workload.seed,
        "--device": workload.device,
        "--attention": workload.attention,
        "--backend": workload.backend,
        "--tp": workload.tensor_parallel,
    }
    words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    words += ["--compile"] * workload.compile + ["--cuda-graphs"] * workload.cuda_graphs
    return shlex.join(["tracekit", "collect", *words])


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown (not installed)"
