"""Runs ncu as a child: with a time limit, counting kernels by its log, and ending what it started."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_POLL_S = 0.2
_GRACE_S = 10.0
_LAST = 40
_PROFILING = '==PROF== Profiling "'


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended.

    Attributes:
        exit_code: Its exit code, negative where a signal ended it; None where the time was up.
        lines: ncu's log, then the last lines of what the program printed.
    """

    exit_code: int | None
    lines: tuple[str, ...]


def run_profiler(
    words: Sequence[str], log: Path, timeout_s: float, on_kernel: Callable[[], None] | None = None
) -> Ended:
    """Run ncu to its end, or to the end of its time.

    Args:
        words: Its arguments.
        log: The file that they say its messages go to.
        timeout_s: Seconds after which it and all that it started are ended.
        on_kernel: Called for each kernel that was profiled.

    Raises:
        OSError: It cannot be started.
    """
    with tempfile.TemporaryFile("w+b") as printed:
        # A session of its own: what the workload starts is ended with it.
        process = subprocess.Popen(  # noqa: S603 - the profiler that the user asked for, without a shell
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        exit_code = _wait(process, log, timeout_s, on_kernel or _nothing)
        printed.seek(0)
        said = printed.read().decode(errors="replace").splitlines()
    return Ended(exit_code, (*_lines(log), *said[-_LAST:]))


def _wait(
    process: "subprocess.Popen[bytes]", log: Path, timeout_s: float, on_kernel: Callable[[], None]
) -> int | None:
    limit = time.monotonic() + timeout_s
    seen = 0
    try:
        while True:
            ended = process.poll()
            profiled = sum(line.startswith(_PROFILING) for line in _lines(log))
            for _ in range(seen, profiled):
                on_kernel()
            seen = max(seen, profiled)
            if ended is not None:
                return ended
            if time.monotonic() > limit:
                return None
            time.sleep(_POLL_S)
    finally:
        if process.poll() is None:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _lines(log: Path) -> list[str]:
    try:
        return log.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _nothing() -> None:
    pass
