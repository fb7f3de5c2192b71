"""What the steps of a capture lack."""

from collections.abc import Iterator

import pandas as pd

from tracekit.tables import LLM_PHASES, Capture, GapCause, QualityNote
from tracekit.tables.columns import is_true
from tracekit.tables.text import matches, with_flag

RECORDS_LOST = "graph_records_lost"
"""Flag of a step whose graphs were replayed and whose kernels were not recorded."""


def check_steps(capture: Capture, steps: pd.DataFrame, gaps: pd.DataFrame) -> list[QualityNote]:
    """Notes on steps, given the STEPS and GAPS of a capture."""
    return [*_steps_without_kernels(capture, steps), *_profiler_gaps(gaps)]


def refuse_lost(kernels: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """STEPS without figures where the kernels of a graph replay are missing: flagged, and its rates null.

    What was recorded of such a step is what ran outside the graph: its sums and rates would be of another step.
    """
    replayed = set(kernels.loc[is_true(kernels, "from_graph"), "step_id"].dropna())
    lost = ((steps["n_graph_launches"] > 0) & ~steps["step_id"].isin(replayed)).to_numpy(dtype=bool)
    if not lost.any():
        return steps
    figures = ("flops", "dram_bytes", "weight_bytes", "kv_bytes", "mfu", "mbu")
    empty = {name: steps[name].mask(lost) for name in figures if name in steps}
    return steps.assign(flags=with_flag(steps["flags"], lost, RECORDS_LOST), **empty)


def _profiler_gaps(gaps: pd.DataFrame) -> Iterator[QualityNote]:
    mine = gaps[matches(gaps["cause"], f"^{GapCause.PROFILER}$")]
    if len(mine):
        yield QualityNote(
            "profiler_gaps",
            len(mine),
            "the device waited while the profiler started or flushed its buffers: left out of the host's idle time",
            int(mine["dur_ns"].sum()),
        )


def _steps_without_kernels(capture: Capture, steps: pd.DataFrame) -> Iterator[QualityNote]:
    if capture.device_events.empty:
        return
    working = steps[steps["phase"].isin([str(phase) for phase in LLM_PHASES])]
    bare = (working["n_kernels"] + working["n_post_step_kernels"]) == 0
    if bare.any() and not bare.all():
        yield QualityNote(
            "steps_without_kernels",
            int(bare.sum()),
            f"of {len(working)} steps with tokens have no kernel: device records cover only a part of the window",
        )
