"""The text that ncu prints, sorted into its tables, its own messages, and the output of the profiled program."""

import codecs
import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tracekit.ncu.messages import NOISE
from tracekit.readers.source import Stream

_FIRST = "ID"
NAME = "Kernel Name"
_LONG_FORM = {"Metric Name", "Metric Unit", "Metric Value"}
_MOST_MESSAGES = 1000
_MOST_ROWS = 1_000_000
_LONGEST = 1 << 24


@dataclass(slots=True)
class Page:
    """One table as printed: its header, its units row where it has one, and its rows."""

    header: list[str]
    units: list[str] | None = None
    rows: list[list[str]] = field(default_factory=list)

    @property
    def is_details(self) -> bool:
        """A row a metric, not a row a launch."""
        return set(self.header) >= _LONG_FORM


@dataclass(slots=True)
class Output:
    """Everything that was printed.

    Attributes:
        pages: The tables.
        messages: ncu's own lines and what else was printed, the first thousand.
        bad_rows: Rows of a table that have more or fewer fields than its header.
        cut: Rows that are too many to be read.
    """

    pages: list[Page] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    bad_rows: int = 0
    cut: int = 0


def read_output(stream: Stream) -> Output:
    """Sort the lines of a stream.

    Raises:
        CaptureError: The bytes cannot be read.
    """
    out = Output()
    total = 0
    for line in _lines(stream):
        if NOISE.match(line) or not line.strip():
            _say(out, line)
            continue
        fields = _fields(line)
        if fields is None:
            out.bad_rows += bool(out.pages)
        elif fields[0] == _FIRST and NAME in fields:
            out.pages.append(Page(fields))
        elif not out.pages or not (fields[0].isdecimal() or _is_units(out.pages[-1], fields)):
            _say(out, line)
        elif total >= _MOST_ROWS:
            out.cut += 1
        else:
            total += _take(out, out.pages[-1], fields)
    return out


def _say(out: Output, line: str) -> None:
    if line.strip() and len(out.messages) < _MOST_MESSAGES:
        out.messages.append(line[:2000])


def _is_units(page: Page, fields: list[str]) -> bool:
    """The row below the header of a raw page: nothing under `ID`, and as wide as the header."""
    return (
        page.units is None
        and not page.rows
        and not page.is_details
        and not fields[0]
        and len(fields) == len(page.header)
    )


def _take(out: Output, page: Page, fields: list[str]) -> int:
    width = len(page.header)
    if not fields[0]:
        page.units = fields
        return 0
    # Rows of metrics end where rows of rules go on.
    if len(fields) < width and page.is_details:
        fields += [""] * (width - len(fields))
    if len(fields) != width:
        out.bad_rows += 1
        return 0
    page.rows.append(fields)
    return 1


def _fields(line: str) -> list[str] | None:
    """The fields of a line; None where it is no CSV, such as a line cut in two."""
    if len(line) > _LONGEST:
        return None
    try:
        rows = list(csv.reader([line], strict=line.startswith('"')))
    except csv.Error:
        return None
    return rows[0] if rows and rows[0] else None


def _lines(stream: Stream) -> Iterator[str]:
    """Lines of UTF-8 text, whatever ends them; bytes that are not UTF-8 become the replacement mark."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    rest = ""
    for text in _blocks(stream, decoder):
        rest += text
        if len(rest) > _LONGEST and "\n" not in text:
            # No table has such a line: let it go rather than keep gathering it.
            rest = rest[:_LONGEST]
            continue
        *whole, rest = rest.split("\n")
        yield from (line.rstrip("\r") for line in whole)
    if rest:
        yield rest.rstrip("\r")


def _blocks(stream: Stream, decoder: codecs.IncrementalDecoder) -> Iterable[str]:
    while block := stream.read():
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)
