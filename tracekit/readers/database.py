"""Tables of a profiler's database, in batches of columns: SQLite files and folders of Parquet files.

The file is hostile input. It is opened for reading alone and as it stands (no journal is replayed), only real
tables are read (a view can hold any query), values of another type than asked for are null, and whatever the
library finds broken is one clear error. Only the columns asked for ever leave the file.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.errors import CaptureError

SQLITE_MAGIC = b"SQLite format 3\x00"
_BATCH = 1 << 16
# No name or query of a profiler comes near this; a value that does is an attack or an accident.
_LONGEST_VALUE = 16 << 20
_DAMAGED = "the database is damaged: {}"
# Names of columns and messages of the library itself may hold bytes that are no text.
_DAMAGE = (sqlite3.Error, pa.ArrowException, UnicodeError, OverflowError)
_HINT = "export it again, or copy it again from where it was recorded"


class Database(Protocol):
    """Named tables with named columns.

    Attributes:
        label: The path as given by the user, for messages.
        tables: Columns of each table.
    """

    label: str
    tables: dict[str, frozenset[str]]

    def batches(
        self, table: str, integers: Sequence[str] = (), texts: Sequence[str] = (), reals: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The columns of a table, some thousand rows at a time; a column that the table has not is null.

        Raises:
            CaptureError: The file is damaged.
        """

    def close(self) -> None:
        """Close it."""


def read_columns(
    database: Database,
    table: str,
    integers: Sequence[str] = (),
    texts: Sequence[str] = (),
    reals: Sequence[str] = (),
) -> pa.Table:
    """Whole columns of a table; without rows where the database has no such table.

    Raises:
        CaptureError: The file is damaged.
    """
    batches = list(database.batches(table, integers, texts, reals)) if table in database.tables else []
    return pa.Table.from_batches(batches, schema=_schema(integers, texts, reals))


@dataclass(slots=True)
class SqliteDatabase:
    """An SQLite file."""

    label: str
    tables: dict[str, frozenset[str]]
    _connection: sqlite3.Connection

    def batches(
        self, table: str, integers: Sequence[str] = (), texts: Sequence[str] = (), reals: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """See `Database.batches`."""
        has = self.tables[table]
        schema = _schema(integers, texts, reals)
        wanted = ", ".join(
            _typed(field.name, kinds) if field.name in has else "NULL"
            for field, kinds in zip(
                schema,
                [
                    *["'integer'"] * len(integers),
                    *["'text'"] * len(texts),
                    *["'integer', 'real'"] * len(reals),
                ],
                strict=True,
            )
        )
        try:
            cursor = self._connection.execute(f"SELECT {wanted} FROM {_quoted(table)}")  # noqa: S608 - names are quoted, and come from this file's own list of tables
            while rows := cursor.fetchmany(_BATCH):
                columns = zip(*rows, strict=True)
                yield pa.RecordBatch.from_arrays(
                    [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
                    schema=schema,
                )
        except _DAMAGE as error:
            raise CaptureError(self.label, _DAMAGED.format(error), hint=_HINT) from error

    def close(self) -> None:
        """See `Database.close`."""
        self._connection.close()


def open_sqlite(path: str) -> SqliteDatabase:
    """Open an SQLite file for reading.

    Raises:
        CaptureError: It cannot be opened, or its list of tables cannot be read.
    """
    file = Path(path)
    address = f"file:{quote(str(file.resolve()))}?mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(address, uri=True)
    except sqlite3.Error as error:
        raise CaptureError(path, f"cannot be opened: {error}", hint="check its permissions") from error
    try:
        return SqliteDatabase(path, _tables(connection), connection)
    except _DAMAGE as error:
        connection.close()
        raise CaptureError(path, _DAMAGED.format(error), hint=_HINT) from error


def _tables(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """Columns of each real table; views and virtual tables could run anything, and are left out."""
    connection.text_factory = _text
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    return {
        name: frozenset(
            column for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
        )
        for (name,) in names
    }


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


def _typed(column: str, kinds: str) -> str:
    """A column's values of the types wanted; SQLite lets any value stand in any column."""
    name = _quoted(column)
    return f"CASE WHEN typeof({name}) IN ({kinds}) THEN {name} END"


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _schema(integers: Sequence[str], texts: Sequence[str], reals: Sequence[str]) -> pa.Schema:
    return pa.schema(
        [
            *((name, pa.int64()) for name in integers),
            *((name, pa.string()) for name in texts),
            *((name, pa.float64()) for name in reals),
        ]
    )


@dataclass(slots=True)
class ParquetFolder:
    """A folder with a Parquet file a table, named after it."""

    label: str
    tables: dict[str, frozenset[str]]

    def batches(
        self, table: str, integers: Sequence[str] = (), texts: Sequence[str] = (), reals: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """See `Database.batches`."""
        schema = _schema(integers, texts, reals)
        present = [field.name for field in schema if field.name in self.tables[table]]
        try:
            with pq.ParquetFile(_part(self.label, table)) as file:
                for batch in file.iter_batches(batch_size=_BATCH, columns=present):
                    yield pa.RecordBatch.from_arrays(
                        [_cast(batch, field) for field in schema],
                        schema=schema,
                    )
        except (OSError, pa.ArrowException) as error:
            raise CaptureError(
                self.label, f"its table {table} cannot be read: {type(error).__name__}", hint=_HINT
            ) from error

    def close(self) -> None:
        """See `Database.close`."""


def _cast(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.nulls(len(batch), field.type)
    return batch.column(field.name).cast(field.type)


def _part(folder: str, table: str) -> Path:
    return Path(folder) / f"{table}.parquet"


def open_parquet_folder(path: str) -> ParquetFolder:
    """Open a folder of Parquet files.

    Raises:
        CaptureError: One of them cannot be read.
    """
    tables = {}
    for file in sorted(Path(path).glob("*.parquet")):
        try:
            tables[file.stem] = frozenset(pq.read_schema(file).names)
        except (OSError, pa.ArrowException) as error:
            raise CaptureError(
                path, f"its table {file.stem} cannot be read: {type(error).__name__}", hint=_HINT
            ) from error
    return ParquetFolder(path, tables)
