"""Parsed captures kept as Parquet, so that the same bytes are not parsed twice.

An entry is keyed by the content of the file and by the code that parsed it; it is written whole or not at all, and
an entry that cannot be read is as good as none.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from tracekit.readers.entries import content_of, digest, forget, keep, program, used
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
from tracekit.tables.arrow import read_frame, write_frame

_TABLES = {
    "device_events": DEVICE_EVENTS,
    "runtime_calls": RUNTIME_CALLS,
    "ops": OPS,
    "signatures": SIGNATURES,
    "annotations": RANGES,
    "frames": RANGES,
}
_INFO = "capture.json"


def key_of(path: str, rules: str) -> str:
    """The key of a file: what is in it, the code that reads it, and what it is parsed for.

    Args:
        path: The file.
        rules: What decides which frames are kept.

    Raises:
        CaptureError: The file cannot be read.
    """
    return digest((program("readers", "tables", "ncu"), rules, content_of(path)))


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
