"""Readers: bytes of any capture to tables; one package or file a format, and nothing else knows formats.

Names are imported when first used: a second process that only decodes starts in a third of the time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracekit.readers.reading import read, read_all, read_counters, read_source, read_stream

__all__ = ["read", "read_all", "read_counters", "read_source", "read_stream"]


def __getattr__(name: str) -> Any:
    """Import a public name from its home."""
    if name not in __all__:
        raise AttributeError(f"module 'tracekit.readers' has no attribute {name!r}")
    return getattr(import_module("tracekit.readers.reading"), name)
