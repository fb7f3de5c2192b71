"""Files that are written whole or not at all."""

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tracekit.errors import CaptureError


def write_documents(folder: Path, documents: Mapping[str, bytes], what: str) -> None:
    """Write files into a folder, which is made where there is none.

    Args:
        folder: Where.
        documents: Contents by file name.
        what: What they are, for the error.

    Raises:
        CaptureError: The folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in documents.items():
            write_whole(folder / name, content)
    except OSError as error:
        raise CaptureError(
            str(folder),
            f"cannot write the {what}: {error.strerror or error}",
            hint="choose another folder with -o",
        ) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the target, then rename: a reader never sees half a file."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # mkstemp makes files private; a report is as readable as the user's other files.
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
