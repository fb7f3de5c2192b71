"""Entries of a cache: named by what they depend on, written whole or not at all, the oldest let go.

Nothing here knows what an entry holds.
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from isal import isal_zlib

from tracekit.errors import CaptureError

_BLOCK = 1 << 22
_PACKAGE = Path(__file__).parents[1]
_CODE = frozenset({".py", ".toml"})
_KEY = re.compile(r"[0-9a-f]{32}")
_ENTRY = ".tracekit"
MOST = 4 << 30
"""Bytes of all entries together."""


def default_folder() -> Path:
    """Where captures are kept unless told otherwise: the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tracekit"


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
