"""What a path given on the command line stands for: one file, a folder of captures, or a folder that `collect` wrote."""

from dataclasses import dataclass
from pathlib import Path

from tracekit.errors import CaptureError, FormatError
from tracekit.formats import (
    CEILINGS,
    COUNTERS_CSV,
    COUNTERS_REPORT,
    DONOR_TRACE,
    ENGINE,
    INDEX,
    RUN,
    SHAPES_TRACE,
    TIMING_TRACE,
    read_json,
)
from tracekit.readers import nsys
from tracekit.readers.archives import SUFFIXES, is_tar, is_zip, members
from tracekit.readers.source import STDIN, open_stream
from tracekit.tables import Role

# Databases that recorders write or export; they are read where they are, so not from archives.
_DATABASES = (".sqlite", "_results.db")
# Files that `collect` writes beside its traces.
_LARGEST_INDEX = 16 << 20
_LONGEST_ERROR = 300
_OWN = frozenset({RUN, CEILINGS, ENGINE, INDEX, "summary.json"})


@dataclass(frozen=True, slots=True)
class Source:
    """One capture file to read.

    Attributes:
        path: Where it is.
        role: What it contributes, where the folder says.
        run: The folder that `collect` wrote, where it is part of one.
        member: Its name inside the archive at `path`, where it is in one.
    """

    path: str
    role: Role | None = None
    run: Path | None = None
    member: str | None = None

    @property
    def label(self) -> str:
        """How messages name it."""
        return self.path if self.member is None else f"{self.path}:{self.member}"


def discover(path: str) -> list[Source]:
    """The captures behind a path, in order of name.

    Raises:
        CaptureError: A folder holds no capture, or one that the index of a sweep lists is not there.
        FormatError: The index of a sweep is not one.
    """
    folder = Path(path)
    if path == STDIN:
        return [Source(path)]
    if not folder.is_dir():
        return _file(path)
    if nsys.is_folder(path):
        return [Source(path)]
    if (folder / RUN).is_file():
        return _run(folder)
    if (folder / INDEX).is_file():
        return [source for run in sweep_runs(path) for source in _run(Path(run))]
    found = [
        Source(str(file))
        for file in sorted(folder.iterdir())
        if file.name.endswith((*SUFFIXES, *_DATABASES)) and file.name not in _OWN and file.is_file()
    ]
    if not found:
        hint = (
            "give one of its runs, or a trace file"
            if any(folder.glob(f"*/{RUN}"))
            else "captures end in .json, .json.gz, .sqlite or _results.db; give the trace file itself"
        )
        raise CaptureError(path, "is a folder with no capture in it", hint=hint, code="missing")
    return found


def sweep_runs(path: str) -> list[str]:
    """The run folders of a sweep that `collect` wrote, in the order of its index; none where the path is no sweep.

    Only folders inside the sweep's own are named: an index that points elsewhere is refused. Captures that failed when
    they were collected are in `sweep_failures`.

    Raises:
        CaptureError: The index cannot be read, or lists no capture.
        FormatError: It is not an index.
    """
    listed = _listed(path)
    runs = [run for run, error in listed if error is None]
    if listed and not runs:
        raise CaptureError(
            path, "is a sweep of which no capture was collected", hint="collect again", code="missing"
        )
    return runs


def sweep_failures(path: str) -> list[CaptureError]:
    """What kept captures of a sweep from being collected, as its index says; none where the path is no sweep.

    Raises:
        CaptureError: The index cannot be read.
        FormatError: It is not an index.
    """
    return [
        CaptureError(run, f"was not collected: {error}", hint="collect again", code="not_collected")
        for run, error in _listed(path)
        if error is not None
    ]


def _listed(path: str) -> list[tuple[str, str | None]]:
    """The run folders that an index lists, each with its error where it has one."""
    folder = Path(path)
    index = folder / INDEX
    if path == STDIN or (folder / RUN).is_file() or not index.is_file():
        return []
    if index.stat().st_size > _LARGEST_INDEX:
        raise FormatError(str(index), "is too large for an index", hint="give one of its runs")
    listed = read_json(index).get("captures")
    if not isinstance(listed, list) or not listed:
        raise FormatError(str(index), "lists no captures", hint="collect again, or give one of its runs")
    return [_entry(folder, entry) for entry in listed]


def _entry(folder: Path, entry: object) -> tuple[str, str | None]:
    known = entry if isinstance(entry, dict) else {}
    name = known.get("folder")
    run = folder / name if isinstance(name, str) else None
    # Resolved: neither an absolute path, nor dots, nor a link may lead out of the sweep.
    if run is None or "\0" in str(name) or folder.resolve() not in run.resolve().parents:
        raise FormatError(
            str(folder / INDEX),
            f"names {str(name)[:80]!r}, which is no folder of it",
            hint="give one of its runs",
        )
    error = known.get("error")
    return str(run), None if error is None else " ".join(str(error).split())[:_LONGEST_ERROR]


def _file(path: str) -> list[Source]:
    stream = open_stream(path)
    head = stream.head()
    stream.close()
    if is_zip(head) or is_tar(head):
        return [Source(path, member=name) for name in members(path, zipped=is_zip(head))]
    return [Source(path)]


def _run(folder: Path) -> list[Source]:
    parts = ((TIMING_TRACE, Role.TIMING), (SHAPES_TRACE, Role.SHAPES), (DONOR_TRACE, Role.DONOR))
    found = [Source(str(folder / name), role, folder) for name, role in parts if (folder / name).is_file()]
    if not found:
        raise CaptureError(
            str(folder),
            "its run.json stands beside no trace",
            hint="the collection did not finish; collect again",
            code="missing",
        )
    return [*found, *_counters(folder)]


def _counters(folder: Path) -> list[Source]:
    """What `collect --counters` wrote: a CSV a run, or else the profiler's own reports."""
    for name in (COUNTERS_CSV, COUNTERS_REPORT):
        stem, _, suffix = name.partition(".")
        files = [file for file in sorted(folder.glob(f"{stem}*.{suffix}")) if file.is_file()]
        if files:
            return [Source(str(file), Role.COUNTERS, folder) for file in files]
    return []
