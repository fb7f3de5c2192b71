"""Tables declared once: column, type, unit and meaning; checked where a stage hands one on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from tracekit.errors import TableError

if TYPE_CHECKING:
    import pandas as pd

ColumnType = Literal["int64", "int32", "float64", "string", "bool"]
Words = type[StrEnum]

_ARROW = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
}
_PANDAS = {"int64": "Int64", "int32": "Int32", "float64": "float64", "string": "category", "bool": "boolean"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, type, unit (empty where it has none), and meaning."""

    name: str
    type: ColumnType
    doc: str
    unit: str = ""
    null: bool = False
    minimum: float | None = None
    words: Words | None = None

    def arrow(self) -> pa.Field:
        """The Arrow field; text is dictionary-coded, unit and meaning ride along as metadata."""
        kind = pa.dictionary(pa.int32(), pa.string()) if self.type == "string" else _ARROW[self.type]
        return pa.field(self.name, kind, nullable=self.null, metadata={"unit": self.unit, "doc": self.doc})


@dataclass(frozen=True, slots=True)
class Table:
    """A table's contract.

    Attributes:
        name: The table's name in files and messages.
        columns: Its columns, in order.
        key: Columns whose values together name a row; empty where rows have no name.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Column names, in order."""
        return [column.name for column in self.columns]

    def column(self, name: str) -> Column:
        """The declared column `name`."""
        return next(column for column in self.columns if column.name == name)

    def schema(self) -> pa.Schema:
        """The Arrow schema, as written to Parquet."""
        return pa.schema([column.arrow() for column in self.columns], metadata={"table": self.name})

    def empty(self) -> pd.DataFrame:
        """A frame with the declared columns and no row."""
        import pandas as pd  # noqa: PLC0415 - a process that only decodes starts without it

        return pd.DataFrame({c.name: pd.Series([], dtype=_PANDAS[c.type]) for c in self.columns})

    def conform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame with every declared column in order and in its declared type; absent ones are null."""
        import pandas as pd  # noqa: PLC0415 - a process that only decodes starts without it

        data = {}
        for column in self.columns:
            dtype = _PANDAS[column.type]
            if column.name not in frame:
                missing = np.nan if dtype == "float64" else pd.NA
                data[column.name] = pd.Series(missing, dtype=dtype, index=frame.index)
            elif str(frame[column.name].dtype) == dtype:
                data[column.name] = frame[column.name]
            else:
                data[column.name] = frame[column.name].astype(dtype)  # type: ignore[call-overload]
        return pd.DataFrame(data, index=frame.index, copy=False)

    def check(self, frame: pd.DataFrame, only: Iterable[str] | None = None) -> pd.DataFrame:
        """The frame itself, if it keeps the contract.

        Args:
            frame: The table to check.
            only: Columns that the stage at hand must have filled; all of them by default. Where given,
                further columns are allowed.

        Raises:
            TableError: A column is missing, extra, null where it may not be, below its minimum, outside its
                words, or the key is not unique.
        """
        wanted = set(self.names if only is None else only)
        for name in self.names:
            if name in wanted and name not in frame:
                raise TableError(self.name, name, "is missing")
        extra = [str(name) for name in frame if name not in wanted] if only is None else []
        if extra:
            raise TableError(self.name, extra[0], "is not declared")
        for column in self.columns:
            if column.name in wanted:
                self._check_column(column, frame[column.name])
        self._check_key(frame, wanted)
        return frame

    def _check_column(self, column: Column, values: pd.Series) -> None:
        import pandas as pd  # noqa: PLC0415 - a process that only decodes starts without it

        missing = values.isna()
        if not column.null and missing.any():
            raise TableError(self.name, column.name, "may not be null", row=_first(missing))
        plain = pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values)
        if column.type != "string" and not plain:
            raise TableError(self.name, column.name, f"must be {column.type}, not {values.dtype}")
        if column.minimum is not None:
            low = (values < column.minimum).fillna(value=False)
            if low.any():
                raise TableError(self.name, column.name, f"is below {column.minimum:g}", row=_first(low))
        if column.words is not None:
            from tracekit.tables.text import where  # noqa: PLC0415 - as above

            odd = ~(missing | where(values, set(column.words).__contains__))
            if odd.any():
                raise TableError(
                    self.name, column.name, f"has a word outside {column.words.__name__}", row=_first(odd)
                )

    def _check_key(self, frame: pd.DataFrame, wanted: set[str]) -> None:
        if self.key and set(self.key) <= wanted:
            twice = frame.duplicated(list(self.key))
            if twice.any():
                raise TableError(self.name, "+".join(self.key), "is not unique", row=_first(twice))


def _first(mask: pd.Series) -> int:
    return int(np.argmax(mask.to_numpy(dtype=bool)))
