"""A comparison on a terminal, as Markdown for a pull request, as HTML, and as files."""

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import RenderableType
from rich.text import Text

from tracekit.compare.contract import Comparison
from tracekit.compare.movement import movement
from tracekit.compare.text import blocks, headline
from tracekit.report.blocks import as_markdown, as_page, print_blocks
from tracekit.report.whole import write_documents
from tracekit.units import plain

_NAMES = {
    "html": "compare.html",
    "md": "compare.md",
    "json": "compare.json",
    "parquet": "kernel_changes.parquet",
}


def print_comparison(comparison: Comparison) -> None:
    """Print a comparison to standard output."""
    parts: list[RenderableType] = [Text(headline(comparison), style="bold"), Text(_sides(comparison))]
    parts += [Text(f"! {note}", style="yellow") for note in comparison.notes]
    print_blocks(blocks(comparison), parts)


def _sides(comparison: Comparison) -> str:
    base, new = (", ".join(plain(label) for label in side) for side in (comparison.base, comparison.new))
    return f"base {base} ({comparison.devices[0] or '-'})\nnew  {new} ({comparison.devices[1] or '-'})"


def render_markdown(comparison: Comparison) -> str:
    """The comparison as GitHub Markdown."""
    return as_markdown(
        f"tracekit compare: {headline(comparison)}",
        [*_sides(comparison).splitlines(), *comparison.notes],
        blocks(comparison),
        "Times are a step. Intervals are 95 %, over steps; kernels are `sure` by Holm at 5 %.",
    )


def render_html(comparison: Comparison) -> str:
    """The comparison as one HTML file without scripts."""
    return as_page(
        f"tracekit compare: {headline(comparison)}",
        [*_sides(comparison).splitlines(), *comparison.notes],
        blocks(comparison),
        [picture] if (picture := movement(comparison)) is not None else [],
    )


def write_comparison(comparison: Comparison, folder: Path, formats: Iterable[str]) -> None:
    """Write the files of a comparison.

    Args:
        comparison: The comparison.
        folder: Where to write; made where there is none.
        formats: html, md, json, parquet.

    Raises:
        CaptureError: The folder cannot be written to.
    """
    write_documents(folder, {_NAMES[word]: _content(comparison, word) for word in formats}, "comparison")


def _content(comparison: Comparison, word: str) -> bytes:
    if word == "html":
        return render_html(comparison).encode()
    if word == "md":
        return render_markdown(comparison).encode()
    if word == "json":
        return (json.dumps(msgspec.to_builtins(comparison), indent=2, allow_nan=False) + "\n").encode()
    frame = pd.json_normalize([msgspec.to_builtins(row) for row in comparison.kernels], sep="_")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content
