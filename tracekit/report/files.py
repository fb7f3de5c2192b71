"""The files of a report, each written whole or not at all."""

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tracekit.errors import CaptureError, UsageError
from tracekit.report.markdown import render_markdown
from tracekit.report.result import Result
from tracekit.report.whole import write_whole
from tracekit.tables import PUBLIC

FORMATS = ("html", "md", "json", "parquet")


def parse_formats(text: str, known: Sequence[str] = FORMATS) -> tuple[str, ...]:
    """The formats of a `--format` option, in the order in which they are known.

    Raises:
        UsageError: A word is not a format.
    """
    asked = {word.strip() for word in text.split(",") if word.strip()}
    if odd := sorted(asked - set(known)) or (["(nothing)"] if not asked else []):
        raise UsageError(f"--format: {odd[0]} is not a format", hint=f"one or more of {','.join(known)}")
    return tuple(word for word in known if word in asked)


def write_report(
    result: Result, folder: Path, formats: Iterable[str] = FORMATS, *, images: bool = False
) -> list[Path]:
    """Write the files of a report into a folder, which is made where there is none.

    Args:
        result: The analysis.
        folder: Where to write.
        formats: Any of `FORMATS`.
        images: Whether to write the roofline as a picture too, which report.md then shows.

    Returns:
        The files written, in order.

    Raises:
        CaptureError: The folder cannot be written to.
    """
    wanted = [name for chosen in formats for name in _FILES[chosen]]
    pictures = _pictures(result) if images else {}
    wanted += pictures
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Encoding Parquet runs outside the interpreter: beside the texts it takes next to no time.
        with ThreadPoolExecutor(1) as pool:
            tables = {name: pool.submit(result.parquet, _TABLES[name]) for name in wanted if name in _TABLES}
            for name in wanted:
                content = tables[name].result() if name in tables else pictures.get(name)
                others = [other for other in wanted if other != name]
                write_whole(folder / name, content or _text(result, name, others).encode())
    except OSError as error:
        raise CaptureError(
            str(folder),
            f"cannot write the report: {error.strerror or error}",
            hint="choose another folder with -o",
        ) from error
    return [folder / name for name in wanted]


_TABLES = {f"{table.name}.parquet": table for table in PUBLIC}
_FILES = {"html": ["report.html"], "md": ["report.md"], "json": ["summary.json"], "parquet": [*_TABLES]}


def _pictures(result: Result) -> dict[str, bytes]:
    from tracekit.report.html.pictures import roofline_png  # noqa: PLC0415 - as below

    picture = roofline_png(result)
    return {} if picture is None else {"roofline.png": picture}


def _text(result: Result, name: str, beside: list[str]) -> str:
    if name == "report.html":
        from tracekit.report.html import render_html  # noqa: PLC0415 - the charts' bundle takes seconds to load

        return render_html(result)
    if name == "report.md":
        return render_markdown(result, beside)
    return json.dumps(result.summary, indent=2, allow_nan=False) + "\n"
