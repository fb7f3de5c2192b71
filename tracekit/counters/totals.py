"""Counters of a capture without kernels to join them to: their sums, so that they are not lost."""

import numpy as np

from tracekit.counters.derive import derive
from tracekit.tables import Counters, QualityNote
from tracekit.units import si

_SHOWN = (
    ("fp32_flops", "FLOP in fp32"),
    ("fp64_flops", "FLOP in fp64"),
    ("fp16_flops", "FLOP in fp16"),
    ("tensor_flops", "FLOP on the tensor units"),
    ("dram_bytes", "B of DRAM traffic"),
)


def totals_note(counters: Counters) -> QualityNote:
    """What the launches of a file sum up to."""
    launched = derive(counters)
    sums = []
    for key, unit in _SHOWN:
        known = launched[key].to_numpy(dtype=np.float64)
        if not np.isnan(known).all():
            sums.append(f"{si(float(np.nansum(known)), unit)}")
    listed = ", ".join(sums) or "nothing that a formula uses"
    count = len(launched)
    return QualityNote("counters_total", count, f"counters of {count} launches, in all: {listed}")
