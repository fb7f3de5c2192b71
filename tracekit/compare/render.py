"""A comparison on a terminal, as Markdown for a pull request, as HTML, and as files."""

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from jinja2 import Environment
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tracekit.compare.contract import Comparison
from tracekit.compare.text import Block, blocks, headline
from tracekit.errors import CaptureError
from tracekit.report.console import console, write
from tracekit.report.markdown import escape
from tracekit.report.whole import write_whole
from tracekit.units import plain

_NAMES = {
    "html": "compare.html",
    "md": "compare.md",
    "json": "compare.json",
    "parquet": "kernel_changes.parquet",
}
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tracekit compare</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#1b1f24;background:#fff}
table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #d8dee4;vertical-align:top;overflow-wrap:anywhere}
@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#30363d}}
</style></head><body>
<h1>{{ headline }}</h1>
<p>Base: {{ base|join(", ") }}<br>New: {{ new|join(", ") }}<br>Devices: {{ devices }}</p>
{% for note in notes %}<p>{{ note }}</p>{% endfor %}
{% for block in blocks if block.rows %}<h2>{{ block.title }}</h2>
<table><thead><tr>{% for cell in block.head %}<th scope="col">{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in block.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</tbody></table>
{% endfor %}</body></html>
"""


def print_comparison(comparison: Comparison) -> None:
    """Print a comparison to standard output."""
    parts: list[RenderableType] = [Text(headline(comparison), style="bold"), Text(_sides(comparison))]
    parts += [Text(f"! {note}", style="yellow") for note in comparison.notes]
    print_blocks(blocks(comparison), parts)


def print_blocks(found: Iterable[Block], before: Iterable[RenderableType] = ()) -> None:
    """Print tables, after lines that introduce them."""
    out = console()
    parts = [*before, *(_table(block) for block in found if block.rows)]
    if out.is_terminal:
        out.print(Group(*parts))
        return
    # Into a pipe the tables keep their width: a name cut short cannot be searched for.
    out.width = 160
    with out.capture() as held:
        out.print(Group(*parts))
    write("\n".join(line.rstrip() for line in held.get().splitlines()))


def _sides(comparison: Comparison) -> str:
    base, new = (", ".join(plain(label) for label in side) for side in (comparison.base, comparison.new))
    return f"base {base} ({comparison.devices[0] or '-'})\nnew  {new} ({comparison.devices[1] or '-'})"


def _table(block: Block) -> Table:
    made = Table(box=box.SIMPLE_HEAD, title=block.title, title_justify="left", title_style="bold")
    for cell in block.head:
        made.add_column(cell, overflow="fold")
    for row in block.rows:
        made.add_row(*(Text(plain(cell)) for cell in row))
    return made


def render_markdown(comparison: Comparison) -> str:
    """The comparison as GitHub Markdown."""
    lines = [
        f"## tracekit compare: {escape(headline(comparison))}",
        "",
        *(f"- {escape(line)}" for line in _sides(comparison).splitlines()),
        *(f"- {escape(note)}" for note in comparison.notes),
    ]
    for block in blocks(comparison):
        if block.rows:
            rule = ["---"] * len(block.head)
            body = [[escape(cell) for cell in row] for row in block.rows]
            lines += [
                "",
                f"### {block.title}",
                "",
                *(f"| {' | '.join(row)} |" for row in (block.head, rule, *body)),
            ]
    lines += ["", "Times are a step. Intervals are 95 %, over steps; kernels are `sure` by Holm at 5 %."]
    return "\n".join(lines) + "\n"


def render_html(comparison: Comparison) -> str:
    """The comparison as one HTML file without scripts."""
    page = Environment(autoescape=True).from_string(_PAGE)
    shown = [
        Block(block.title, block.head, tuple(tuple(plain(cell) for cell in row) for row in block.rows))
        for block in blocks(comparison)
    ]
    return page.render(
        headline=headline(comparison),
        base=[plain(label) for label in comparison.base],
        new=[plain(label) for label in comparison.new],
        devices=" → ".join(device or "-" for device in comparison.devices),
        notes=comparison.notes,
        blocks=shown,
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
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for word in formats:
            write_whole(folder / _NAMES[word], _content(comparison, word))
    except OSError as error:
        raise CaptureError(
            str(folder),
            f"cannot write the comparison: {error.strerror or error}",
            hint="choose another folder with -o",
        ) from error


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
