"""What a capture lacks or inflates, before any number is made of it."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd

from tracekit.tables import Capture, CaptureInfo, Kind, Linked, QualityNote
from tracekit.tables.calls import GRAPH_LAUNCH, KERNEL_LAUNCH
from tracekit.tables.columns import until_next
from tracekit.tables.text import is_word, matches

# Fewer kernels than this share of the launches means that the launches were captured, not run.
CAPTURED = 0.1
FEW_LAUNCHES = 50
# Clocks of host and device agree to about a microsecond.
CLOCK_GRAIN = 1_000
_SLOW_OPTIONS = {"with_stack": "Python stacks", "record_shapes": "shapes", "profile_memory": "memory"}

Check = Callable[[Capture, Linked], Iterator[QualityNote]]


def check_capture(capture: Capture, linked: Linked) -> list[QualityNote]:
    """Notes of every check, in the order in which a reader should hear them."""
    checks: tuple[Check, ...] = (
        _graph_records_lost,
        _capture_trace,
        _backwards,
        _stream_overlap,
        _recorder_overhead,
    )
    return [note for check in checks for note in check(capture, linked)]


def _calls(capture: Capture, pattern: str) -> int:
    return int(matches(capture.runtime_calls["name"], pattern).sum())


def _device_work(linked: Linked, *names: str) -> pd.DataFrame:
    return linked.kernels.loc[~is_word(linked.kernels, "kind", Kind.CPU_OP), [*names]]


def _graph_records_lost(capture: Capture, linked: Linked) -> Iterator[QualityNote]:
    replays = _calls(capture, GRAPH_LAUNCH)
    if replays and not linked.kernels["from_graph"].any():
        yield QualityNote(
            "graph_records_lost",
            replays,
            "graphs were replayed and none of their kernels recorded: steps that replay graphs have no numbers; record with a newer profiler or without graphs",
        )


def _capture_trace(capture: Capture, linked: Linked) -> Iterator[QualityNote]:
    launches = _calls(capture, KERNEL_LAUNCH) - _calls(capture, GRAPH_LAUNCH)
    if (
        launches >= FEW_LAUNCHES
        and 0 < is_word(linked.kernels, "kind", Kind.KERNEL).sum() < CAPTURED * launches
    ):
        yield QualityNote(
            "capture_trace",
            launches,
            "most launches here made no kernel: this records a graph's capture, not a workload; give it as --donor beside the trace of the replay",
        )


def _backwards(_capture: Capture, linked: Linked) -> Iterator[QualityNote]:
    rows = _device_work(linked, "ts_ns", "dur_ns", "launch_ts_ns")
    early = (rows["ts_ns"] + CLOCK_GRAIN < rows["launch_ts_ns"]).fillna(value=False)
    if early.any():
        yield QualityNote(
            "kernel_before_launch",
            int(early.sum()),
            "device events start before their launch: host and device clocks disagree, so launch latencies are not to be trusted",
            int(rows.loc[early, "dur_ns"].sum()),
        )


def _stream_overlap(_capture: Capture, linked: Linked) -> Iterator[QualityNote]:
    rows = _device_work(linked, "device", "stream", "ts_ns", "dur_ns")
    room = until_next(rows, ("device", "stream"), otherwise=np.iinfo(np.int64).max)
    over = rows["dur_ns"].to_numpy(dtype=np.int64) - room
    if (over > 0).any():
        yield QualityNote(
            "stream_overlap",
            int((over > 0).sum()),
            "kernels overlap on one stream (programmatic dependent launch, or wrong records): busy time is their union",
            int(over[over > 0].sum()),
        )


def _recorder_overhead(capture: Capture, _linked: Linked) -> Iterator[QualityNote]:
    on = [text for option, text in _SLOW_OPTIONS.items() if option in capture.info.options]
    if on:
        yield QualityNote(
            "recorder_overhead",
            len(on),
            f"the recorder took {', '.join(on)}: host time, and with it gaps and host-bound steps, is inflated",
        )


def check_ranks(captures: Sequence[CaptureInfo]) -> list[QualityNote]:
    """Which ranks of the job are missing from a set of captures, as far as they say how many there are."""
    known = {info.rank for info in captures if info.rank is not None}
    world = max((info.world_size or 0 for info in captures), default=0)
    missing = sorted(set(range(world)) - known)
    # A rank that the job's size has no room for contradicts that size, which then tells nothing.
    if not missing or max(known, default=world) >= world:
        return []
    listed = ", ".join(str(rank) for rank in sorted(known))
    message = f"of {world} ranks only {listed} {'is' if len(known) == 1 else 'are'} here: the time that collectives wait for the others cannot be told apart"
    return [QualityNote("ranks_missing", len(missing), message)]
