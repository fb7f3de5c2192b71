"""Hardware counters of a capture's workload, by separate runs under Nsight Compute."""

import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from collectors.building import Origin
from collectors.counted import MODULE, PROBE, specification
from collectors.running import Ended, run_profiler
from tracekit.errors import CaptureError, UnsupportedError
from tracekit.formats import COUNTERS_CSV, FileRecord, Progress, Workload
from tracekit.models import ModelConfig
from tracekit.ncu import (
    Chip,
    MetricSet,
    Recording,
    Run,
    chip,
    explain,
    import_command,
    metric_set,
    record_command,
    runs,
    shell,
)

VARIABLE = "TRACEKIT_NCU"
LAUNCHES = 2000
PROBE_S = 180.0
RUN_S = 3600.0
_IMPORT_S = 600.0
_VERSION_S = 60.0
_PLACES = (
    "/usr/local/cuda/bin",
    "/usr/local/cuda-*/bin",
    "/opt/nvidia/nsight-compute/*",
    "/usr/lib/nsight-compute",
)
_PRIVATE = ("Host Name", "Process Name")
_ANY_CHIP = "gh100"
NSYS = (
    "nsys",
    "profile",
    "-o",
    "timing",
    "--trace",
    "cuda,nvtx",
    "--cuda-graph-trace",
    "node",
    "--sample",
    "none",
)


@dataclass(frozen=True, slots=True)
class Collected:
    """What a counter run left: files of the folder, and what their reader must know."""

    files: tuple[FileRecord, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counting:
    """A profiler that works here, and what is asked of it.

    Attributes:
        ncu: The executable.
        version: As it gives it.
        chosen: The set of metrics.
        chip: The GPU's chip.
        launches: Most launches that one run profiles.
        timeout_s: Seconds that one run may take.
    """

    ncu: str
    version: str
    chosen: MetricSet
    chip: Chip
    launches: int = LAUNCHES
    timeout_s: float = RUN_S

    def collect(
        self,
        config: ModelConfig,
        workload: Workload,
        folder: Path,
        progress: Progress,
        origin: Origin | None = None,
    ) -> Collected:
        """Profile a workload, a run for each of the set, and write their counters into a folder.

        Raises:
            CaptureError: A run gave no counters: why, and what to do.
        """
        files, notes = [], []
        program = workload_command(config, workload, origin)
        for run in plan(self.chosen, self.chip, workload):
            if not run.metrics:
                notes.append(f"counters: {self.chip.key} has no counter of {', '.join(run.missing)}")
                continue
            target = folder / _file_name(run)
            count = self._run(run, program, target, progress)
            files.append(FileRecord(target.name, "counters"))
            notes.append(
                f"counters ({target.name}): set {self.chosen.key} on {self.chip.key}, Nsight Compute {self.version}, "
                f"{count} launches, about {run.passes} passes each, cache control {run.cache_control}, clock control none, kernel replay, eager"
            )
        return Collected(tuple(files), tuple(notes))

    def _run(self, run: Run, program: list[str], target: Path, progress: Progress) -> int:
        progress.begin(f"counters: {run.name}", self.launches)
        with tempfile.TemporaryDirectory(prefix="counters-") as place:
            report = Path(place) / "run"
            recording = self._recording(run.metrics, report, run.cache_control, self.launches)
            words = record_command(recording, program)
            ended = run_profiler(words, Path(recording.log), self.timeout_s, progress.advance)
            written = report.with_suffix(".ncu-rep")
            if ended.exit_code is None:
                reason = f"ncu did not end within {self.timeout_s:.0f} s and was stopped"
                hint = "a kernel that waits for the host or for a peer hangs under replay; or profile less: --counters lite"
                raise CaptureError(target.name, reason, hint=hint, code="ncu_timeout")
            if not written.is_file():
                raise _failed(target, ended)
            return self._print(written, target, ended)

    def _recording(self, metrics: tuple[str, ...], report: Path, caches: str, launches: int) -> Recording:
        return Recording(
            metrics,
            output=str(report),
            log=str(report.with_suffix(".log")),
            cache_control=caches,
            launch_count=launches,
            ncu=self.ncu,
        )

    def _print(self, report: Path, target: Path, ended: Ended) -> int:
        """Print a report into a CSV without the names of the host and its programs; the launches in it."""
        try:
            done = _output(import_command(str(report), self.ncu), _IMPORT_S)
        except (OSError, subprocess.SubprocessError) as error:
            reason = f"ncu could not print its report: {error.__class__.__name__}"
            raise CaptureError(target.name, reason, hint="profile less: --counters lite") from error
        rows = list(_without_names(done.stdout))
        # A header and a row of units are no counters.
        launches = len(rows) - 2
        if done.returncode or launches < 1:
            lines = (*ended.lines, *done.stdout.splitlines()[:20], *done.stderr.splitlines())
            raise _failed(target, Ended(done.returncode, lines))
        draft = target.with_name(f".{target.name}.part")
        with draft.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
        draft.replace(target)
        return launches

    def probe(self) -> None:
        """Profile one small kernel: a missing permission shows only when the first kernel is profiled.

        Raises:
            CaptureError: It gave no counters: why, and what to do.
        """
        with tempfile.TemporaryDirectory(prefix="probe-") as place:
            report = Path(place) / "probe"
            recording = self._recording(("gpu__time_duration.sum",), report, "none", 1)
            words = record_command(recording, [sys.executable, "-m", MODULE, PROBE])
            ended = run_profiler(words, Path(recording.log), PROBE_S)
            if ended.exit_code is None:
                hint = "run it by hand to see where it stands (--print-commands)"
                reason = f"ncu did not profile one small kernel within {PROBE_S:.0f} s"
                raise CaptureError("probe", reason, hint=hint, code="ncu_timeout")
            if not report.with_suffix(".ncu-rep").is_file():
                raise _failed(Path("probe"), ended)


def prepare(chosen: str, device: torch.device) -> Counting:
    """Find everything that counters need, before any work.

    Raises:
        UnsupportedError: No such set, no NVIDIA GPU, no ncu, or a chip that is not known: what is missing.
        CaptureError: ncu is there and cannot profile.
    """
    wanted = metric_set(chosen)
    found = find_ncu()
    missing = [] if device.type == "cuda" and torch.version.hip is None else ["an NVIDIA GPU"]
    missing += [] if found else [f"Nsight Compute (ncu; looked in PATH, {', '.join(_PLACES)})"]
    if missing or found is None:
        hint = f"run on a machine that has both; set {VARIABLE} to an ncu elsewhere; --print-commands prints what to run by hand"
        raise UnsupportedError(f"--counters needs {' and '.join(missing)}", hint=hint)
    major, minor = torch.cuda.get_device_capability(device)
    counting = Counting(found, ncu_version(found), wanted, chip(f"{major}.{minor}"))
    counting.probe()
    return counting


def plan(chosen: MetricSet, on: Chip, workload: Workload) -> tuple[Run, ...]:
    """The runs of a set; matrix operations are counted of the type that the workload multiplies in."""
    return runs(chosen, on, [workload.dtype] if workload.dtype in on.tensor_dtypes else ())


def workload_command(config: ModelConfig, workload: Workload, origin: Origin | None = None) -> list[str]:
    """The arguments that run a workload for a profiler."""
    return [sys.executable, "-m", MODULE, specification(config, workload, origin)]


def commands(
    chosen: str,
    config: ModelConfig,
    workload: Workload,
    capability: str | None,
    origin: Origin | None = None,
) -> list[str]:
    """The lines that profile a workload by hand, with ncu and with nsys.

    Args:
        chosen: The set of metrics.
        config: The model as it runs.
        workload: What to run.
        capability: Compute capability of the GPU; None where there is none here.
        origin: Where a model of Hugging Face's classes comes from.
    """
    on = chip(capability or _ANY_CHIP)
    lines = [
        f"# chip {on.key}" + ("" if capability else ": no GPU here; `tracekit metrics --chip` names others")
    ]
    program = ["python", *workload_command(config, workload, origin)[1:]]
    for run in plan(metric_set(chosen), on, workload):
        if run.metrics:
            name = _file_name(run).removesuffix(".csv")
            recording = Recording(run.metrics, name, f"{name}.log", run.cache_control, launch_count=LAUNCHES)
            lines.append(shell(record_command(recording, program)))
            lines.append(f"{shell(import_command(f'{name}.ncu-rep'))} > {name}.csv")
    lines += [shell([*NSYS, *program]), "nsys export --type sqlite timing.nsys-rep"]
    return lines


def find_ncu() -> str | None:
    """The ncu to use: the one that the environment names, the one in PATH, or one where installers put it."""
    named = os.environ.get(VARIABLE)
    if named:
        return shutil.which(named)
    places = [str(path) for pattern in _PLACES for path in sorted(Path("/").glob(pattern[1:]), reverse=True)]
    return shutil.which("ncu") or shutil.which("ncu", path=os.pathsep.join(places))


def ncu_version(ncu: str) -> str:
    """The version that ncu gives of itself.

    Raises:
        UnsupportedError: It cannot be run.
    """
    try:
        done = _output([ncu, "--version"], _VERSION_S)
    except (OSError, subprocess.SubprocessError) as error:
        reason = f"Nsight Compute cannot be run: {error.__class__.__name__}"
        raise UnsupportedError(reason, hint=f"install it again, or set {VARIABLE} to another") from error
    found = re.search(r"Version (\S+)", done.stdout)
    return found[1] if found else "of unknown version"


def _output(words: list[str], timeout_s: float) -> "subprocess.CompletedProcess[str]":
    # The profiler that the user asked for, without a shell.
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False)  # noqa: S603


def _file_name(run: Run) -> str:
    return COUNTERS_CSV.replace(".", f"-{run.name}.", 1)


def _failed(target: Path, ended: Ended) -> CaptureError:
    failure = explain(ended.lines, ended.exit_code)
    said = f" ({failure.quoted[:200]})" if failure.quoted else ""
    return CaptureError(
        target.name, f"no counters: {failure.reason}{said}", hint=failure.hint, code=f"ncu_{failure.code}"
    )


def _without_names(text: str) -> Iterator[list[str]]:
    """The rows of a raw page, the names of the host and of its programs blanked."""
    private: list[int] = []
    width = 0
    for row in csv.reader(line for line in text.splitlines() if line.startswith('"')):
        if row[0] == "ID":
            width, private = len(row), [at for at, name in enumerate(row) if name in _PRIVATE]
            yield row
        elif len(row) == width:
            yield ["" if at in private else cell for at, cell in enumerate(row)]
