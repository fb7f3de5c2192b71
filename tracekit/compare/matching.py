"""Which kernels of base became which of new: by name, by name without tile and instance marks, by role."""

import re
from typing import Any

import numpy as np
import pandas as pd

from tracekit.compare.layers import layer_places
from tracekit.compare.sides import Side
from tracekit.compare.statistics import Floats
from tracekit.tables.columns import column
from tracekit.tables.text import mapped

HOW = ("exact", "normalised", "role", "family", "appeared", "disappeared")
"""How a row's two sides belong together: `role` and `family` are kernels replaced by others."""

_ROLE = ["phase", "family", "op", "shape"]
_LEVELS: tuple[tuple[str, list[str]], ...] = (
    ("exact", ["phase", "name"]),
    ("normalised", ["phase", "plain_name"]),
    ("role", _ROLE),
    ("role", ["phase", "family", "op"]),
    ("family", ["phase", "family"]),
)
GROUP = [*_ROLE, "name", "plain_name"]
"""Columns of a group of kernels."""
_OF_BYTES = 1000.0
_MARKS = re.compile(r"0x[0-9a-f]+|\d+")
_SPACES = re.compile(r"\s+")
_SUMS = ["time_ns", "count", "flops", "dram_bytes", "bound_ns", "known_ns"]


def normalised(name: str) -> str:
    """A kernel's name without the numbers of tiles, instances and architectures."""
    return _SPACES.sub(" ", _MARKS.sub("#", name[:4096])).strip()


def kernel_rows(side: Side) -> pd.DataFrame:
    """The kernels of a side with what they are matched by.

    Returns:
        One row a kernel: run, step_id, phase, name, plain_name, family, op (empty where unknown), bottleneck,
        shape (half octave of its FLOPs, else of its bytes), time_ns, count (1), flops, dram_bytes, and bound_ns
        with known_ns, its time where the bound is known; and the columns of `layers.layer_places`.
    """
    kernels = side.kernels()
    texts = ("phase", "name", "family", "bottleneck")
    frame = pd.DataFrame({name: kernels[name].astype(object) for name in texts})
    frame["op"] = kernels["op"].astype(object).where(kernels["op"].notna(), "")
    frame["plain_name"] = mapped(kernels["name"], normalised)
    flops, moved = column(kernels, "flops"), column(kernels, "dram_bytes")
    shape = np.where(flops > 0, _half_octaves(flops), _half_octaves(moved) + _OF_BYTES)
    frame["shape"] = np.nan_to_num(shape, nan=-1.0)
    frame["time_ns"], frame["count"], frame["flops"], frame["dram_bytes"] = (
        column(kernels, "dur_ns"),
        1,
        flops,
        moved,
    )
    frame["bound_ns"] = column(kernels, "bound_ns")
    frame["known_ns"] = frame["time_ns"].where(frame["bound_ns"].notna(), 0.0)
    frame = frame.assign(run=kernels["run"], step_id=column(kernels, "step_id"))
    return frame.join(layer_places(kernels), validate="1:1")


def _half_octaves(values: Floats) -> Floats:
    rough = np.full(len(values), np.nan)
    np.log2(values, out=rough, where=values > 0)
    return np.asarray(np.round(2 * rough), dtype=np.float64)


def kernel_groups(rows: pd.DataFrame) -> pd.DataFrame:
    """Kernels by phase, name and role: sums over all runs, and the bottleneck that holds most of the time."""
    sums = rows.groupby(GROUP, sort=False)[_SUMS].sum(min_count=1).reset_index()
    tops = rows.groupby([*GROUP, "bottleneck"], sort=False)["time_ns"].sum().reset_index()
    tops = tops.sort_values("time_ns", kind="stable").drop_duplicates(GROUP, keep="last")
    return sums.merge(tops[[*GROUP, "bottleneck"]], on=GROUP, how="left", validate="1:1")


def match_kernels(base: pd.DataFrame, new: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Give each group of both sides the row of the comparison that it belongs to.

    Args:
        base: Groups as `kernel_groups` gives them.
        new: The same of the new side.

    Returns:
        Both frames with `row` (the same number on both sides where they belong together) and `how`.
    """
    base, new = (side.assign(row=-1, how="") for side in (base, new))
    rows = 0
    for how, key in _LEVELS:
        left, right = base[base["row"] < 0], new[new["row"] < 0]
        if left.empty or right.empty:
            break
        shared = left[key].drop_duplicates().merge(right[key].drop_duplicates(), on=key, validate="1:1")
        shared = shared.assign(number=np.arange(len(shared)) + rows)
        rows += len(shared)
        base, new = _numbered(base, shared, key, how), _numbered(new, shared, key, how)
    base, rows = _alone(base, rows, "disappeared")
    new, _ = _alone(new, rows, "appeared")
    return base, new


def _numbered(side: pd.DataFrame, shared: pd.DataFrame, key: list[str], how: str) -> pd.DataFrame:
    number = side.merge(shared, on=key, how="left", validate="m:1")["number"].to_numpy(dtype=np.float64)
    here = (side["row"].to_numpy() < 0) & ~np.isnan(number)
    row = np.where(here, np.nan_to_num(number), side["row"]).astype(np.int64)
    return side.assign(row=row, how=np.where(here, how, side["how"]))


def _alone(side: pd.DataFrame, rows: int, how: str) -> tuple[pd.DataFrame, int]:
    """The groups without a partner, one row a phase and name."""
    left = (side["row"] < 0).to_numpy()
    number = side.groupby(["phase", "name"], sort=False).ngroup().to_numpy()
    row = np.where(left, number + rows, side["row"]).astype(np.int64)
    last = int(row.max()) + 1 if len(row) else rows
    return side.assign(row=row, how=np.where(left, how, side["how"])), max(rows, last)


def paired(base: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """One row a pair of matched groups, with the sums of both sides under `_base` and `_new`.

    Args:
        base: Groups with `row` and `how`.
        new: The same of the new side.
    """
    sides = []
    for side, mark in ((base, "_base"), (new, "_new")):
        groups = side.sort_values("time_ns", ascending=False, kind="stable").groupby("row", sort=False)
        first: Any = groups[["phase", "family", "op", "how", "bottleneck"]].first()
        names = groups["name"].agg(_distinct).rename("names")
        sums = groups[_SUMS].sum(min_count=1)
        sides.append(first.join(names, validate="1:1").join(sums, validate="1:1").add_suffix(mark))
    out: pd.DataFrame = sides[0].join(sides[1], how="outer", validate="1:1")
    for name in ("phase", "family", "op", "how"):
        out[name] = out[f"{name}_base"].where(out[f"{name}_base"].notna(), out[f"{name}_new"])
    for name in ("time_ns", "count"):
        for mark in ("_base", "_new"):
            out[name + mark] = out[name + mark].fillna(0.0)
    return out


def _distinct(texts: pd.Series) -> Any:
    """The texts in order, each once, as one value of a column."""
    return tuple(dict.fromkeys(texts))
