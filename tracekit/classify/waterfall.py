"""From the time that a phase took down to the speed of light: what each part of the difference is."""

import numpy as np
import pandas as pd

from tracekit.classify.case import exposed_ns, own_time
from tracekit.classify.signals import Bools, Objects
from tracekit.tables.columns import column
from tracekit.tables.text import is_word, words
from tracekit.tables.words import Bottleneck

PARTS = ("idle", "communication", "copy", "overlapped", "unmodelled", "excess", "roof")
"""Parts, from the outside in; `detail` is the cause of an idle part, the family of a kernel part."""


def waterfall(kernels: pd.DataFrame, steps: pd.DataFrame, gaps: pd.DataFrame) -> pd.DataFrame:
    """Where the time of each phase goes; the parts of a phase add up to its kernels' exclusive time and idle time.

    Args:
        kernels: Classified kernels.
        steps: STEPS.
        gaps: GAPS.

    Returns:
        One row a phase, part and detail, in the order of `PARTS` and then of time: `phase`, `part`, `detail`,
        `time_ns`. idle: gaps, by cause. communication and copy: exposed, with nothing else running. overlapped:
        transfers behind which something else ran. unmodelled: kernels without a bound, by family. excess: kernel
        time over the bound, by family. roof: the bound itself.
    """
    phase = words(kernels, "phase")
    own = pd.Series(own_time(kernels), index=kernels.index)
    parts = [_idle(steps, gaps)]
    for one in dict.fromkeys(phase):
        inside = np.asarray(phase == one, dtype=bool)
        parts.append(_transfers(kernels, own, inside, str(one)))
        parts.append(_kernels(kernels[inside], own[inside], str(one)))
    out = pd.concat([part for part in parts if not part.empty] or [_rows("", "", [], [])], ignore_index=True)
    out = out[out["time_ns"] > 0]
    order = out["part"].map({part: number for number, part in enumerate(PARTS)})
    return out.assign(_order=order).sort_values(
        ["phase", "_order", "time_ns"], ascending=[True, True, False], kind="stable", ignore_index=True
    )[["phase", "part", "detail", "time_ns"]]


def _rows(phase: object, part: object, detail: object, time: object) -> pd.DataFrame:
    return pd.DataFrame({"phase": phase, "part": part, "detail": detail, "time_ns": time})


def _idle(steps: pd.DataFrame, gaps: pd.DataFrame) -> pd.DataFrame:
    phases = dict(zip(steps["step_id"], words(steps, "phase"), strict=True))
    frame = _rows(gaps["step_id"].map(phases), "idle", words(gaps, "cause"), column(gaps, "dur_ns"))
    return frame.groupby(["phase", "part", "detail"])["time_ns"].sum().reset_index()


def _is_transfer(rows: pd.DataFrame) -> Bools:
    return is_word(rows, "bottleneck", Bottleneck.COMMUNICATION, Bottleneck.COPY)


def _transfers(kernels: pd.DataFrame, own: pd.Series, inside: Bools, phase: str) -> pd.DataFrame:
    """Exposed communication and copies, and what of their exclusive time something else ran behind."""
    details, parts, times = [], [], []
    open_total = 0.0
    for word in (Bottleneck.COMMUNICATION.value, Bottleneck.COPY.value):
        chosen = is_word(kernels, "bottleneck", word) & inside
        spent = float(own[chosen].sum())
        alone = min(spent, exposed_ns(kernels, chosen)) if chosen.any() else 0.0
        open_total += alone
        parts.append(word)
        times.append(alone)
        details.append("exposed")
    hidden = float(own[_is_transfer(kernels) & inside].sum()) - open_total
    return _rows(phase, [*parts, "overlapped"], [*details, "transfers"], [*times, hidden])


def _kernels(rows: pd.DataFrame, own: pd.Series, phase: str) -> pd.DataFrame:
    """Kernels other than transfers: over the bound, the bound, and those without one."""
    keep = ~_is_transfer(rows)
    time, bound = column(own[keep].to_frame("own"), "own"), column(rows[keep], "bound_ns")
    family: Objects = words(rows[keep], "family")
    at_roof = np.fmin(time, bound)
    known = ~np.isnan(bound)
    frames = [
        _rows(phase, "unmodelled", family[~known], time[~known]),
        _rows(phase, "excess", family[known], (time - at_roof)[known]),
        _rows(phase, "roof", "bound", at_roof[known]),
    ]
    both = pd.concat(frames, ignore_index=True)
    return both.groupby(["phase", "part", "detail"])["time_ns"].sum().reset_index()
