"""The one place that prints. On a terminal Rich draws; into a pipe goes plain text of a fixed width.

`NO_COLOR` and `TERM=dumb` are honoured by Rich itself.
"""

import json
import sys
from typing import Any, TextIO

from rich.console import Console

PLAIN_WIDTH = 80
"""Columns of text that goes into a pipe or a file."""
_WIDEST = 120


def console(stream: TextIO | None = None) -> Console:
    """A console on `stream`, by default standard output; text is never read as markup."""
    out = sys.stdout if stream is None else stream
    made = Console(file=out, highlight=False, markup=False, emoji=False)
    if made.is_terminal:
        made.width = min(made.width, _WIDEST)
        return made
    return Console(
        file=out,
        width=PLAIN_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
        color_system=None,
        force_terminal=False,
    )


def write(text: str, stream: TextIO | None = None) -> None:
    """Write a text and a newline to `stream`, by default standard output, as it is."""
    out = sys.stdout if stream is None else stream
    encoding = out.encoding or "utf-8"
    out.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def emit_json(document: Any) -> None:
    """Write a document as JSON to standard output; a number that JSON has no word for is an error, not `NaN`."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n")
