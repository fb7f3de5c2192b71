"""Public tables as Parquet, by their declared schemas."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.tables import Table
from tracekit.tables.arrow import as_arrow


def parquet_bytes(frame: pd.DataFrame, table: Table) -> bytes:
    """A public table as Parquet, by its Arrow schema, units and meanings in the metadata.

    Read with pandas, it is the frame again.

    Raises:
        TableError: The frame breaks the table's contract.
    """
    checked = table.check(table.conform(frame)).reset_index(drop=True)
    sink = pa.BufferOutputStream()
    pq.write_table(as_arrow(checked, table.schema()), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content
