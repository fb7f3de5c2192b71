"""What a path given on the command line stands for: one file, a folder of captures, or a folder that `collect` wrote."""

import json
from dataclasses import dataclass
from pathlib import Path

from tracekit.errors import CaptureError
from tracekit.formats import CEILINGS, RUN, SHAPES_TRACE, TIMING_TRACE
from tracekit.readers.source import STDIN
from tracekit.tables import Role

_SUFFIXES = (".json", ".json.gz")
# Files that `collect` writes beside its traces.
_OWN = frozenset({RUN, CEILINGS, "index.json", "summary.json"})


@dataclass(frozen=True, slots=True)
class Source:
    """One capture file to read.

    Attributes:
        path: Where it is.
        role: What it contributes, where the folder says.
        run: The folder that `collect` wrote, where it is part of one.
    """

    path: str
    role: Role | None = None
    run: Path | None = None


def discover(path: str) -> list[Source]:
    """The captures behind a path, in order of name.

    Raises:
        CaptureError: A folder holds no capture.
    """
    folder = Path(path)
    if path == STDIN or not folder.is_dir():
        return [Source(path)]
    if (folder / RUN).is_file():
        return _run(folder)
    found = [Source(str(file)) for file in sorted(folder.iterdir()) if file.name.endswith(_SUFFIXES) and file.name not in _OWN and file.is_file()]
    if not found:
        hint = "give one of its runs, or a trace file" if any(folder.glob(f"*/{RUN}")) else "captures end in .json or .json.gz; give the trace file itself"
        raise CaptureError(path, "is a folder with no capture in it", hint=hint, code="missing")
    return found


def _run(folder: Path) -> list[Source]:
    parts = ((TIMING_TRACE, Role.TIMING), (SHAPES_TRACE, Role.SHAPES))
    found = [Source(str(folder / name), role, folder) for name, role in parts if (folder / name).is_file()]
    if not found:
        raise CaptureError(str(folder), "its run.json stands beside no trace", hint="the collection did not finish; collect again", code="missing")
    return found


def read_ceilings(run: Path) -> dict[str, object] | None:
    """The measured ceilings of a folder that `collect` wrote; None where there are none.

    Raises:
        CaptureError: The file is damaged.
    """
    file = run / CEILINGS
    if not file.is_file():
        return None
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CaptureError(str(file), "cannot be read as JSON", hint="collect again") from error
    if not isinstance(value, dict):
        raise CaptureError(str(file), "is not a JSON object", hint="collect again")
    return value
