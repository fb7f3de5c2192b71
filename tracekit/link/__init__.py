"""Link: kernel to launch by correlation, launch to the op around it, op to its parent."""

from tracekit.link.borrow import Borrowed, borrow_signatures
from tracekit.link.stage import is_cpu_only, link

__all__ = ["Borrowed", "borrow_signatures", "is_cpu_only", "link"]
