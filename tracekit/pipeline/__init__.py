"""The pipeline: composes the stages, which know each other only by their tables."""

from tracekit.pipeline.analysis import analyze
from tracekit.pipeline.inspection import inspect_captures
from tracekit.pipeline.options import Options

__all__ = ["Options", "analyze", "inspect_captures"]
