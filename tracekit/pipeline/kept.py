"""Analyses kept beside the parsed captures, so that the next report of the same files only has to be written."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pandas as pd
import pyarrow as pa

from tracekit.classify import Finding
from tracekit.errors import CaptureError
from tracekit.readers.entries import forget, keep, used
from tracekit.report.contract import CaptureUsed, DeviceUsed, Summary
from tracekit.report.result import Result
from tracekit.tables import GAPS, KERNELS, PUBLIC, QUALITY, STEPS, Table
from tracekit.tables.arrow import read_frame, write_frame
from tracekit.tables.ceilings import Ceilings

T = TypeVar("T")
_REST = "result.msgpack"
_INTERNAL, _BY_NAME = "internal.parquet", "by_name.parquet"


class _Rest(msgspec.Struct):
    """What of a result is no table."""

    ceilings: Ceilings
    device: DeviceUsed
    captures: tuple[CaptureUsed, ...]
    findings: tuple[Finding, ...]
    unprofiled: dict[str, float]
    overview: Summary


class KeptResult(Result):
    """A result whose tables stay on disk until they are asked for.

    Args:
        entry: The folder that `store` wrote.
        rest: What is no table.
    """

    _entry: Path

    def __init__(self, entry: Path, rest: _Rest) -> None:
        fields: dict[str, Any] = {name: getattr(rest, name) for name in rest.__struct_fields__}
        vars(self).update(fields, errors=(), _entry=entry)

    @cached_property
    def all_kernels(self) -> pd.DataFrame:
        """As of `Result`."""
        return pd.concat([self._public(KERNELS), self._frame(_INTERNAL)], axis=1)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """As of `Result`."""
        return self._public(STEPS)

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """As of `Result`."""
        return self._public(GAPS)

    @cached_property
    def quality(self) -> pd.DataFrame:
        """As of `Result`."""
        return self._public(QUALITY)

    @cached_property
    def by_name(self) -> pd.DataFrame:
        """As of `Result`."""
        return self._frame(_BY_NAME)

    def parquet(self, table: Table) -> bytes:
        """As of `Result`: the file that was kept."""
        return self._kept(f"{table.name}.parquet", Path.read_bytes)

    def _public(self, table: Table) -> pd.DataFrame:
        return table.conform(self._frame(f"{table.name}.parquet"))

    def _frame(self, name: str) -> pd.DataFrame:
        return self._kept(name, read_frame)

    def _kept(self, name: str, read: Callable[[Path], T]) -> T:
        try:
            return read(self._entry / name)
        except (OSError, pa.ArrowException) as error:
            raise CaptureError(
                str(self._entry), "the kept analysis is damaged", hint="remove this folder, and report again"
            ) from error


def store(folder: Path, key: str, result: Result) -> None:
    """Keep an analysis; one of which a capture could not be read is not kept, for the next try may succeed.

    Raises:
        CaptureError: The folder cannot be written.
    """
    if result.errors or not len(result.all_kernels):
        return

    def write(draft: Path) -> None:
        for table in PUBLIC:
            (draft / f"{table.name}.parquet").write_bytes(result.parquet(table))
        write_frame(result.all_kernels.drop(columns=KERNELS.names), draft / _INTERNAL)
        write_frame(result.by_name, draft / _BY_NAME)
        rest = {name: getattr(result, name) for name in _Rest.__struct_fields__}
        (draft / _REST).write_bytes(msgspec.msgpack.encode(rest))

    keep(folder, key, write)


def load(folder: Path, key: str) -> Result | None:
    """The analysis kept under a key, or None where there is none that can be read."""
    entry = folder / key
    try:
        used(entry)
        rest = msgspec.msgpack.decode((entry / _REST).read_bytes(), type=_Rest)
    except (OSError, msgspec.MsgspecError):
        forget(entry)
        return None
    return KeptResult(entry, rest)
