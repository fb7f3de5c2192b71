"""The kernels table outside a report: printed, as JSON rows, or written to a file of the user's choice."""

from pathlib import Path
from typing import Any

import pandas as pd

from tracekit.errors import CaptureError, UsageError
from tracekit.report.parquet import parquet_bytes
from tracekit.report.whole import write_whole
from tracekit.tables import KERNELS
from tracekit.units import duration, plain, si

SUFFIXES = (".parquet", ".csv", ".json")
_NAME_WIDTH = 60


def kernel_rows(kernels: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON has them: unknown is null."""
    columns = {name: _plain(kernels[name]) for name in KERNELS.names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _plain(values: pd.Series) -> list[Any]:
    whole = values.astype(object)
    return whole.where(values.notna(), None).tolist()


def write_kernels(kernels: pd.DataFrame, path: Path) -> None:
    """Write the table; the path's suffix chooses Parquet, CSV or JSON.

    Raises:
        UsageError: The suffix is none of these.
        CaptureError: The file cannot be written.
    """
    if path.suffix == ".parquet":
        content = parquet_bytes(kernels, KERNELS)
    elif path.suffix == ".csv":
        content = kernels.to_csv(index=False).encode()
    elif path.suffix == ".json":
        content = kernels.to_json(orient="records", lines=False).encode()
    else:
        raise UsageError(f"-o {path.name}: the suffix must be one of {', '.join(SUFFIXES)}")
    try:
        write_whole(path, content)
    except OSError as error:
        raise CaptureError(str(path), f"cannot be written: {error.strerror or error}") from error


def kernels_text(kernels: pd.DataFrame, top: int) -> str:
    """The longest kernels as lines of text."""
    rows = kernels.nlargest(top, "dur_ns")
    head = f"{'time':>9} {'phase':8} {'family':12} {'FLOP/s':>12} {'DRAM':>11} {'bottleneck':14} name"
    lines = [head]
    picked = zip(
        *(
            rows[name].astype(object)
            for name in ("dur_ns", "phase", "family", "flops_per_s", "dram_bytes_per_s", "bottleneck", "name")
        ),
        strict=True,
    )
    for time, phase, family, flops, moved, bottleneck, name in picked:
        lines.append(
            f"{duration(time):>9} {phase:8} {family:12} {si(_number(flops), 'FLOP/s'):>12} {si(_number(moved), 'B/s'):>11} {bottleneck:14} {plain(name, _NAME_WIDTH)}"
        )
    return "\n".join(lines)


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)
