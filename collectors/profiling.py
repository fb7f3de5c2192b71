"""One pass under torch.profiler, written as a trace that says nothing about whose machine it is."""

import gzip
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from tracekit.errors import CaptureError

# Top-level fields that name the host, its user, or a path of it.
_PRIVATE = re.compile(r'("(?:host_name|username|traceName)"\s*:\s*)"(?:[^"\\]|\\.)*"')
_STEP = '"name": "execute_'
_ANNOTATION = '"cat": "user_annotation"'
_KERNEL = '"cat": "kernel"'


@dataclass(frozen=True, slots=True)
class Recorded:
    """One pass.

    Attributes:
        result: What the work returned.
        lacking: What the profiler did not keep, in words; None where it kept all.
    """

    result: Any
    lacking: str | None


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a trace holds: step annotations and kernels of a GPU."""

    steps: int
    kernels: int


def start_once(device: torch.device) -> None:
    """Start and stop the profiler: its first start takes long, and belongs to no pass."""
    with profile(activities=_activities(device)):
        torch.ones(1, device=device).add_(1.0)


def record(
    work: Callable[[], Any],
    device: torch.device,
    *,
    shapes: bool,
    target: Path,
    run: dict[str, Any],
    steps: int,
) -> Recorded:
    """Run work under the profiler and write its trace; once more where the profiler kept only a part.

    Args:
        work: What to run.
        device: The device that it uses.
        shapes: Record the dimensions of every op.
        target: File to write, gzip-compressed.
        run: Metadata for the trace: plain JSON values.
        steps: Step annotations that the trace must hold.

    Raises:
        CaptureError: The trace holds no step at all, twice, or cannot be written.
    """
    attempt = partial(_record, work, device, shapes=shapes, target=target, run=run, steps=steps)
    recorded, kept = attempt()
    if recorded.lacking is not None:
        recorded, kept = attempt()
    if not kept.steps:
        target.unlink(missing_ok=True)
        reason = f"the profiler kept none of {steps} steps, twice"
        hint = "collect fewer --decode-steps or --repeats, and stop other profilers"
        raise CaptureError(str(target), reason, hint=hint, code="partial")
    return recorded


def _record(
    work: Callable[[], Any],
    device: torch.device,
    *,
    shapes: bool,
    target: Path,
    run: dict[str, Any],
    steps: int,
) -> tuple[Recorded, _Kept]:
    with profile(activities=_activities(device), record_shapes=shapes, acc_events=False) as profiler:
        # Metadata is kept only while the profiler runs.
        profiler.add_metadata_json("tracekit", json.dumps(run, ensure_ascii=True))
        result = work()
        stopped = _stopped_early(device)
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        exported = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(exported))
        kept = _clean(exported, target)
    return Recorded(result, lacking(kept.steps, steps, kept.kernels, device.type, stopped=stopped)), kept


def _stopped_early(device: torch.device) -> bool:
    """Whether the device's activity buffers overflowed: what PyTorch's own schedule calls DEVICE_STOPPED.

    Only a profiler with a schedule reacts to it by itself; older versions cannot tell.
    """
    asked = getattr(torch.autograd, "_is_kineto_stopped", None)
    return device.type == "cuda" and asked is not None and bool(asked())


def lacking(kept: int, steps: int, kernels: int, device: str, *, stopped: bool) -> str | None:
    """What a pass lacks, in words; None where nothing does.

    Args:
        kept: Step annotations in the trace.
        steps: Steps that were run.
        kernels: Kernels of a GPU in the trace.
        device: cpu or cuda.
        stopped: Whether the profiler stopped to collect from the device.
    """
    found = []
    if kept != steps:
        found.append(f"the profiler kept {kept} of {steps} steps")
    if device == "cuda" and not kernels:
        found.append("no kernel of the GPU was recorded")
    elif stopped:
        found.append("the GPU's activity buffers overflowed: kernels of the last steps are missing")
    return "; ".join(found) or None


def _activities(device: torch.device) -> list[ProfilerActivity]:
    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    return both if device.type == "cuda" else both[:1]


def _clean(exported: Path, target: Path) -> _Kept:
    """Copy a trace line by line without private fields; what it holds."""
    draft = target.with_name(f".{target.name}.part")
    steps = kernels = 0
    try:
        # Without a time stamp and a name in its header, equal traces are equal files.
        with (
            exported.open(encoding="utf-8") as lines,
            draft.open("wb") as raw,
            gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as out,
        ):
            before = False
            for line in lines:
                # The exporter writes an event's category and name on two lines.
                steps += before and _STEP in line
                before = _ANNOTATION in line
                kernels += _KERNEL in line
                out.write(_PRIVATE.sub(r'\1""', line).encode())
        shutil.move(draft, target)
    except OSError as error:
        reason = f"cannot be written: {error.strerror}"
        raise CaptureError(str(target), reason, hint="choose another folder with -o") from error
    return _Kept(steps, kernels)
