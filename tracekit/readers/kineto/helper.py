"""A second process that reads the same file, started as early as can be.

Only the standard library is imported here, so that the process can be under way while the rest of the program, pandas
above all, is still being loaded.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from tracekit.readers.kineto.turns import OutOfStepError, Turns, number_batches

if TYPE_CHECKING:
    from tracekit.readers.kineto.gather import KeepFrame, Ranks

WORTHWHILE = 48 << 20
"""Bytes of JSON from which a second process is worth its start."""
_GZIP = b"\x1f\x8b"
_GZIPPED = 16
"""Traces shrink to about this part of their size."""
_HEAD = 1 << 16
_MAIN = "from tracekit.readers.kineto.share import main; main()"


class Helper:
    """The second process, and the pipe of turns.

    Args:
        path: The file.

    Raises:
        OSError: The process cannot be started.
    """

    def __init__(self, path: Path) -> None:
        self._pipe = number_batches()
        self.turns = Turns(self._pipe, last=True)
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, on a file that the user named
            # -P: nothing is imported from the current folder, where traces lie.
            [sys.executable, "-P", "-c", _MAIN, str(path), str(self._pipe)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(self._pipe,),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)},
        )

    def tell(self, keep_frame: "KeepFrame") -> None:
        """Say which Python frames are wanted; the helper waits for it where it meets the first.

        Raises:
            OutOfStepError: It cannot be told.
        """
        try:
            with cast("BinaryIO", self._process.stdin) as stdin:
                stdin.write(pickle.dumps(keep_frame))
        except (OSError, pickle.PicklingError, AttributeError, TypeError) as error:
            raise OutOfStepError from error

    @property
    def gave_up(self) -> bool:
        """Whether it ended without a result."""
        return self._process.poll() not in {None, 0}

    def result(self) -> "Ranks":
        """What it gathered, when it is done.

        Raises:
            OutOfStepError: It gave up.
        """
        try:
            found: Ranks = pickle.load(cast("BinaryIO", self._process.stdout))  # noqa: S301 - our own process wrote it
        except (EOFError, pickle.UnpicklingError) as error:
            raise OutOfStepError from error
        if self._process.wait():
            raise OutOfStepError
        return found

    def close(self) -> None:
        """End the process, if it still runs."""
        self._process.kill()
        self._process.wait()
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                with suppress(OSError):
                    end.close()
        os.close(self._pipe)


_ahead: dict[Path, Helper] = {}
"""Helpers that were started before their file is asked for."""


@contextmanager
def started_ahead(paths: Sequence[str]) -> Iterator[None]:
    """Start reading the first large trace among paths; what is not asked for in the end is let go."""
    for path in map(Path, paths):
        if (helper := _helper_ahead(path)) is not None:
            _ahead[path] = helper
            break
    try:
        yield
    finally:
        for path in list(_ahead):
            let_go(path)


def let_go(path: Path) -> None:
    """End the helper that was started for a file, where there is one: its tables are there already."""
    if (helper := _ahead.pop(path, None)) is not None:
        helper.close()


def _helper_ahead(path: Path) -> Helper | None:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        size = path.stat().st_size
    except OSError:
        return None
    gzipped = head.startswith(_GZIP)
    return helper_for(path, size, gzipped=gzipped) if gzipped or b'"traceEvents"' in head else None


def helper_for(path: Path | None, size: int, *, gzipped: bool) -> Helper | None:
    """A helper, where the file is large and the machine has a core for it.

    Args:
        path: The file; None where the bytes are no file of their own.
        size: Its size in bytes.
        gzipped: Whether it is compressed.
    """
    if path is None or os.name != "posix" or _cores() < 2:  # noqa: PLR2004 - one each
        return None
    if "python" not in Path(sys.executable or "").name:
        # Inside another program, which its own name would start once more.
        return None
    if path in _ahead:
        return _ahead.pop(path)
    if size * (_GZIPPED if gzipped else 1) < WORTHWHILE:
        return None
    with suppress(OSError):
        return Helper(path)
    return None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
