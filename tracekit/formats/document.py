"""JSON documents of a capture folder: read with one clear error, written whole or not at all."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from tracekit.errors import CaptureError, FormatError

T = TypeVar("T")

SCHEMA_VERSION = 1


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        CaptureError: The file is missing or unreadable.
        FormatError: It holds no JSON object.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        hint = "collect it again; the collection may not have finished"
        raise CaptureError(str(path), "no such file", hint=hint, code="missing") from error
    except OSError as error:
        raise CaptureError(str(path), error.strerror or "unreadable", hint="check the path") from error
    except ValueError as error:
        raise FormatError(str(path), "is not JSON", hint="collect it again") from error
    if not isinstance(document, dict):
        raise FormatError(str(path), "holds no JSON object", hint="collect it again")
    return document


def write_json(path: Path, document: Any) -> Path:
    """Write JSON to a file, whole or not at all.

    Raises:
        CaptureError: The folder cannot be written.
    """
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        reason = f"cannot be written: {error.strerror}"
        raise CaptureError(str(path), reason, hint="choose another folder with -o") from error
    return path


def checked(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    """The document, where it is of a schema that is known.

    Raises:
        FormatError: It is of a newer one, or says none.
    """
    version = document.get("schema_version")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        reason = f"schema_version is {version!r}; this tracekit reads up to {SCHEMA_VERSION}"
        raise FormatError(str(path), reason, hint="update tracekit, or collect it again")
    return document


def build(path: Path, kind: type[T], values: Any) -> T:
    """An instance of a dataclass from JSON values; fields of a later minor version are left out.

    Raises:
        FormatError: They do not make one.
    """
    known = {entry.name for entry in fields(kind)}  # type: ignore[arg-type]  # T is a dataclass
    try:
        return kind(**{name: _frozen(value) for name, value in values.items() if name in known})
    except (AttributeError, TypeError) as error:
        reason = f"is not what it should be ({kind.__name__}: {error})"
        raise FormatError(str(path), reason, hint="collect it again") from error


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
