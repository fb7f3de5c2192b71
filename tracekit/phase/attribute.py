"""Which step launched each kernel: by thread and time of the launch, never by time on the device."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.intervals import Ints
from tracekit.phase.grammar import Reading
from tracekit.phase.hosts import Flags, Spans, locate

Floats = npt.NDArray[np.float64]

HOW = ("inside", "post_step", "other_thread", "stream_order")
POST_STEP_CONFIDENCE = 0.85  # samplers run between two annotations of one engine loop
LONGEST_TAIL = 0.25  # of a step's own time, for a tail of more kernels than the step has
OTHER_THREAD_CONFIDENCE = 0.8  # launched by a worker thread while exactly one step was under way
STREAM_ORDER_CONFIDENCE = 0.8  # no launch record, between two kernels of one step on one stream


@dataclass(frozen=True, slots=True)
class Launches:
    """The launch of each row of the kernels table.

    Attributes:
        thread: Host thread; -1 where there is no launch record.
        time: Start of the launch call, ns.
        known: Whether there is a launch record.
    """

    thread: Ints
    time: Ints
    known: Flags


@dataclass(frozen=True, slots=True)
class Attribution:
    """The step of each row of the kernels table.

    Attributes:
        step: Position of the step; -1 for none.
        how: One of `HOW`, or null.
        before_window: Rows that ran before anything launched in the window did.
    """

    step: Ints
    how: pd.Categorical
    before_window: Flags


def launches(kernels: pd.DataFrame) -> Launches:
    """Thread and time of each row's launch; on a CPU-only capture the op itself is its launch."""
    known = (kernels["launch_ts_ns"].notna() & kernels["thread"].notna()).to_numpy(dtype=bool)
    thread = kernels["thread"].to_numpy(dtype=np.int64, na_value=-1)
    time = kernels["launch_ts_ns"].to_numpy(dtype=np.int64, na_value=0)
    return Launches(np.where(known, thread, -1), time, known)


def device_order(kernels: pd.DataFrame) -> Launches:
    """Stand-ins for launches in a capture without any: the start on the device, and the stream."""
    stream = kernels["stream"].fillna(0).to_numpy(dtype=np.int64)
    return Launches(stream, kernels["ts_ns"].to_numpy(dtype=np.int64), np.ones(len(kernels), dtype=bool))


def attribute(kernels: pd.DataFrame, launched: Launches, steps: Spans) -> Attribution:
    """Give each row of the kernels table its step.

    A launch inside a step is that step's. A launch after a step, before the next on its thread, is the
    earlier step's too (`post_step`), unless that was set-up, or what follows it outweighs it. A launch on a thread that has no steps is
    the step's that alone was under way. A kernel without a launch record is its neighbours' where both
    neighbours on its stream are of one step, since a stream runs in order of launch.
    """
    inside, before = locate(steps, launched.thread, launched.time)
    follows = np.array([not _is_setup(reading) for reading in steps.readings], dtype=bool)
    open_end = follows[steps.reading] if len(steps) else np.zeros(0, dtype=bool)
    step = inside.copy()
    how = np.where(inside >= 0, HOW.index("inside"), -1)
    post = (inside < 0) & (before >= 0)
    post[post] = open_end[before[post]]
    post[post] = _is_tail(kernels["dur_ns"].to_numpy(dtype=np.float64), inside, before, post)[before[post]]
    step[post], how[post] = before[post], HOW.index("post_step")
    elsewhere = launched.known & (step < 0) & ~np.isin(launched.thread, steps.thread)
    alone = _only_step_at(steps, launched.time)
    worker = elsewhere & (alone >= 0)
    step[worker], how[worker] = alone[worker], HOW.index("other_thread")
    early = _before_window(kernels, launched)
    between = _stream_neighbours(kernels, step, ~launched.known & ~early)
    follows_on = between >= 0
    step, how = np.where(follows_on, between, step), np.where(follows_on, HOW.index("stream_order"), how)
    return Attribution(step, pd.Categorical.from_codes(how, pd.Index(HOW, dtype=object)), early)


def _is_tail(time: Floats, inside: Ints, before: Ints, post: Flags) -> Flags:
    """Whether what follows each step can be its tail, such as a sampler, and not steps that nobody annotated."""
    count = int(before.max(initial=-1)) + 1
    own, after = inside[inside >= 0], before[post]
    outnumbered = np.bincount(after, minlength=count) > np.bincount(own, minlength=count)
    spent = np.bincount(own, time[inside >= 0], count)
    outweighed = outnumbered & (np.bincount(after, time[post], count) > LONGEST_TAIL * spent) & (spent > 0)
    return np.asarray(~outweighed, dtype=bool)


def _is_setup(reading: Reading) -> bool:
    return reading.kind in {"setup", "setup_frame"}


def _only_step_at(steps: Spans, times: Ints) -> Ints:
    """The step under way on any thread at each instant, where there is exactly one; else -1."""
    if not len(steps):
        return np.full(len(times), -1, np.int64)
    order = np.argsort(steps.start, kind="stable")
    begun = np.searchsorted(steps.start[order], times, side="right")
    ended = np.searchsorted(np.sort(steps.end), times, side="right")
    last = order[np.maximum(begun - 1, 0)]
    return np.where((begun - ended == 1) & (steps.end[last] > times), last, -1)


def _before_window(kernels: pd.DataFrame, launched: Launches) -> Flags:
    """Kernels without a launch record that started before the first kernel with one."""
    if not launched.known.any():
        return np.zeros(len(kernels), dtype=bool)
    start = kernels["ts_ns"].to_numpy(dtype=np.int64)
    first = int(start[launched.known].min())
    early: Flags = ~launched.known & (start < first)
    return early


def _stream_neighbours(kernels: pd.DataFrame, step: Ints, wanted: Flags) -> Ints:
    """The step of the nearest rows before and after on the same stream, where they agree; else -1."""
    if not wanted.any():
        return np.full(len(step), -1, np.int64)
    lane = pd.MultiIndex.from_frame(kernels[["device", "stream"]]).factorize()[0]
    order = np.lexsort((kernels["ts_ns"].to_numpy(dtype=np.int64), lane))
    known = pd.Series(np.where(step >= 0, step, np.nan)[order]).groupby(lane[order])
    low, high = known.ffill().to_numpy(), known.bfill().to_numpy()
    agreed = np.empty(len(step))
    agreed[order] = np.where(low == high, low, np.nan)
    return np.where(wanted & ~np.isnan(agreed), np.nan_to_num(agreed, nan=-1.0), -1).astype(np.int64)
