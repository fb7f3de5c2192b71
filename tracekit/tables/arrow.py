"""Frames as Arrow tables that read back as the same frames, with pandas or without."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

_WORDS = pa.dictionary(pa.int32(), pa.string())


def as_arrow(frame: pd.DataFrame, schema: pa.Schema | None = None) -> pa.Table:
    """The frame as an Arrow table; its index is left out.

    pandas' own description goes along: without it, whole numbers with nulls would read back as floats, which cannot
    hold a time since 1970 in nanoseconds.

    Args:
        frame: Text columns are categories.
        schema: Of the table, columns in order; by default the frame's own, text as a dictionary.
    """
    described = pa.Schema.from_pandas(frame.head(0), preserve_index=False)
    if schema is None:
        schema = pa.schema(
            field.with_type(_WORDS) if pa.types.is_dictionary(field.type) else field for field in described
        )
    columns = [_column(frame[field.name], field.type) for field in schema]
    metadata = {**(schema.metadata or {}), **described.metadata}
    return pa.Table.from_arrays(columns, schema=schema.with_metadata(metadata))


def _column(values: pd.Series, kind: pa.DataType) -> pa.Array:
    made = pa.array(values, from_pandas=True)
    if not pa.types.is_dictionary(kind):
        return made.cast(kind)
    if not pa.types.is_dictionary(made.type):
        made = made.cast(pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(made.indices.cast(pa.int32()), made.dictionary.cast(pa.string()))


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Keep a frame as quickly as can be."""
    pq.write_table(as_arrow(frame), path, compression="zstd", compression_level=1)


def read_frame(path: Path) -> pd.DataFrame:
    """A frame that was kept.

    Raises:
        OSError: It is not there.
        pyarrow.ArrowException: It is damaged.
    """
    frame: pd.DataFrame = pq.read_table(path, memory_map=True).to_pandas()
    return frame
