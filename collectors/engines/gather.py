"""The traces that a server wrote: waited for until they are complete, and copied without names of the machine."""

import gzip
import os
import re
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tracekit.errors import CaptureError

BLOCK = 1 << 20
_DEPTH = 3
_POLL_S = 0.1
_STEADY_POLLS = 5
# A file that is cut off and has not grown for so long will not.
_GRACE_S = 10.0
_MAGIC = b"\x1f\x8b"
_SUFFIXES = (".json", ".json.gz")
# Longer than any value that is emptied; a match never straddles what one block keeps for the next.
_CARRY = 4096

_FRONT_END = re.compile(r"\.async_llm\.|graph_capture|/capture_traces/|/graph_capture_profile/")
# File names: see `tracekit/data/engines`, whose patterns must know the cleaned names again.
_VLLM_RANKS = re.compile(r"dp\d+_pp\d+_tp\d+_dcp\d+_ep\d+(?:_rank(\d+))?(?=\.)")
_SGLANG_RANKS = re.compile(
    r"-TP-(\d+)(?:-(?:DP|PP|EP)-\d+)*(?:-(?:EXTEND|DECODE|prefill|decode|ForwardMode\.\w+|[12]))?(?=\.trace)"
)
_PLAIN_RANK = re.compile(r"(?:^|[_\-.])rank[-_]?(\d+)(?=\.)")
_NAMES = re.compile(rb'("(?:host_name|hostname|traceName|user_name)"\s*:\s*)"(?:[^"\\]|\\.){0,2000}"')

Seen = dict[Path, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Gathered:
    """One trace in the capture folder.

    Attributes:
        name: Its name there.
        rank: The rank that wrote it, where its name said so.
        size_bytes: Its size there, compressed [byte].
        complete: Whether it ends where a trace ends.
    """

    name: str
    rank: int | None
    size_bytes: int
    complete: bool


def look(folder: Path) -> Seen:
    """The trace files under a folder, each with its size [byte] and time of change [ns].

    Links are not followed.

    Raises:
        CaptureError: The folder cannot be read.
    """
    if not folder.is_dir():
        hint = "--trace-dir is the folder that the server writes to, as this machine sees it"
        raise CaptureError(str(folder), "is no folder here", hint=hint, code="missing")
    found: Seen = {}
    for place, folders, names in os.walk(folder):
        if len(Path(place).relative_to(folder).parts) >= _DEPTH:
            folders.clear()
        for name in names:
            path = Path(place) / name
            if name.endswith(_SUFFIXES) and not path.is_symlink():
                try:
                    found[path] = _state(path)
                except FileNotFoundError:  # a draft that the engine has renamed meanwhile
                    continue
    return found


def wait_for(folder: Path, before: Seen, expected: int, timeout_s: float) -> list[Path]:
    """Wait until the new traces have stopped growing, and there are as many as expected.

    Args:
        folder: Where the server writes.
        before: What was there before the profile started.
        expected: Traces of workers to wait for.
        timeout_s: Longest wait [s]; then what is there counts.

    Returns:
        The new traces of workers, in order of name; front ends hold no kernels and are left out.
    """
    until = time.monotonic() + timeout_s
    last: Seen = {}
    steady = 0
    while True:
        new = {path: state for path, state in look(folder).items() if before.get(path) != state}
        workers = sorted(path for path in new if not _FRONT_END.search(path.as_posix()))
        steady = steady + 1 if new == last else 0
        last = new
        if (len(workers) >= expected and steady >= _STEADY_POLLS) or time.monotonic() > until:
            return workers
        time.sleep(_POLL_S)


def copy(path: Path, target: Path) -> bool:
    """Copy a trace, gzipped, with the values of host and file names emptied; a damaged one as far as it goes.

    Returns:
        Whether it is complete.

    Raises:
        CaptureError: It cannot be read, or the copy cannot be written.
    """
    draft = target.with_name(f".{target.name}.part")
    reader = _Reader(path)
    last = b""
    try:
        with gzip.open(draft, "wb", compresslevel=6) as out:
            for block in _redacted(reader.blocks()):
                out.write(block)
                last = (last + block)[-64:]
        draft.replace(target)
    except OSError as error:
        reason = f"cannot be copied: {error.strerror or error}"
        raise CaptureError(str(path), reason, hint="is there room in the output folder?") from error
    return reader.complete and last.rstrip().endswith(b"}")


class _Reader:
    """The text of a trace, plain or gzip; `complete` tells afterwards whether it was read to its end."""

    def __init__(self, path: Path) -> None:
        self.complete = True
        self._path = path

    def blocks(self) -> Iterator[bytes]:
        """The text, in blocks."""
        with self._path.open("rb") as file:
            zipped = file.read(2) == _MAGIC
        source = gzip.open if zipped else open
        with source(self._path, "rb") as text:
            try:
                while block := text.read1(BLOCK):
                    yield block
            except (EOFError, zlib.error, gzip.BadGzipFile):
                self.complete = False


def _redacted(blocks: Iterator[bytes]) -> Iterator[bytes]:
    kept = b""
    for block in blocks:
        text = _NAMES.sub(rb'\1""', kept + block)
        kept = text[-_CARRY:]
        yield text[:-_CARRY]
    yield kept


def place(paths: list[Path], folder: Path, engine: str, timeout_s: float) -> list[Gathered]:
    """Copy traces into a capture folder under names that say engine, rank and stage, and nothing of the machine.

    Args:
        paths: The traces.
        folder: The capture folder.
        engine: Which engine wrote them.
        timeout_s: Longest wait for a trace that is cut off to be written on [s].
    """
    until = time.monotonic() + timeout_s
    gathered: list[Gathered] = []
    for path in paths:
        name, rank = _clean_name(path.name)
        free = next(one for one in _numbered(engine, name) if not (folder / one).exists())
        state = _state(path)
        while not (complete := copy(path, folder / free)) and _changes(path, state, until):
            state = _state(path)
        gathered.append(Gathered(free, rank, (folder / free).stat().st_size, complete))
    return gathered


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _changes(path: Path, state: tuple[int, int], until: float) -> bool:
    """Wait for a file to change; not for long where nobody writes it."""
    until = min(until, time.monotonic() + _GRACE_S)
    while time.monotonic() < until:
        if _state(path) != state:
            return True
        time.sleep(_POLL_S)
    return False


def _clean_name(name: str) -> tuple[str, int | None]:
    """The part of a name that says which worker wrote it, as readers know it, and its rank."""
    if found := _VLLM_RANKS.search(name):
        return f"_{found[0]}", int(found[1]) if found[1] else None
    if found := _SGLANG_RANKS.search(name):
        return found[0], int(found[1])
    if found := _PLAIN_RANK.search(name):
        return f"-rank-{found[1]}", int(found[1])
    return "-worker", None


def _numbered(engine: str, name: str) -> Iterator[str]:
    """Names for one worker's traces: a second window of the same worker gets a number."""
    yield f"{engine}{name}.trace.json.gz"
    for number in count(2):
        yield f"{engine}-{number}{name}.trace.json.gz"
