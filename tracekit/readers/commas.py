"""CSV files as batches of columns."""

import codecs
import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from tracekit.errors import FormatError
from tracekit.readers.source import Stream

_BATCH = 1 << 14
# A line longer than this is an attack or an accident.
_LONGEST = 1 << 20


@dataclass(slots=True)
class Sheet:
    """A CSV file whose first row names its columns.

    Attributes:
        bad_rows: Rows with more or fewer fields than the first.
    """

    stream: Stream
    bad_rows: int = 0
    header: list[str] = field(default_factory=list)

    def batches(self) -> Iterator[dict[str, list[str]]]:
        """Some thousand rows at a time, as columns by name; `header` is known from the first on.

        Raises:
            FormatError: A field is longer than any field.
            CaptureError: The bytes cannot be read.
        """
        rows = csv.reader(_lines(self.stream))
        try:
            self.header = [name.strip() for name in next(rows, [])]
            while batch := list(islice(rows, _BATCH)):
                good = [row for row in batch if len(row) == len(self.header)]
                self.bad_rows += sum(bool(row) for row in batch) - len(good)
                if good:
                    yield dict(zip(self.header, map(list, zip(*good, strict=True)), strict=True))
        except csv.Error as error:
            raise FormatError(
                self.stream.label, f"is not valid CSV: {error}", hint="the file is damaged; write it again"
            ) from error


def first_row(head: bytes) -> list[str]:
    """The names in the first row of a CSV file."""
    line = head.split(b"\n", 1)[0][:_LONGEST].decode("utf-8", errors="replace")
    return [name.strip().strip('"') for name in line.split(",")]


def _lines(stream: Stream) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    rest = ""
    while block := stream.read():
        lines = (rest + decoder.decode(block)).split("\n")
        rest = lines.pop()
        for line in lines:
            yield line + "\n"
        if len(rest) > _LONGEST:
            raise csv.Error("a line is too long")  # the caller names the file
    if rest:
        yield rest
