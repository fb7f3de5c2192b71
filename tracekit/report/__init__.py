"""Reports: one analysis as a summary, a terminal screen, HTML, Markdown, JSON and Parquet."""

from tracekit.report.contract import SCHEMA_VERSION, CaptureUsed, DeviceUsed, Summary
from tracekit.report.files import FORMATS, parse_formats, write_report
from tracekit.report.result import Result
from tracekit.report.terminal import print_summary

__all__ = [
    "FORMATS",
    "SCHEMA_VERSION",
    "CaptureUsed",
    "DeviceUsed",
    "Result",
    "Summary",
    "parse_formats",
    "print_summary",
    "write_report",
]
