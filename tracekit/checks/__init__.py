"""Checks: times that cannot be are mended or kept out, and what a capture lacks is said before any number."""

from tracekit.checks.capture import check_capture, check_ranks
from tracekit.checks.steps import RECORDS_LOST, check_steps, refuse_lost
from tracekit.checks.times import sane_times

__all__ = ["RECORDS_LOST", "check_capture", "check_ranks", "check_steps", "refuse_lost", "sane_times"]
