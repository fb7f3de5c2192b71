"""Parsed captures kept as Parquet, so that the same bytes are not parsed twice.

An entry is keyed by the content of the file and by the code that parsed it; it is written whole or not at all, and
an entry that cannot be read is as good as none.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from isal import isal_zlib

from tracekit.errors import CaptureError
from tracekit.tables import (
    DEVICE_EVENTS,
    OPS,
    RANGES,
    RUNTIME_CALLS,
    SIGNATURES,
    Capture,
    CaptureInfo,
    DeviceProperties,
    QualityNote,
)
from tracekit.tables.arrow import as_arrow

_BLOCK = 1 << 22
_PACKAGE = Path(__file__).parents[1]
_CODE = frozenset({".py", ".toml"})
_TABLES = {
    "device_events": DEVICE_EVENTS,
    "runtime_calls": RUNTIME_CALLS,
    "ops": OPS,
    "signatures": SIGNATURES,
    "annotations": RANGES,
    "frames": RANGES,
}
_INFO = "capture.json"
_KEY = re.compile(r"[0-9a-f]{32}")
_ENTRY = ".tracekit"
MOST = 4 << 30
"""Bytes of all entries together."""


def default_folder() -> Path:
    """Where captures are kept unless told otherwise: the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tracekit"


def key_of(path: str, rules: str) -> str:
    """The key of a file: what is in it, the code that reads it, and what it is parsed for.

    Args:
        path: The file.
        rules: What decides which frames are kept.

    Raises:
        CaptureError: The file cannot be read.
    """
    return digest((program("readers", "tables", "ncu"), rules, content_of(path)))


def content_of(path: str) -> str:
    """What tells a file's content from any other: its size, the checksum of all its bytes, and a hash of its ends.

    Raises:
        CaptureError: The file cannot be read.
    """
    try:
        state = Path(path).stat()
        return _content(path, (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns))
    except OSError as error:
        raise CaptureError(path, f"cannot be read: {error.strerror or error}") from error


@cache
def _content(path: str, _state: tuple[int, ...]) -> str:
    """Of a file in this state: it is looked at once, though several keys have it in them."""
    ends = hashlib.blake2b(digest_size=16)
    checksum = size = 0
    last = first = b""
    for block in _blocks(path):
        first = first or block
        checksum = isal_zlib.crc32(block, checksum)
        size += len(block)
        last = block
    ends.update(first)
    ends.update(last)
    return f"{size}:{checksum}:{ends.hexdigest()}"


def _blocks(path: str) -> Iterator[bytes]:
    with Path(path).open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def digest(parts: Iterable[object]) -> str:
    """A key of what parts say, in order."""
    whole = hashlib.blake2b(digest_size=16)
    for part in parts:
        text = str(part).encode("utf-8", errors="surrogateescape")
        whole.update(b"%d:%b" % (len(text), text))
    return whole.hexdigest()


@cache
def program(*parts: str) -> str:
    """What tells this program from any other version of it: its code and data.

    Args:
        parts: Packages of tracekit; all of it where none is named.
    """
    places = [_PACKAGE / part for part in parts] or [_PACKAGE]
    files = [file for place in places for file in sorted(place.rglob("*")) if file.suffix in _CODE]
    return digest(part for file in files for part in (file.name, file.read_bytes()))


def store(folder: Path, key: str, captures: list[Capture]) -> None:
    """Keep the captures of a file; those with counters, which are small, are not kept.

    Raises:
        CaptureError: The folder cannot be written.
    """
    if any(capture.counters is not None for capture in captures):
        return

    def write(draft: Path) -> None:
        for number, capture in enumerate(captures):
            _write(draft / str(number), capture)

    keep(folder, key, write)


def keep(folder: Path, key: str, write: Callable[[Path], None]) -> None:
    """Make an entry, whole or not at all; one that is there already stays.

    Args:
        folder: That of all entries.
        key: The entry's name.
        write: Writes it into an empty folder.

    Raises:
        CaptureError: The folder cannot be written.
    """
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder))
        try:
            write(draft)
            (draft / _ENTRY).touch()
            _place(draft, folder / key)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    # Another process may be at the same: what it took away needs no letting go.
    with suppress(OSError):
        _let_go_of_the_oldest(folder)


def prepare(folder: Path) -> None:
    """Make the folder of all entries, and say before anything is read where nothing could be kept.

    Raises:
        CaptureError: It cannot be written.
    """
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CaptureError(
            str(folder),
            f"the cache cannot be written: {error.strerror or error}",
            hint="give another folder with --cache-dir, or leave --cache out",
        ) from error


def _place(draft: Path, entry: Path) -> None:
    try:
        draft.rename(entry)
    except OSError:
        if not entry.exists():
            raise


def forget(entry: Path) -> None:
    """Let go of an entry that cannot be read, so that it is made anew."""
    if _is_entry(entry):
        shutil.rmtree(entry, ignore_errors=True)


def used(entry: Path) -> None:
    """Note that an entry was of use now: those that were of none for longest are let go first.

    Raises:
        OSError: There is none.
    """
    os.utime(entry)


def _let_go_of_the_oldest(folder: Path) -> None:
    """Keep what was used last, up to so many bytes in all; what is no entry, in a folder of the user's, is not touched."""
    entries = sorted(filter(_is_entry, folder.iterdir()), key=lambda entry: -entry.stat().st_mtime_ns)
    total = 0
    for entry in entries:
        total += sum(file.stat().st_size for file in entry.rglob("*") if file.is_file())
        if total > MOST:
            shutil.rmtree(entry, ignore_errors=True)


def _is_entry(place: Path) -> bool:
    return _KEY.fullmatch(place.name) is not None and (place / _ENTRY).is_file()


def _write(folder: Path, capture: Capture) -> None:
    folder.mkdir()
    for name, table in _TABLES.items():
        write_frame(table.conform(getattr(capture, name)), folder / f"{name}.parquet")
    rest: dict[str, Any] = {
        "info": asdict(capture.info),
        "threads": capture.threads,
        "quality": [asdict(note) for note in capture.quality],
    }
    rest["info"]["options"] = sorted(capture.info.options)
    (folder / _INFO).write_text(json.dumps(rest), encoding="utf-8")


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Keep a frame as quickly as can be."""
    pq.write_table(as_arrow(frame), path, compression="zstd", compression_level=1)


def read_frame(path: Path) -> pd.DataFrame:
    """A frame that was kept.

    Raises:
        OSError: It is not there.
        pyarrow.ArrowException: It is damaged.
    """
    frame: pd.DataFrame = pq.read_table(path, memory_map=True).to_pandas()
    return frame


def load(folder: Path, key: str, label: str) -> list[Capture] | None:
    """The captures kept under a key, or None where there are none that can be read."""
    entry = folder / key
    try:
        used(entry)
        return [
            _read(part, label) for part in sorted(entry.glob("[0-9]*"), key=lambda part: int(part.name))
        ] or None
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        forget(entry)
        return None


def _read(folder: Path, label: str) -> Capture:
    rest = json.loads((folder / _INFO).read_text(encoding="utf-8"))
    info = rest["info"]
    info["path"] = label
    info["options"] = frozenset(info["options"])
    info["devices"] = tuple(DeviceProperties(**device) for device in info["devices"])
    return Capture(
        info=CaptureInfo(**info),
        device_events=_table(folder, "device_events"),
        runtime_calls=_table(folder, "runtime_calls"),
        ops=_table(folder, "ops"),
        signatures=_table(folder, "signatures"),
        annotations=_table(folder, "annotations"),
        frames=_table(folder, "frames"),
        threads=tuple((str(process), str(thread)) for process, thread in rest["threads"]),
        quality=tuple(QualityNote(**note) for note in rest["quality"]),
    )


def _table(folder: Path, name: str) -> pd.DataFrame:
    return _TABLES[name].conform(read_frame(folder / f"{name}.parquet"))
