"""What a Kineto document says of itself, before or after its events."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tracekit.readers.kineto.events import DAMAGE
from tracekit.readers.kineto.repair import repairs
from tracekit.tables import DeviceProperties, QualityNote

_OPTIONS = ("record_shapes", "with_stack", "with_flops", "with_modules", "profile_memory")
_VERSIONS = (
    "cupti_version",
    "cuda_runtime_version",
    "cuda_driver_version",
    "hip_runtime_version",
    "hip_driver_version",
    "roctracer_version",
    "vllm_version",
    "vllm_version_tuple",
)
_PAIR = re.compile(rb'"([A-Za-z_]+)"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+|\[|\{)')


_JSON = json.JSONDecoder(strict=False)
_SECOND = re.compile(rb'"traceEvents"\s*:')


@dataclass(frozen=True, slots=True)
class Metadata:
    """The document's own fields, in tracekit's terms; private ones (host, user, paths) are never read."""

    base_ns: int = 0
    has_base: bool = False
    era: str = ""
    devices: tuple[DeviceProperties, ...] = ()
    rank: int | None = None
    world_size: int | None = None
    options: frozenset[str] = frozenset()
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[QualityNote, ...] = ()


def parse(head: bytes, tail: bytes, *, capitalised: bool) -> Metadata:
    """Metadata from the text around the events.

    Args:
        head: An object's text up to the events, unclosed; empty for a bare array.
        tail: The text after the events' array.
        capitalised: Categories are written `Kernel`, `Operator` …, as torch 1.8 to 1.11 did.
    """
    before, damaged_before = _fields(head.rstrip().removesuffix(b",") + b"}" if head.strip() else b"")
    own, junk = _cut(_opened(tail))
    after, damaged_after = _fields(own)
    values = {**before, **after}
    base = _whole(values.get("baseTimeNanoseconds"))
    distributed = values.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    versions = {name: _version(values[name]) for name in _VERSIONS if name in values}
    return Metadata(
        base_ns=base or 0,
        has_base=base is not None,
        era=_era(capitalised=capitalised, has_base=base is not None, versions=versions),
        devices=_devices(values.get("deviceProperties")),
        rank=_whole(distributed.get("rank")),
        world_size=_whole(distributed.get("world_size")),
        options=frozenset(name for name in _OPTIONS if values.get(name)),
        versions=versions,
        notes=tuple(_notes(damaged=damaged_before or damaged_after, junk=junk)),
    )


def _notes(*, damaged: bool, junk: bytes) -> list[QualityNote]:
    found = []
    if damaged:
        found.append(
            QualityNote(
                "metadata_damaged",
                1,
                "the fields around the events are not valid JSON; what could be told was kept",
            )
        )
    if _SECOND.search(junk):
        found.append(
            QualityNote(
                "second_document",
                len(_SECOND.findall(junk)),
                "further traces follow the first in the same file; only the first was read",
            )
        )
    elif junk.strip():
        found.append(QualityNote("trailing_junk", 1, "bytes after the end of the trace were ignored"))
    return found


def _era(*, capitalised: bool, has_base: bool, versions: dict[str, str]) -> str:
    if capitalised:
        return "E1"
    if not has_base:
        return "E2"
    return "E4" if any("runtime_version" in name for name in versions) else "E3"


def _opened(tail: bytes) -> bytes:
    """The tail as an object of its own: `, "a": 1 }` becomes `{ "a": 1 }`."""
    text = tail.strip()
    return b"{" + text.removeprefix(b",").lstrip() if text else b""


def _cut(text: bytes) -> tuple[bytes, bytes]:
    """The first object of a text and what follows it."""
    if not text:
        return b"", b""
    decoded = text.decode("latin-1")
    try:
        end = _JSON.raw_decode(decoded)[1]
    except (ValueError, RecursionError):
        return text, b""
    return text[:end], text[end:]


def _fields(text: bytes) -> tuple[dict[str, Any], bool]:
    """An object's fields, and whether it was damaged, so that only some could be told."""
    if not text:
        return {}, False
    value = _object(text)
    if value is not None:
        return value, False
    for mended, _ in repairs(text):
        value = _object(mended)
        if value is not None:
            return value, True
    return _salvage(text), True


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text)
    except DAMAGE:
        return None
    return value if isinstance(value, dict) else None


def _salvage(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in _PAIR.findall(text):
        if value in {b"[", b"{"}:
            continue
        try:
            found.setdefault(name.decode(), msgspec.json.decode(value))
        except DAMAGE:
            continue
    return found


def _devices(value: object) -> tuple[DeviceProperties, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(_device(position, item) for position, item in enumerate(value) if isinstance(item, dict))


def _device(position: int, item: dict[str, Any]) -> DeviceProperties:
    name = item.get("name")
    index = _whole(item.get("id"))
    return DeviceProperties(
        index=position if index is None else index,
        name=name.strip() if isinstance(name, str) and name.strip() else None,
        compute_major=_whole(item.get("computeMajor")),
        compute_minor=_whole(item.get("computeMinor")),
        sm_count=_whole(item.get("numSms")),
        memory_bytes=_whole(item.get("totalGlobalMem")),
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def _version(value: object) -> str:
    if isinstance(value, list):
        return ".".join(str(part) for part in value[:8])
    return str(value)[:64]
