"""From paths to captures with roles; what cannot be read is an error beside the rest, not the end of it."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from tracekit.errors import TracekitError, UsageError
from tracekit.formats import RUN, RunManifest
from tracekit.link import borrow_signatures
from tracekit.phase import place_of_file, wanted_frames
from tracekit.pipeline.options import Options
from tracekit.readers import cache, read_counters, read_source
from tracekit.readers.discover import Source, discover, sweep_failures
from tracekit.readers.kineto.helper import let_go
from tracekit.registry import rows
from tracekit.tables import Capture, QualityNote, Role


@dataclass(frozen=True, slots=True)
class Failure:
    """A capture that could not be read."""

    path: str
    code: str
    message: str
    hint: str

    @classmethod
    def of(cls, path: str, error: TracekitError) -> "Failure":
        """The failure that an error is."""
        return cls(path, error.code, error.message, error.hint)


@dataclass(frozen=True, slots=True)
class Loaded:
    """One capture, what it contributes, and how that is known."""

    capture: Capture
    role: Role
    evidence: str
    run: Path | None = None


def load(paths: Sequence[str | Path], options: Options) -> tuple[list[Loaded], list[Failure]]:
    """Read all captures behind the paths, donors and counters included.

    Raises:
        UsageError: The captures cannot be parts of one run.
    """
    loaded: list[Loaded] = []
    failures: list[Failure] = []
    for path, given in with_given_roles(paths, options):
        try:
            sources = discover(path)
            failures += [Failure.of(error.path, error) for error in sweep_failures(path)]
        except TracekitError as error:
            failures.append(Failure.of(path, error))
            continue
        for source in sources:
            try:
                captures = _read(source, options, given or source.role)
            except TracekitError as error:
                failures.append(Failure.of(source.label, error))
                continue
            for capture in captures:
                part = _with_role(source, capture, given, merged=len(captures) > 1)
                loaded.append(_placed(part, source, options))
    return loaded, failures


def with_given_roles(paths: Sequence[str | Path], options: Options) -> Iterator[tuple[str, Role | None]]:
    """Every path, with the role that an option gives it."""
    yield from ((os.fspath(path), None) for path in paths)
    yield from ((path, Role.DONOR) for path in options.donors)
    yield from ((path, Role.COUNTERS) for path in options.counters)


def _read(source: Source, options: Options, role: Role | None) -> list[Capture]:
    """The captures of a source, from the cache where they are kept there."""
    if role is Role.COUNTERS and source.member is None:
        return read_counters(source.path, options.progress, options.data)
    wanted = wanted_frames(options.data)
    if options.cache is None or source.member is not None or not Path(source.path).is_file():
        return read_source(source, keep_frame=wanted, progress=options.progress)
    key = cache.key_of(source.path, repr([row.values for row in rows("engines", options.data)]))
    kept = cache.load(options.cache, key, source.path)
    if kept is not None:
        let_go(Path(source.path))
        return kept
    captures = read_source(source, keep_frame=wanted, progress=options.progress)
    cache.store(options.cache, key, captures)
    return captures


def _placed(part: Loaded, source: Source, options: Options) -> Loaded:
    """The part with the places in the job that its engine put into the file's name; a rank in the file wins."""
    place = place_of_file(Path(source.member or source.path).name, options.data)
    if not place:
        return part
    info = part.capture.info
    rank = place.get("rank") if info.rank is None else info.rank
    told = " ".join(f"{word}{number}" for word, number in place.items())
    capture = replace(part.capture, info=replace(info, rank=rank))
    return replace(part, capture=capture, evidence=f"{part.evidence}; {told} by the file's name")


def _with_role(source: Source, capture: Capture, given: Role | None, *, merged: bool) -> Loaded:
    if given is not None:
        return Loaded(capture, given, f"given with --{given}{_collected(capture)}")
    if source.role is not None:
        return Loaded(capture, source.role, _in_manifest(source), source.run)
    if capture.counters is not None and not len(capture.ops) and not len(capture.device_events):
        return Loaded(capture, Role.COUNTERS, f"holds hardware counters alone{_collected(capture)}")
    if merged:
        return Loaded(capture, Role.RANK, "rank label on the process ids")
    return Loaded(capture, Role.TIMING, "the only capture")


def _collected(capture: Capture) -> str:
    """How the counters of a file were collected, as far as it or a manifest beside it says.

    A reader must know whether caches were flushed and clocks locked.
    """
    path = Path(capture.info.path)
    if capture.counters is None or capture.info.format != "ncu":
        return ""
    # Another tool's run.json may stand beside a file that was given by hand.
    with suppress(TracekitError):
        if (path.parent / RUN).is_file() and (note := _noted(path.parent, path.name)):
            return f"; {note}"
    passes = capture.counters.options.get("passes")
    told = f"; at most {passes} passes a launch" if passes else ""
    return f"{told}; the file does not say its clock and cache control"


def _in_manifest(source: Source) -> str:
    """How the folder's manifest names a file; of counters, how they were collected."""
    named = "named by the folder's manifest"
    if source.role is not Role.COUNTERS or source.run is None:
        return named
    return _noted(source.run, Path(source.path).name) or named


def _noted(run: Path, name: str) -> str | None:
    """What the manifest of a folder notes of one of its files."""
    return next((note for note in RunManifest.read(run).notes if f"({name})" in note), None)


def collector_notes(parts: Iterable[Loaded]) -> Iterator[QualityNote]:
    """What the collector noted of the runs that the parts belong to, but for how counters were made: each once."""
    known = list(parts)
    files = [f"({Path(part.capture.info.path).name})" for part in known if part.role is Role.COUNTERS]
    for run in dict.fromkeys(part.run for part in known if part.run is not None):
        for note in RunManifest.read(run).notes:
            if not any(file in note for file in files):
                yield QualityNote("collector_note", 1, note)


def assign_roles(loaded: Iterable[Loaded]) -> list[Loaded]:
    """Roles of captures given side by side: ranks of one job, or slices of one recording.

    Raises:
        UsageError: Two captures are neither; they are runs to compare.
    """
    parts = list(loaded)
    timed = [part for part in parts if part.role is Role.TIMING]
    if len(timed) <= 1:
        return parts
    ranks = [part.capture.info.rank for part in timed]
    if None not in ranks and len(set(ranks)) == len(ranks):
        role, evidence = Role.RANK, "distinct ranks in distributedInfo"
    elif _slices(timed):
        role, evidence = Role.SLICE, "same devices, and windows that do not overlap"
    else:
        raise UsageError(
            f"{len(timed)} captures that are neither ranks of one job nor slices of one recording",
            hint="report them one by one; to see what changed between them, use `tracekit compare`",
        )
    return [
        replace(part, role=role, evidence=evidence) if part.role is Role.TIMING else part for part in parts
    ]


def _slices(timed: list[Loaded]) -> bool:
    devices = {
        tuple((device.name, device.sm_count) for device in part.capture.info.devices) for part in timed
    }
    windows = sorted(window for part in timed if (window := _window(part.capture)) is not None)
    disjoint = all(first[1] <= second[0] for first, second in pairwise(windows))
    return len(devices) == 1 and len(windows) == len(timed) and disjoint


def _window(capture: Capture) -> tuple[int, int] | None:
    events = capture.device_events if len(capture.device_events) else capture.ops
    if events.empty:
        return None
    return int(events["ts_ns"].min()), int((events["ts_ns"] + events["dur_ns"]).max())


def with_shapes(loaded: list[Loaded]) -> list[Loaded]:
    """The captures whose times count, each with the signatures that its run's shape pass lends."""
    shapes = {part.run: part for part in loaded if part.role is Role.SHAPES}
    out = []
    for part in loaded:
        if part.role in {Role.SHAPES, Role.DONOR, Role.COUNTERS}:
            continue
        lender = shapes.get(part.run) if part.run is not None else None
        out.append(
            part
            if lender is None
            else replace(part, capture=borrow_signatures(part.capture, lender.capture).capture)
        )
    # A shape pass without its timing pass is better than nothing, and its times are said to be inflated.
    return out or [part for part in loaded if part.role is Role.SHAPES]
