"""Titled tables of text, which the terminal, Markdown and HTML show alike: for answers that are not a report."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jinja2 import Environment
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tracekit.report.console import console, write
from tracekit.report.markdown import escape
from tracekit.units import plain

_PIPE_WIDTH = 160
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title }}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#1b1f24;background:#fff}
.wide{overflow-x:auto;margin:.5rem 0 1.5rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #d8dee4;vertical-align:top}
td:first-child{overflow-wrap:anywhere}
figure{margin:.5rem 0 1.5rem}
svg{max-width:100%;height:auto}
svg text{fill:currentColor;font-size:12px}
@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#30363d}}
</style></head><body>
<h1>{{ heading }}</h1>
{% for line in lines %}<p>{{ line }}</p>{% endfor %}
{% for block in blocks if block.rows %}<h2>{{ block.title }}</h2>
<div class="wide" tabindex="0" role="region" aria-label="{{ block.title }}"><table><thead><tr>{% for cell in block.head %}<th scope="col">{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in block.rows %}{% set at = loop.index0 %}<tr>{% for cell in row %}<td{% if block.shade and block.shade[at][loop.index0] is not none %} style="background:rgba(9,105,218,{{ "%.2f"|format(0.6 * block.shade[at][loop.index0]) }})"{% endif %}>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</tbody></table></div>
{% endfor %}{% for picture in pictures %}<h2>{{ picture.title }}</h2>
<figure>{{ picture.svg|safe }}<figcaption>{{ picture.reading }}</figcaption></figure>
{% endfor %}</body></html>
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A titled table.

    Attributes:
        title: What it shows.
        head: Column titles.
        rows: Cells.
        shade: How dark each cell of a heat map is, 0 to 1, None for none; empty for a plain table.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    shade: tuple[tuple[float | None, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing of a page.

    Attributes:
        title: What it shows.
        svg: An SVG element that holds no text but what `markupsafe` escaped.
        reading: How to read it, in a sentence.
    """

    title: str
    svg: str
    reading: str


def print_blocks(
    found: Iterable[Block],
    before: Iterable[RenderableType] = (),
    after: Iterable[RenderableType] = (),
    *,
    wide: bool = True,
) -> None:
    """Print tables between lines.

    Args:
        found: The tables; those without rows are left out.
        before: What stands above them.
        after: What stands below them.
        wide: Into a pipe tables keep their width: a name cut short cannot be searched for.
    """
    out = console()
    parts = [*before, *(as_table(block) for block in found if block.rows), *after]
    if out.is_terminal:
        out.print(Group(*parts))
        return
    if wide:
        out.width = _PIPE_WIDTH
    with out.capture() as held:
        out.print(Group(*parts))
    write("\n".join(line.rstrip() for line in held.get().splitlines()))


def as_table(block: Block) -> Table:
    """A block for a terminal."""
    made = Table(box=box.SIMPLE_HEAD, title=block.title, title_justify="left", title_style="bold")
    for cell in block.head:
        made.add_column(cell, overflow="fold")
    for row in block.rows:
        made.add_row(*(Text(plain(cell)) for cell in row))
    return made


def as_markdown(heading: str, lines: Sequence[str], blocks: Iterable[Block], last: str = "") -> str:
    """A heading, a list of lines, and tables, as GitHub Markdown."""
    out = [f"## {escape(heading)}", "", *(f"- {escape(line)}" for line in lines)]
    for block in blocks:
        out += _markdown_table(block)
    return "\n".join([*out, *(["", last] if last else [])]) + "\n"


def _markdown_table(block: Block) -> Iterator[str]:
    if block.rows:
        rule = ["---"] * len(block.head)
        yield from ("", f"### {escape(block.title)}", "")
        for row in (block.head, rule, *block.rows):
            yield f"| {' | '.join(cell if row is rule else escape(cell) for cell in row)} |"


def as_page(
    heading: str, lines: Sequence[str], blocks: Iterable[Block], pictures: Sequence[Picture] = ()
) -> str:
    """The same as one HTML file without scripts, with drawings below the tables."""
    page = Environment(autoescape=True).from_string(_PAGE)
    shown = [
        Block(
            plain(block.title),
            block.head,
            tuple(tuple(plain(cell) for cell in row) for row in block.rows),
            block.shade,
        )
        for block in blocks
    ]
    return page.render(
        title=plain(heading),
        heading=plain(heading),
        lines=[plain(line) for line in lines],
        blocks=shown,
        pictures=pictures,
    )
