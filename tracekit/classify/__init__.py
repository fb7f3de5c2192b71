"""What limits each kernel, why a device is idle, and what could be won."""

from tracekit.classify.bottleneck import classify
from tracekit.classify.gaps import find_gaps

__all__ = ["classify", "find_gaps"]
