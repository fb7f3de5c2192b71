"""Public tables as Parquet, by their declared schemas."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.tables import Table
from tracekit.tables.arrow import as_arrow

_RISING = frozenset({"kernel_id", "ts_ns", "launch_ts_ns", "correlation"})
"""Numbers of which nearly every row has its own, close to the last one's: stored as differences, not as a dictionary."""


def parquet_bytes(frame: pd.DataFrame, table: Table) -> bytes:
    """A public table as Parquet, by its Arrow schema, units and meanings in the metadata.

    Read with pandas, it is the frame again.

    Raises:
        TableError: The frame breaks the table's contract.
    """
    checked = table.check(table.conform(frame)).reset_index(drop=True)
    rising = {name: "DELTA_BINARY_PACKED" for name in table.names if name in _RISING}
    others = [name for name in table.names if name not in rising]
    sink = pa.BufferOutputStream()
    pq.write_table(
        as_arrow(checked, table.schema()),
        sink,
        compression="zstd",
        use_dictionary=others,
        column_encoding=rising,
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content
