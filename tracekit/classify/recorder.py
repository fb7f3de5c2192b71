"""How much of the profiled time is the profiler's, where the time of a step without it is given."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit.tables import GapCause
from tracekit.tables.columns import column, lanes
from tracekit.tables.text import is_word

HOST_CAUSES = (GapCause.HOST.value, GapCause.SYNC.value)
"""Causes of idle time that the host's speed decides."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Step times of one phase with and without the profiler; all times of one step [ns].

    Attributes:
        profiled_ns: Median from the start of a step to the start of the next; a lone step's own window.
        unprofiled_ns: The given time without a profiler: TPOT of decode, TTFT of prefill.
        over_ns: What the profiled step takes beyond that; 0 where it takes less.
        host_ns: Idle time of the device before late launches and after synchronisation.
    """

    profiled_ns: float
    unprofiled_ns: float
    over_ns: float
    host_ns: float

    @property
    def of_host_ns(self) -> float:
        """The profiler's part of the host's idle time, as far as the time beyond the given one reaches."""
        return min(self.over_ns, self.host_ns)


def recorder(steps: pd.DataFrame, gaps: pd.DataFrame, unprofiled_ns: float) -> Recorder | None:
    """The profiler's part of the steps of one phase.

    A profiler slows the host and not the kernels, so what a step takes beyond its time without one is looked for
    in the device's waits for the host. A given time that includes more than the step (queueing in a TTFT) makes
    the part too small, never too large.

    Args:
        steps: STEPS of one phase that ran kernels.
        gaps: GAPS.
        unprofiled_ns: Time of a step without a profiler [ns].

    Returns:
        The comparison; None where there are no steps.
    """
    if steps.empty:
        return None
    step = _step_ns(steps)
    inside = gaps["step_id"].isin(steps["step_id"]).to_numpy(dtype=bool)
    host = inside & is_word(gaps, "cause", *HOST_CAUSES)
    idle = float(column(gaps, "dur_ns")[host].sum()) / len(steps)
    return Recorder(step, unprofiled_ns, max(0.0, step - unprofiled_ns), idle)


def _step_ns(steps: pd.DataFrame) -> float:
    """Median time of a step, until the next of its rank begins [ns]."""
    apart = np.concatenate([*_apart(steps)])
    return float(np.median(apart if len(apart) else column(steps, "dur_ns")))


def _apart(steps: pd.DataFrame) -> Iterator[np.ndarray]:
    starts = steps["ts_ns"].to_numpy(dtype=np.int64)
    for rows in lanes(steps, "rank"):
        yield np.diff(np.sort(starts[rows]))
