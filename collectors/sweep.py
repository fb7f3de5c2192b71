"""The captures that a request asks for: one, or the product of its lists; and the index of a sweep."""

import re
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from tracekit.errors import CaptureError, TracekitError
from tracekit.formats import (
    ENGINE,
    INDEX,
    RUN,
    SCHEMA_VERSION,
    CollectRequest,
    RunManifest,
    Workload,
    write_json,
)


@dataclass(frozen=True, slots=True)
class Point:
    """One capture of a request: the values of its lists."""

    model: str | None
    dtype: str | None
    batch: int
    prompt_len: int
    kv_len: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one capture.

    Attributes:
        folder: Its folder.
        manifest: What it holds; None where it failed.
        error: Why it failed; None where it did not.
        resumed: It was there already, from an earlier run of the same sweep.
    """

    folder: Path
    manifest: RunManifest | None = None
    error: TracekitError | None = None
    resumed: bool = False


def points(request: CollectRequest) -> list[Point]:
    """Every combination of the request's lists, in the order given."""
    axes = (request.models, request.dtypes, request.batches, request.prompt_lens, request.kv_lens)
    return [Point(*values) for values in product(*axes)]


def folder_name(workload: Workload) -> str:
    """A folder name that says what the capture is: letters, digits, dots, dashes and underscores alone."""
    text = f"{workload.model}_{workload.dtype}_b{workload.batch}_pp{workload.prompt_len}_kv{workload.kv_len}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)


def is_done(folder: Path, workload: Workload) -> RunManifest | None:
    """The manifest of a finished capture of this very workload; None where there is none."""
    try:
        found = RunManifest.read(folder)
    except CaptureError:
        return None
    complete = all((folder / record.name).is_file() for record in found.files)
    return found if complete and found.workload == workload else None


def prepare(folder: Path) -> None:
    """Make a folder ready: there, writable, and with nothing in it that is not a capture's.

    Raises:
        CaptureError: It is a file, is not writable, or holds other things.
    """
    hint = "choose another folder with -o"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        inside = [entry.name for entry in folder.iterdir()]
        probe = folder / ".writable.part"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise CaptureError(str(folder), f"cannot be written: {error.strerror}", hint=hint) from error
    if inside and not {RUN, INDEX, ENGINE} & set(inside) and not all(_is_ours(name) for name in inside):
        raise CaptureError(str(folder), "is not empty and holds no capture", hint=hint)


def _is_ours(name: str) -> bool:
    """Whether an interrupted collection may have left this file."""
    return name.endswith((".part", ".trace.json.gz", "ceilings.json"))


def write_index(folder: Path, outcomes: list[Outcome]) -> None:
    """Write `index.json`: each capture of the sweep with its workload and rates, or why it failed."""
    entries = [_entry(folder, outcome) for outcome in outcomes]
    write_json(folder / INDEX, {"schema_version": SCHEMA_VERSION, "captures": entries})


def _entry(folder: Path, outcome: Outcome) -> dict[str, Any]:
    entry: dict[str, Any] = {"folder": outcome.folder.relative_to(folder).as_posix()}
    if outcome.manifest is not None:
        entry |= {
            "workload": asdict(outcome.manifest.workload),
            "rates": [asdict(rate) for rate in outcome.manifest.rates],
        }
    if outcome.error is not None:
        entry["error"] = outcome.error.message
    return entry
