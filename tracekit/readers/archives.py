"""Captures inside zip and tar archives, read in place: nothing is unpacked, no member's path is trusted."""

import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from tracekit.errors import CaptureError
from tracekit.readers.source import Closeable, Progress, Stream, not_empty

SUFFIXES = (".json", ".json.gz")
_ZIP = b"PK\x03\x04"
_TAR_MARK = slice(257, 262)
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    EOFError,
    OSError,
    zlib.error,
    NotImplementedError,
    RuntimeError,
)


def is_zip(head: bytes) -> bool:
    """Whether the first bytes are a zip archive's."""
    return head.startswith(_ZIP)


def is_tar(head: bytes) -> bool:
    """Whether the first (decompressed) bytes are a tar archive's."""
    return head[_TAR_MARK] == b"ustar"


def members(path: str, *, zipped: bool) -> list[str]:
    """Names of the captures in an archive, in order.

    Raises:
        CaptureError: The archive is damaged, or holds no capture.
    """
    try:
        if zipped:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        else:
            with tarfile.open(path, "r:*") as archive:
                names = [member.name for member in archive if member.isfile()]
    except _DAMAGE as error:
        raise CaptureError(
            path, "the archive is damaged", hint="unpack it by hand and give the traces in it"
        ) from error
    found = sorted(name for name in names if name.endswith(SUFFIXES) and not Path(name).name.startswith("."))
    if not found:
        raise CaptureError(
            path, "the archive holds no capture", hint="captures end in .json or .json.gz", code="missing"
        )
    return found


def open_member(path: str, name: str, progress: Progress | None = None) -> Stream:
    """The bytes of one capture in an archive.

    Raises:
        CaptureError: The archive or the member is damaged.
    """
    label = f"{path}:{name}"
    opened = _open_zip if zipfile.is_zipfile(path) else _open_tar
    try:
        archive, raw, size = opened(path, name)
        return not_empty(Stream(label, raw, size, progress, archive))
    except (*_DAMAGE, KeyError) as error:
        raise CaptureError(
            label, "the archive is damaged", hint="unpack it by hand and give the traces in it"
        ) from error


def _open_zip(path: str, name: str) -> tuple[Closeable, BinaryIO, int]:
    archive = zipfile.ZipFile(path)
    return archive, cast("BinaryIO", archive.open(name)), archive.getinfo(name).file_size


def _open_tar(path: str, name: str) -> tuple[Closeable, BinaryIO, int]:
    archive = tarfile.open(path, "r:*")  # noqa: SIM115 - closed with the stream that reads its member
    member = archive.getmember(name)
    raw = archive.extractfile(member)
    if raw is None:
        archive.close()
        raise tarfile.ReadError(name)
    return archive, cast("BinaryIO", raw), member.size
