"""Communication by rank: what each device's time goes into, and who waits for whom."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from tracekit.classify import peer_waits
from tracekit.report.accounting import ratio
from tracekit.report.html.figure import Figure, Spec, chart, ticks, tip
from tracekit.report.result import Result
from tracekit.tables import Bottleneck
from tracekit.tables.columns import column
from tracekit.units import duration, percent

PARTS = {
    "kernels": ("other kernels", "#0072b2"),
    "copies": ("copies", "#c46c9b"),
    "transfer": ("communication", "#009e73"),
    "waiting": ("communication that waits for peers", "#a08700"),
    "idle": ("idle inside steps", "#777777"),
}
_UNEVEN = 0.05
MAX_RANKS = 64


def ranks(result: Result) -> list[dict[str, Any]]:
    """One row a rank and device, in order: times in ns.

    `time` is exclusive kernel time; `communication` what of it collectives take, `waiting` what of that waits for
    peers (None where ranks cannot be aligned), `share` communication over time; `copies`, and `idle` inside steps.
    """
    rows = result.rows
    if rows.empty:
        return []
    is_comm = (rows["bottleneck"] == Bottleneck.COMMUNICATION).to_numpy(dtype=bool)
    own = column(rows, "own_ns")
    # Of a collective that another kernel overlaps, no more can wait than is its own.
    waits = np.minimum(peer_waits(rows).to_numpy(dtype=np.float64), own)
    frame = pd.DataFrame(
        {
            "rank": rows["rank"],
            "device": rows["device"],
            "time": own,
            "communication": np.where(is_comm, own, 0.0),
            "copies": np.where(rows["bottleneck"] == Bottleneck.COPY, own, 0.0),
            "waiting": np.where(is_comm, waits, np.nan),
        }
    )
    sums = frame.groupby(["rank", "device"], dropna=False).sum(min_count=1)
    idle = result.gaps.groupby(["rank", "device"], dropna=False)["dur_ns"].sum()
    sums["idle"] = idle.reindex(sums.index).fillna(0).to_numpy(dtype=np.float64)
    return [_row(record) for record in sums.reset_index().to_dict("records")]


def _row(record: dict[Any, Any]) -> dict[str, Any]:
    numbers = {name: float(record[name]) for name in ("time", "communication", "copies", "idle")}
    return {
        "rank": "-" if pd.isna(record["rank"]) else str(record["rank"]),
        "device": "host" if pd.isna(record["device"]) else str(record["device"]),
        **numbers,
        "waiting": None if pd.isna(record["waiting"]) else float(record["waiting"]),
        "share": ratio(numbers["communication"], numbers["time"]),
    }


def rank_figures(rows: list[dict[str, Any]]) -> Iterator[Figure]:
    """A bar a rank, where there are several."""
    if len(rows) < 2:  # noqa: PLR2004 - one rank is a sentence
        return
    shown = rows[:MAX_RANKS]
    values = [value for row in shown for value in _values(row)]
    lanes = [_lane(row) for row in shown]
    domain = [text for text, _ in PARTS.values()]
    layer: Spec = {
        "data": {"values": values},
        "mark": {"type": "bar", "height": 18},
        "encoding": {
            "y": {"field": "lane", "type": "nominal", "sort": lanes, "axis": {"title": None}},
            "x": {"field": "ms", "type": "quantitative", "stack": "zero", "axis": ticks("time [ms]")},
            "order": {"field": "order"},
            "color": {
                "field": "part",
                "type": "nominal",
                "scale": {"domain": domain, "range": [colour for _, colour in PARTS.values()]},
                "legend": {"title": None, "labelLimit": 260},
            },
            "tooltip": [tip("lane", "device"), tip("part", "part"), tip("time", "time")],
        },
    }
    reading = _reading(rows)
    yield Figure(
        "ranks",
        "Where each rank's time goes",
        reading,
        chart([layer], height=32 * len(lanes), description=reading),
    )


def _lane(row: dict[str, Any]) -> str:
    rank = "" if row["rank"] == "-" else f"rank {row['rank']} "
    return rank + ("host" if row["device"] == "host" else f"device {row['device']}")


def _values(row: dict[str, Any]) -> Iterator[Spec]:
    waiting = row["waiting"] or 0.0
    parts = {
        "kernels": row["time"] - row["communication"] - row["copies"],
        "copies": row["copies"],
        "transfer": row["communication"] - waiting,
        "waiting": waiting,
        "idle": row["idle"],
    }
    for number, (part, time) in enumerate(parts.items()):
        if time > 0:
            yield {
                "lane": _lane(row),
                "part": PARTS[part][0],
                "order": number,
                "ms": time / 1e6,
                "time": duration(time),
            }


def _reading(rows: list[dict[str, Any]]) -> str:
    """Who communicates most, who is waited for, and how uneven the work is."""
    total, busy = (sum(row[name] for row in rows) for name in ("communication", "time"))
    text = (
        f"Communication holds {percent(ratio(total, busy) or 0.0)} of the kernel time of {len(rows)} devices"
    )
    waited = [row for row in rows if row["waiting"] is not None]
    if waited and total:
        late = min(waited, key=lambda row: row["waiting"])
        text += f", {percent(sum(row['waiting'] for row in waited) / total)} of it waiting for peers"
        if max(row["waiting"] for row in waited) - late["waiting"] > _UNEVEN * total / len(rows):
            text += f"; {_lane(late)} waits least, so it is the one that the others wait for"
    work = [row["time"] - row["communication"] for row in rows]
    if max(work) > 0 and min(work) < (1 - _UNEVEN) * max(work):
        text += f"; other kernels take between {duration(min(work))} and {duration(max(work))}: the work is uneven"
    if len(rows) > MAX_RANKS:
        text += f"; the first {MAX_RANKS} are drawn"
    return f"{text}."
