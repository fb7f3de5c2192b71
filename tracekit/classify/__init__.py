"""What limits each kernel, why a device is idle, and what could be won."""

from tracekit.classify.bottleneck import classify

__all__ = ["classify"]
