"""The charts' script, put together from the installed package and kept, for that takes seconds each time."""

import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import vl_convert

from tracekit.report.html.figure import VEGA_LITE
from tracekit.report.whole import write_whole

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


@cache
def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; no text in it can end a script element.

    It is the same for one version of the package, so it is kept in the user's cache folder; where that cannot be
    written to, it is made anew.
    """
    kept = kept_at()
    with suppress(OSError, UnicodeDecodeError):
        if script := kept.read_text(encoding="utf-8"):
            return _harmless(script)
    script = vl_convert.javascript_bundle(_SNIPPET, vl_version=VEGA_LITE)
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, script.encode())
    return _harmless(script)


def kept_at() -> Path:
    """Where the script of the installed version is kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "tracekit"
    return folder / f"vega-{version('vl-convert-python')}-{VEGA_LITE}.js"


def _harmless(script: str) -> str:
    # Inside a script element nothing but these two can change how the page is read.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
