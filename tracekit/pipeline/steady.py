"""The steady part of a recording: ramp-up and cut-off steps left out, and said so."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.pipeline.stages import Staged
from tracekit.tables import Phase, QualityNote
from tracekit.tables.text import matches

Bools = npt.NDArray[np.bool_]


def steady(stage: Staged) -> Staged:
    """The stage's output without decode steps below the median batch, and without steps that the window cuts."""
    steps = stage.steps
    out = _ramping(steps) | matches(steps["flags"], "partial")
    if not out.any():
        return stage
    dropped = steps.loc[out, "step_id"]
    gone = stage.kernels["step_id"].isin(dropped).to_numpy(dtype=bool)
    time = int(stage.kernels.loc[gone, "dur_ns"].sum())
    note = QualityNote(
        "ramp_up",
        int(out.sum()),
        f"of {len(steps)} steps are below the median batch or cut by the window: left out by --steady",
        time,
    )
    return replace(
        stage,
        kernels=stage.kernels[~gone].reset_index(drop=True),
        steps=steps[~out].reset_index(drop=True),
        gaps=stage.gaps[~stage.gaps["step_id"].isin(dropped)].reset_index(drop=True),
        notes=(*stage.notes, note),
    )


def _ramping(steps: pd.DataFrame) -> Bools:
    decode = matches(steps["phase"], f"^(?:{Phase.DECODE}|{Phase.VERIFY})$")
    batch = steps["generation_requests"].to_numpy(dtype=np.float64, na_value=np.nan)
    known = decode & ~np.isnan(batch)
    middle = np.median(batch[known]) if known.any() else 0.0
    ramping: Bools = known & (batch < middle)
    return ramping
