"""What an analysis depends on, as a key: two analyses of one key give the same result."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.formats import CEILINGS, INDEX, RUN
from tracekit.models import CONFIG
from tracekit.pipeline.calibration import calibrations_folder
from tracekit.pipeline.loading import with_given_roles
from tracekit.pipeline.options import Options
from tracekit.readers.discover import discover
from tracekit.readers.entries import content_of, digest, program
from tracekit.readers.source import STDIN

_BESIDE = (RUN, CEILINGS, INDEX)
"""What `collect` wrote beside a capture, and a report looks at."""
_COMPUTES = ("numpy", "pandas", "pyarrow")


def key_of(paths: Sequence[str | Path], options: Options) -> str | None:
    """The key of an analysis; None where a capture is no file, or cannot be read.

    In it are the program, the contents of every file that the analysis may look at, and every option that it heeds.
    """
    try:
        return digest(_parts(paths, options))
    except (TracekitError, OSError):
        return None


def _parts(paths: Sequence[str | Path], options: Options) -> Iterator[object]:
    yield program()
    yield sys.version_info[:2]
    yield from map(version, _COMPUTES)
    for path, role in with_given_roles(paths, options):
        if path == STDIN:
            raise OSError
        yield path, role
        yield from _contents(Path(path) / name for name in _BESIDE)
        for source in discover(path):
            yield source
            yield from _contents(_files(Path(source.path)))
            yield from _contents(Path(source.path).parent / name for name in _BESIDE)
    yield options.device, options.model, options.dram, options.ranks, options.steady
    yield sorted(options.peaks.items()), sorted(options.unprofiled.items())
    yield from _contents(file for folder in options.data for file in sorted(folder.rglob("*.toml")))
    yield from _contents(sorted(calibrations_folder().glob(f"*/{CEILINGS}")))
    if options.model is not None:
        yield from _contents([Path(options.model), Path(options.model) / CONFIG])


def _files(place: Path) -> list[Path]:
    """A file, or the files of a folder that is one capture."""
    return sorted(place.iterdir()) if place.is_dir() else [place]


def _contents(files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for file in files:
        if file.is_file():
            yield str(file), content_of(str(file))
