"""Parsed captures kept as Parquet, so that the same bytes are not parsed twice.

An entry is keyed by the content of the file and by the version of what was parsed from it; it is written
whole or not at all, and an entry that cannot be read is as good as none.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
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

# Raised whenever a reader gives other tables for the same bytes.
VERSION = 1
_BLOCK = 1 << 22
_TABLES = {
    "device_events": DEVICE_EVENTS,
    "runtime_calls": RUNTIME_CALLS,
    "ops": OPS,
    "signatures": SIGNATURES,
    "annotations": RANGES,
    "frames": RANGES,
}
_INFO = "capture.json"


def default_folder() -> Path:
    """Where captures are kept unless told otherwise: the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tracekit"


def key_of(path: str, rules: str) -> str:
    """The key of a file: its size, the checksum of all its bytes, a hash of its ends, and what it is parsed for.

    Args:
        path: The file.
        rules: What decides which frames are kept.

    Raises:
        CaptureError: The file cannot be read.
    """
    digest = hashlib.blake2b(f"{VERSION}:{rules}".encode(), digest_size=16)
    checksum = size = 0
    last = b""
    try:
        for block in _blocks(path):
            if not size:
                digest.update(block)
            checksum = isal_zlib.crc32(block, checksum)
            size += len(block)
            last = block
    except OSError as error:
        raise CaptureError(path, f"cannot be read: {error.strerror or error}") from error
    digest.update(last)
    digest.update(f"{size}:{checksum}".encode())
    return digest.hexdigest()


def _blocks(path: str) -> Iterator[bytes]:
    with Path(path).open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def store(folder: Path, key: str, captures: list[Capture]) -> None:
    """Keep the captures of a file; those with counters, which are small, are not kept.

    Raises:
        CaptureError: The folder cannot be written.
    """
    if any(capture.counters is not None for capture in captures):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder))
        try:
            for number, capture in enumerate(captures):
                _write(draft / str(number), capture)
            if not (folder / key).exists():
                draft.rename(folder / key)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise CaptureError(
            str(folder),
            f"the cache cannot be written: {error.strerror or error}",
            hint="give another folder with --cache-dir, or leave --cache out",
        ) from error


def _write(folder: Path, capture: Capture) -> None:
    folder.mkdir()
    for name, table in _TABLES.items():
        frame = table.conform(getattr(capture, name))
        pq.write_table(
            pa.Table.from_pandas(frame, preserve_index=False),
            folder / f"{name}.parquet",
            compression="zstd",
            compression_level=1,
        )
    rest: dict[str, Any] = {
        "info": asdict(capture.info),
        "threads": capture.threads,
        "quality": [asdict(note) for note in capture.quality],
    }
    rest["info"]["options"] = sorted(capture.info.options)
    (folder / _INFO).write_text(json.dumps(rest), encoding="utf-8")


def load(folder: Path, key: str, label: str) -> list[Capture] | None:
    """The captures kept under a key, or None where there are none that can be read."""
    entry = folder / key
    try:
        return [_read(entry / str(number), label) for number in range(len(list(entry.iterdir())))] or None
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
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
    stored = pq.read_table(folder / f"{name}.parquet", memory_map=True)
    return _TABLES[name].conform(stored.to_pandas())
