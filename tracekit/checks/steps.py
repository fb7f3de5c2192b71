"""What the steps of a capture lack."""

from collections.abc import Iterator

import pandas as pd

from tracekit.tables import LLM_PHASES, Capture, QualityNote


def check_steps(capture: Capture, steps: pd.DataFrame) -> list[QualityNote]:
    """Notes on steps, given the STEPS of a capture."""
    return list(_steps_without_kernels(capture, steps))


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
