"""One capture: an unprofiled run, a timing pass and a shape pass of the same seeded work, between two measurements."""

import platform
import shlex
import statistics
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from collectors import profiling
from collectors.machine import Machine
from collectors.workload import MIXED_STEPS, Runner, Timed
from tracekit.errors import UnsupportedError
from tracekit.formats import (
    CEILINGS,
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


def run(
    config: ModelConfig, workload: Workload, device: torch.device, folder: Path, progress: Progress
) -> tuple[Rate, ...]:
    """Run a workload and write its two traces into a folder.

    Args:
        config: The model as it runs.
        workload: What to run.
        device: Where.
        folder: An existing folder.
        progress: Told of each step.

    Returns:
        The rates of the unprofiled run, with the overhead of the timing pass.

    Raises:
        UnsupportedError: Out of memory.
        CaptureError: A trace cannot be written, or is only a part.
    """
    # A folder without a manifest is an unfinished capture; the manifest is written last.
    (folder / RUN).unlink(missing_ok=True)
    try:
        return _passes(config, workload, device, folder, progress)
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise _out_of_memory(workload) from error
    except RuntimeError as error:
        if "alloc" in str(error) and "memory" in str(error):
            raise _out_of_memory(workload) from error
        raise


def _out_of_memory(workload: Workload) -> UnsupportedError:
    reason = f"out of memory while running {workload.model}: another process may have taken some since it was checked"
    return UnsupportedError(reason, hint="lower --layers, --batch, --prompt-len or --kv-len")


def _passes(
    config: ModelConfig, workload: Workload, device: torch.device, folder: Path, progress: Progress
) -> tuple[Rate, ...]:
    progress.begin("weights and caches", 1)
    runner = Runner(config, workload, device)
    progress.advance()
    progress.begin("warm-up", runner.warm_up_steps)
    runner.warm_up(progress)
    steps = runner.steps_of_a_pass
    progress.begin("run without a profiler", steps)
    plain = runner.run(progress)
    profiling.start_once(device)
    timed: list[Timed] = []
    for made_by, name in (("timing", TIMING_TRACE), ("shapes", SHAPES_TRACE)):
        progress.begin(f"{made_by} pass", steps)
        result = profiling.record(
            lambda: runner.run(progress),
            device,
            shapes=made_by == "shapes",
            target=folder / name,
            run=_metadata(workload, made_by),
            steps=steps,
        )
        timed = timed or result
    return _rates(workload, plain, timed)


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
    rates: tuple[Rate, ...],
    notes: list[str],
    layers: int | None,
) -> RunManifest:
    """The manifest of a finished capture."""
    steps = workload.repeats * _steps(workload)
    return RunManifest(
        workload=workload,
        model=config.to_json(),
        parameters=parameters(config).total,
        weight_bytes=weight_bytes(config, workload.dtype),
        kv_bytes_per_token=kv_bytes_per_token(config, workload.kv_dtype),
        device=machine.description(),
        versions={
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "tracekit": _own_version(),
        },
        command=command_line(workload, layers),
        files=(
            FileRecord(TIMING_TRACE, "timing", steps),
            FileRecord(SHAPES_TRACE, "shapes", steps),
            FileRecord(CEILINGS, "ceilings"),
        ),
        rates=rates,
        notes=tuple(notes),
    )


def _steps(workload: Workload) -> int:
    counts = {"prefill": 1, "decode": workload.decode_steps, "mixed": MIXED_STEPS}
    return sum(counts[phase] for phase in workload.phases)


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
        "--tp": workload.tensor_parallel,
    }
    words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    return shlex.join(["tracekit", "collect", *words])


def _own_version() -> str:
    try:
        return version("tracekit-llm")
    except PackageNotFoundError:
        return "unknown (not installed)"
