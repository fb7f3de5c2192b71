"""Device times that cannot be: overflows, clusters at zero, records that overrun their successor."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.tables import Capture, QualityNote
from tracekit.tables.columns import until_next

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

SECOND = 1_000_000_000
# No kernel runs for an hour, and no recording of kernels spans two: what says so is an overflow or a lost clock.
LONGEST = 3600 * SECOND
FARTHEST = 3600 * SECOND
# A record overruns its successor on the stream by programmatic dependent launch too, but by microseconds.
OVERRUN = 1_000_000
# How much longer than the median of all a record must be, to be suspected on its length.
OUTLIER = 100
SUSPECT = 10_000


def sane_times(capture: Capture) -> Capture:
    """The capture with impossible device times mended or kept out, each kind counted in its notes.

    Kept out: durations of an hour and more (`absurd_duration`), events at a zero clock (`ts_zero`), events more
    than an hour from the median (`outside_window`). Clipped at the successor's start: records that overrun it by
    more than a millisecond and are over 100 times the median (`overrun`). Kept and counted: records of a second and
    more that are over 10,000 times the median (`suspect_duration`).
    """
    events = capture.device_events
    if events.empty:
        return capture
    notes: list[QualityNote] = []
    events = _drop(
        events,
        _absurd(events),
        notes,
        "absurd_duration",
        "device events of an hour and more are overflows; kept out",
    )
    events = _drop(
        events,
        _at_zero(events),
        notes,
        "ts_zero",
        "device events at the clock's zero lost their time; kept out",
    )
    events = _drop(
        events, _far(events), notes, "outside_window", "device events far outside the recording were kept out"
    )
    events = _clip(events, notes)
    _suspect(events, notes)
    if not notes:
        return capture
    return replace(capture, device_events=events, quality=(*capture.quality, *notes))


def _column(events: pd.DataFrame, name: str) -> Ints:
    return events[name].to_numpy(dtype=np.int64)


def _drop(
    events: pd.DataFrame, bad: Bools, notes: list[QualityNote], code: str, message: str
) -> pd.DataFrame:
    if not bad.any():
        return events
    notes.append(QualityNote(code, int(bad.sum()), message))
    return events[~bad].reset_index(drop=True)


def _absurd(events: pd.DataFrame) -> Bools:
    return _column(events, "dur_ns") >= LONGEST


def _at_zero(events: pd.DataFrame) -> Bools:
    """Two and more events at the same first instant, a second and more before the next."""
    starts = _column(events, "ts_ns")
    if not len(starts):
        return np.zeros(0, np.bool_)
    first = starts.min()
    at_first = starts == first
    later = starts[~at_first]
    lost = at_first.sum() > 1 and len(later) > 0 and later.min() - first > SECOND
    return at_first if lost else np.zeros(len(starts), np.bool_)


def _far(events: pd.DataFrame) -> Bools:
    starts = _column(events, "ts_ns")
    return np.abs(starts - np.int64(np.median(starts))) > FARTHEST if len(starts) else np.zeros(0, np.bool_)


def _clip(events: pd.DataFrame, notes: list[QualityNote]) -> pd.DataFrame:
    lengths = _column(events, "dur_ns")
    if len(lengths) < 2:  # noqa: PLR2004 - an overrun takes two
        return events
    room = _room(events)
    over = (lengths - room > OVERRUN) & (lengths > OUTLIER * np.median(lengths))
    if not over.any():
        return events
    lost = int((lengths - room)[over].sum())
    notes.append(
        QualityNote(
            "overrun",
            int(over.sum()),
            "device events that overran their successor on the stream were cut at its start",
            lost,
        )
    )
    return events.assign(dur_ns=np.where(over, room, lengths))


def _room(events: pd.DataFrame) -> Ints:
    """Time from each event's start to the next one's on its device and stream."""
    return until_next(events, ("device", "stream"), otherwise=LONGEST)


def _suspect(events: pd.DataFrame, notes: list[QualityNote]) -> None:
    lengths = _column(events, "dur_ns")
    odd = (
        (lengths >= SECOND) & (lengths > SUSPECT * np.median(lengths))
        if len(lengths)
        else np.zeros(0, np.bool_)
    )
    if odd.any():
        notes.append(
            QualityNote(
                "suspect_duration",
                int(odd.sum()),
                "device events of a second and more among microseconds: look at them before you believe a sum",
                int(lengths[odd].sum()),
            )
        )
