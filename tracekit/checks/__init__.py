"""Checks: times that cannot be are mended or kept out, and what a capture lacks is said before any number."""

from tracekit.checks.capture import check_capture
from tracekit.checks.steps import check_steps
from tracekit.checks.times import sane_times

__all__ = ["check_capture", "check_steps", "sane_times"]
