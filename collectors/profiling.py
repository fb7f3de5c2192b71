"""One pass under torch.profiler, written as a trace that says nothing about whose machine it is."""

import gzip
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from tracekit.errors import CaptureError

# Top-level fields that name the host, its user, or a path of it.
_PRIVATE = re.compile(r'("(?:host_name|username|traceName)"\s*:\s*)"(?:[^"\\]|\\.)*"')
_STEP = '"name": "execute_'
_ANNOTATION = '"cat": "user_annotation"'


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
) -> Any:
    """Run work under the profiler and write its trace.

    Args:
        work: What to run.
        device: The device that it uses.
        shapes: Record the dimensions of every op.
        target: File to write, gzip-compressed.
        run: Metadata for the trace: plain JSON values.
        steps: Step annotations that the trace must hold.

    Returns:
        What `work` returned.

    Raises:
        CaptureError: The trace holds fewer steps than were run, or cannot be written.
    """
    with profile(activities=_activities(device), record_shapes=shapes, acc_events=False) as profiler:
        # Metadata is kept only while the profiler runs.
        profiler.add_metadata_json("tracekit", json.dumps(run, ensure_ascii=True))
        result = work()
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        exported = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(exported))
        found = _clean(exported, target)
    if found != steps:
        target.unlink(missing_ok=True)
        reason = f"the profiler kept {found} of {steps} steps: its buffers overflowed"
        raise CaptureError(
            str(target), reason, hint="collect fewer --decode-steps or --repeats", code="partial"
        )
    return result


def _activities(device: torch.device) -> list[ProfilerActivity]:
    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    return both if device.type == "cuda" else both[:1]


def _clean(exported: Path, target: Path) -> int:
    """Copy a trace line by line without private fields; the number of step annotations in it."""
    draft = target.with_name(f".{target.name}.part")
    steps = 0
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
                out.write(_PRIVATE.sub(r'\1""', line).encode())
        shutil.move(draft, target)
    except OSError as error:
        reason = f"cannot be written: {error.strerror}"
        raise CaptureError(str(target), reason, hint="choose another folder with -o") from error
    return steps
