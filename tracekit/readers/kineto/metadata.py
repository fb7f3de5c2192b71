"""What a Kineto document says of itself, before or after its events."""

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tracekit.tables import DeviceProperties

_OPTIONS = ("record_shapes", "with_stack", "with_flops", "with_modules", "profile_memory")
_VERSIONS = ("cupti_version", "cuda_runtime_version", "cuda_driver_version", "hip_runtime_version", "hip_driver_version", "roctracer_version", "vllm_version", "vllm_version_tuple")
_PAIR = re.compile(rb'"([A-Za-z_]+)"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+|\[|\{)')


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


def parse(head: bytes, tail: bytes, *, capitalised: bool) -> Metadata:
    """Metadata from the text around the events.

    Args:
        head: An object's text up to the events, unclosed; empty for a bare array.
        tail: The text after the events' array.
        capitalised: Categories are written `Kernel`, `Operator` …, as torch 1.8 to 1.11 did.
    """
    values = {**_object(head.rstrip().rstrip(b",") + b"}" if head.strip() else b""), **_object(_closed(tail))}
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
    )


def _era(*, capitalised: bool, has_base: bool, versions: dict[str, str]) -> str:
    if capitalised:
        return "E1"
    if not has_base:
        return "E2"
    return "E4" if any("runtime_version" in name for name in versions) else "E3"


def _closed(tail: bytes) -> bytes:
    """The tail as an object of its own: `, "a": 1 }` becomes `{ "a": 1 }`."""
    text = tail.strip().lstrip(b",").strip()
    if not text or text[:1] == b"}":
        return b""
    return b"{" + (text if text.endswith(b"}") else text + b"}")


def _object(text: bytes) -> dict[str, Any]:
    """The object's fields; where the text is damaged, the ones that can still be told."""
    if not text:
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _salvage(text)
    return value if isinstance(value, dict) else {}


def _salvage(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in _PAIR.findall(text):
        if value in {b"[", b"{"}:
            continue
        try:
            found.setdefault(name.decode(), msgspec.json.decode(value))
        except (msgspec.DecodeError, UnicodeDecodeError):
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
