"""Kernels joined to their launches: many kernels to one launch, and kernels without any."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.intervals import Ints, in_order
from tracekit.tables import Kind
from tracekit.tables.calls import GRAPH_LAUNCH, LAUNCH
from tracekit.tables.text import category, distinct, is_word, matches, numbered


def launching_calls(device_events: pd.DataFrame, runtime_calls: pd.DataFrame) -> Ints:
    """The row of the runtime call that launched each device event, by correlation id; -1 where none was recorded.

    Of several calls of one id it is the first that launches anything. Id 0 is how some recorders say "none", so it
    joins nothing.
    """
    given = runtime_calls["correlation"].to_numpy(dtype=np.int64, na_value=0)
    rows = np.flatnonzero(given > 0)
    other = ~matches(runtime_calls["name"], LAUNCH)[rows]
    starts = runtime_calls["ts_ns"].to_numpy(dtype=np.int64)[rows]
    rows = rows[in_order(given[rows], other.astype(np.int64), starts)]
    # A last one that no event asks for stands for all ids beyond the known ones.
    rows, ids = np.append(rows, -1), np.append(given[rows], np.iinfo(np.int64).max)
    asked = device_events["correlation"].to_numpy(dtype=np.int64, na_value=0)
    at = np.searchsorted(ids, asked)
    return np.where(ids[at] == asked, rows[at], -1)


def _filled(
    own: pd.Series, calls: pd.Series, row: Ints, kernel: npt.NDArray[np.bool_]
) -> pd.Series | pd.Categorical:
    """The kernel's own grid or block, else its launch's: older ROCm recorders put them there."""
    if calls.isna().all() or own.notna().all():
        return own
    (texts, number), (others, theirs) = distinct(own), distinct(calls)
    nothing = len(others) - 1
    launch = np.where(kernel & (row >= 0), theirs[row], nothing)
    if (launch == nothing).all():
        return own
    filled = np.where(number < len(texts) - 1, number, launch + len(texts))
    return numbered(filled, [*texts, *others[:-1], None])


def join_launches(device_events: pd.DataFrame, runtime_calls: pd.DataFrame) -> pd.DataFrame:
    """Device events with the columns of their launch; null where no launch was recorded."""
    calls = runtime_calls.reset_index(drop=True)
    row = launching_calls(device_events, calls)
    missing = row < 0
    start, length, thread = (_taken(calls[name], row) for name in ("ts_ns", "dur_ns", "thread"))
    names = category(calls, "name")
    turn = pd.Series(row).groupby(row).cumcount().to_numpy(dtype=np.int64)
    kernel = is_word(device_events, "kind", Kind.KERNEL)
    return device_events.assign(
        grid=_filled(device_events["grid"], calls["grid"], row, kernel),
        block=_filled(device_events["block"], calls["block"], row, kernel),
        launch_ts_ns=pd.arrays.IntegerArray(start, missing),
        launch_end_ns=pd.arrays.IntegerArray(start + length, missing.copy()),
        launch_name=pd.Categorical.from_codes(_taken(names.codes, row, -1), names.categories),
        thread=pd.arrays.IntegerArray(thread.astype(np.int32), missing.copy()),
        from_graph=pd.array(np.append(matches(calls["name"], GRAPH_LAUNCH), np.False_)[row], dtype="boolean"),
        node_order=pd.arrays.IntegerArray(turn, missing.copy()),
    )


def _taken(values: npt.ArrayLike, rows: Ints, otherwise: int = 0) -> Ints:
    """Values at some rows; for row -1 another value."""
    return np.append(np.asarray(values, np.int64), otherwise)[rows]
