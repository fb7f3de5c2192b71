"""Reports: one analysis as a summary, a terminal screen, HTML, Markdown, JSON and Parquet."""

from tracekit.report.contract import SCHEMA_VERSION, CaptureUsed, DeviceUsed, Summary
from tracekit.report.result import Result

__all__ = ["SCHEMA_VERSION", "CaptureUsed", "DeviceUsed", "Result", "Summary"]
