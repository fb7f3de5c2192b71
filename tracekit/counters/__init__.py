"""Hardware counters joined to the kernels of a trace: bytes and operations from the one, times from the other."""

from tracekit.counters.derive import derive
from tracekit.counters.join import Joined, join_counters, without_counters
from tracekit.counters.names import canonical_name
from tracekit.counters.totals import totals_note

__all__ = ["Joined", "canonical_name", "derive", "join_counters", "totals_note", "without_counters"]
