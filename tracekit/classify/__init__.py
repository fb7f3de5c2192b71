"""What limits each kernel, why a device is idle, and what could be won."""

from tracekit.classify.bottleneck import classify
from tracekit.classify.case import Finding, own_time
from tracekit.classify.collectives import peer_waits
from tracekit.classify.findings import find_findings
from tracekit.classify.gaps import find_gaps
from tracekit.classify.launches import first_kernels, launch_delays, queue_depth
from tracekit.classify.recorder import Recorder, recorder
from tracekit.classify.waterfall import waterfall

__all__ = [
    "Finding",
    "Recorder",
    "classify",
    "find_findings",
    "find_gaps",
    "first_kernels",
    "launch_delays",
    "own_time",
    "peer_waits",
    "queue_depth",
    "recorder",
    "waterfall",
]
