"""How far the host runs ahead of the device over time: launches that wait to start."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.report.html.figure import Figure, Spec, chart, ticks, tip
from tracekit.report.launching import queues
from tracekit.report.result import Result
from tracekit.units import percent

_POINTS = 960
"""Of all ranks together: what the chart adds to the page stays some tens of kilobytes."""
_MOST_RANKS = 8


def queue_figures(result: Result) -> Iterator[Figure]:
    """Launches waiting at once over time, a line a rank; nothing where there are no steps or no launches."""
    if result.steps.empty:
        return
    first = int(result.steps["ts_ns"].min())
    last = int((result.steps["ts_ns"] + result.steps["dur_ns"]).max())
    found = [(rank, _within(depth, first, last)) for rank, depth in queues(result.rows)][:_MOST_RANKS]
    if not found:
        return
    values: list[Spec] = []
    for rank, depth in found:
        name = "launches" if pd.isna(rank) else f"rank {int(rank)}"
        starts, most = deepest_in_bins(depth, max(1, _POINTS // len(found)))
        values += [
            {"rank": name, "start": (start - first) / 1e6, "depth": int(deep)}
            for start, deep in zip(starts, most, strict=True)
        ]
    layer: Spec = {
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": "step-after", "clip": True, "strokeWidth": 1.5},
        "encoding": {
            "x": {"field": "start", "type": "quantitative", "axis": ticks("time from the first step [ms]")},
            "y": {"field": "depth", "type": "quantitative", "axis": {"title": "launches waiting", "tickCount": 4, "tickMinStep": 1, "format": "d"}},
            "color": {"field": "rank", "type": "nominal", "legend": {"title": None} if len(found) > 1 else None},
            "tooltip": [tip("rank", "of"), tip("depth", "waiting, at most"), tip("start", "from [ms]", "quantitative", ",.3f")],
        },
    }  # fmt: skip
    reading = _reading([depth for _, depth in found])
    yield Figure(
        "queue", "Launches waiting to start", reading, chart([layer], height=110, description=reading)
    )


def _within(depth: pd.DataFrame, first: int, last: int) -> pd.DataFrame:
    """The depth from `first` to `last` [ns], with a row at each of the two."""
    times = depth["ts_ns"].to_numpy(dtype=np.int64)
    at = np.searchsorted(times, [first, last], side="right")
    ends = [0 if place == 0 else int(depth["depth"].iloc[place - 1]) for place in at]
    inside = depth.iloc[at[0] : np.searchsorted(times, last)]
    return pd.DataFrame(
        {"ts_ns": [first, *inside["ts_ns"], last], "depth": [ends[0], *inside["depth"], ends[1]]}
    )


def deepest_in_bins(depth: pd.DataFrame, bins: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The start of each of so many equal spans of time [ns], and the most that waited in it.

    Args:
        depth: `ts_ns` and `depth` from then on, as `queue_depth` gives them; not empty.
        bins: How many spans.
    """
    times, deep = depth["ts_ns"].to_numpy(dtype=np.int64), depth["depth"].to_numpy(dtype=np.int64)
    edges = np.linspace(float(times[0]), float(max(times[-1], times[0] + 1)), bins + 1)
    before = np.searchsorted(times, edges[:-1], side="right") - 1
    most = np.where(before >= 0, deep[np.maximum(before, 0)], 0)
    inside = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, bins - 1)
    np.maximum.at(most, inside, deep)
    return edges[:-1], most


def _reading(depths: list[pd.DataFrame]) -> str:
    most = max(int(depth["depth"].max()) for depth in depths)
    empty = whole = 0
    for depth in depths:
        spans = np.diff(depth["ts_ns"].to_numpy(dtype=np.int64))
        whole += int(spans.sum())
        empty += int(spans[depth["depth"].to_numpy()[:-1] == 0].sum())
    share = percent(empty / whole) if whole else "-"
    return f"At most {most:,} launches wait at once; for {share} of the time none does: the device has begun all that the host gave it."
