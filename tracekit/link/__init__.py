"""Link: kernel to launch by correlation, launch to the op around it, op to its parent."""

from tracekit.link.stage import link

__all__ = ["link"]
