"""tracekit: what limits each kernel of an LLM inference run, how it is known, and what could be won.

    import tracekit

    result = tracekit.analyze(["trace.json.gz"])
    result.kernels      # a pandas DataFrame, as are .steps, .gaps and .quality
    result.summary      # what `tracekit report --json` prints

    capture = tracekit.read("trace.json.gz")    # the tables of one capture, before any analysis

Names are imported when first used, so that `import tracekit` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracekit.pipeline import Options, analyze
    from tracekit.readers import read, read_all
    from tracekit.report.result import Result

_HOMES = {
    "Options": "tracekit.pipeline",
    "Result": "tracekit.report.result",
    "analyze": "tracekit.pipeline",
    "read": "tracekit.readers",
    "read_all": "tracekit.readers",
}

__all__ = ["Options", "Result", "analyze", "read", "read_all"]


def __getattr__(name: str) -> Any:
    """Import a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tracekit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
