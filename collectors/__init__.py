"""Collectors: run a workload under a profiler and write a capture folder.

They run inside an engine's own environment, so they need PyTorch and the standard library alone; of tracekit
they know the capture folder (`tracekit.formats`), the models (`tracekit.models`) and the errors.
"""

import os

# Kineto reads this when torch is first imported; below it, each profiler start writes log lines to stderr.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
