"""Every error that tracekit raises on purpose.

TracekitError
├── CaptureError        a capture cannot be found or read
│   └── FormatError     its bytes are not what any reader understands
├── TableError          a table breaks its own contract (a bug, or a broken file of an earlier run)
├── RegistryError       a data row (device, kernel family, engine, model) is malformed
├── UnsupportedError    understood, but not something tracekit does
└── UsageError          the command cannot mean anything (exit code 2)

Each carries `exit_code`, `code` (a stable word for `--json`), and `hint`: the next step for the reader.
"""


class TracekitError(Exception):
    """Base of every deliberate error; its text is one line: what, and where.

    Args:
        message: What went wrong and where, in one line.
        hint: What the reader can do next.
    """

    exit_code = 1
    code = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class CaptureError(TracekitError):
    """A capture cannot be found, opened or read to its end."""

    code = "capture"

    def __init__(self, path: str, reason: str, *, hint: str = "", code: str | None = None) -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.path = path
        self.reason = reason
        if code is not None:
            self.code = code


class FormatError(CaptureError):
    """The bytes are not a capture that any reader understands."""

    code = "format"


class TableError(TracekitError):
    """A table breaks its contract: names the table, the column and the first bad row."""

    code = "table"

    def __init__(self, table: str, column: str, reason: str, *, row: int | None = None) -> None:
        where = "" if row is None else f" (first bad row: {row})"
        super().__init__(f"table {table}, column {column}: {reason}{where}")
        self.table = table
        self.column = column
        self.row = row


class RegistryError(TracekitError):
    """A row of data (device, kernel family, engine, model, counter) is malformed."""

    code = "registry"

    def __init__(self, source: str, row: str, reason: str) -> None:
        super().__init__(f"{source}, row {row}: {reason}", hint="compare with the recipes in CONTRIBUTING.md")
        self.source = source
        self.row = row


class UnsupportedError(TracekitError):
    """Understood, but not something tracekit does."""

    code = "unsupported"


class UsageError(TracekitError):
    """The command line cannot mean anything."""

    exit_code = 2
    code = "usage"
