"""The command lines of Nsight Compute, as lists of arguments."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

RANGE = "tracekit"
"""The push/pop range around the steps that are to be profiled."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One profiled run.

    Attributes:
        metrics: What to collect.
        output: Report to write, without its suffix.
        log: File for the profiler's own messages.
        cache_control: `none` leaves caches as they are, `all` flushes them before each pass.
        clock_control: `none` leaves clocks alone, `base` locks them to base.
        nvtx_range: Push/pop range to profile in; empty for everything.
        launch_count: Most launches to profile; None for all.
        ncu: The executable.
    """

    metrics: Sequence[str]
    output: str = "counters"
    log: str = "counters.log"
    cache_control: str = "all"
    clock_control: str = "none"
    nvtx_range: str = RANGE
    launch_count: int | None = 2000
    ncu: str = "ncu"


def record_command(recording: Recording, workload: Sequence[str]) -> list[str]:
    """The arguments that profile a workload under `ncu`.

    Each launch is profiled on its own, nodes of CUDA graphs included. The slash after the range says that it is a
    push/pop range: without it ncu looks for a start/end range and profiles nothing.
    """
    words = [recording.ncu, "-f", "-o", recording.output, "--log-file", recording.log]
    words += ["--target-processes", "all", "--replay-mode", "kernel", "--graph-profiling", "node"]
    words += [
        "--clock-control",
        recording.clock_control,
        "--cache-control",
        recording.cache_control,
        "--nvtx",
    ]
    if recording.nvtx_range:
        words += ["--nvtx-include", f"{recording.nvtx_range}/"]
    if recording.launch_count is not None:
        words += ["--launch-count", str(recording.launch_count)]
    return [*words, "--metrics", ",".join(recording.metrics), *workload]


def import_command(report: str, ncu: str = "ncu") -> list[str]:
    """The arguments that print a report as CSV in base units; needs no GPU."""
    return [ncu, "--import", report, "--csv", "--page", "raw", "--print-units", "base"]


def shell(words: Sequence[str]) -> str:
    """The arguments as one line for a shell."""
    return shlex.join(words)
