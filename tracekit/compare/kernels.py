"""Kernels of both sides, largest change first."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tracekit.compare.contract import KernelChange, Pair
from tracekit.compare.matching import GROUP, paired
from tracekit.compare.prepare import Prepared
from tracekit.compare.statistics import Floats, holm, measure
from tracekit.compare.steps import Matched

NS = 1e9
_TESTED = 50


def kernel_changes(
    sides: Sequence[Prepared],
    groups: tuple[pd.DataFrame, pd.DataFrame],
    steps: Matched,
    phases: Sequence[str],
) -> list[KernelChange]:
    """One row a matched pair of kernels, largest change of time a step first.

    Args:
        sides: Base and new.
        groups: Their kernel groups with `row` and `how`.
        steps: Their comparable steps, which the statistics rest on.
        phases: The phases to list.
    """
    table = paired(*groups)
    for side, mark in zip(sides, ("_base", "_new"), strict=True):
        units = table["phase"].map({phase: side.units(phase) for phase in phases}).to_numpy(dtype=np.float64)
        table[f"a_step{mark}"] = table[f"time_ns{mark}"].to_numpy(dtype=np.float64) / units
        table[f"launches{mark}"] = table[f"count{mark}"].to_numpy(dtype=np.float64) / units
    table["delta"] = table["a_step_new"] - table["a_step_base"]
    table = table.sort_values("delta", key=np.abs, ascending=False, kind="stable")
    # Statistics are for the largest changes: the number of tests is the number that Holm corrects for.
    tested = list(table.index[:_TESTED])
    adjusted = dict(zip(tested, holm(_p_values(sides, groups, steps, tested)), strict=True))
    return [_row(row, adjusted.get(row["row"])) for row in table.reset_index(names="row").to_dict("records")]


def _p_values(
    sides: Sequence[Prepared],
    groups: tuple[pd.DataFrame, pd.DataFrame],
    steps: Matched,
    tested: Sequence[int],
) -> list[float | None]:
    """Probability of each row's change where nothing changed, from its time in each step."""
    times = [
        _step_times(side.rows, group, matched)
        for side, group, matched in zip(sides, groups, (steps.base, steps.new), strict=True)
    ]
    return [measure(*(side.get(row, []) for side in times)).p for row in tested]


def _step_times(rows: pd.DataFrame, groups: pd.DataFrame, steps: pd.DataFrame) -> dict[int, list[Floats]]:
    """For each row, its time in the comparable steps of each run."""
    numbered = rows.merge(groups[[*GROUP, "row"]], on=GROUP, how="left", validate="m:1")
    wanted = steps[["run", "step_id", "level"]].astype({"step_id": "float64"})
    inside = numbered.merge(wanted, on=["run", "step_id"], how="inner", validate="m:1")
    inside["time"] = inside["time_ns"] / inside["level"]
    sums = inside.groupby(["row", "run", "step_id"], sort=False)["time"].sum().reset_index()
    out: dict[int, list[Floats]] = {}
    for _, part in sums.groupby(["row", "run"], sort=False):
        out.setdefault(int(part["row"].iloc[0]), []).append(part["time"].to_numpy(dtype=np.float64))
    return out


def _row(row: Mapping[Any, Any], adjusted: float | None) -> KernelChange:
    def number(name: str) -> float | None:
        value = row[name]
        return None if not isinstance(value, (int, float)) or np.isnan(value) else float(value)

    def quotient(over: str, under: str, scale: float = 1.0) -> Pair:
        pair = []
        for mark in ("_base", "_new"):
            top, bottom = number(over + mark), number(under + mark)
            pair.append(None if top is None or not bottom else top / bottom * scale)
        return Pair(*pair)

    calls = quotient("time_ns", "count")
    names = [row["names_base"], row["names_new"]]
    return KernelChange(
        phase=str(row["phase"]),
        family=str(row["family"]),
        op=str(row["op"] or ""),
        how=str(row["how"]),
        base_names=[str(name) for name in names[0]] if isinstance(names[0], tuple) else [],
        new_names=[str(name) for name in names[1]] if isinstance(names[1], tuple) else [],
        time_ns=Pair(number("a_step_base"), number("a_step_new")),
        count=Pair(number("launches_base"), number("launches_new")),
        delta_ns=number("delta") or 0.0,
        per_call_ratio=calls.new / calls.base if calls.base and calls.new is not None else None,
        flops_per_s=quotient("flops", "time_ns", NS),
        arithmetic_intensity=quotient("flops", "dram_bytes"),
        roof_share=quotient("bound_ns", "known_ns"),
        bottleneck=[_word(row["bottleneck_base"]), _word(row["bottleneck_new"])],
        p_adjusted=adjusted,
    )


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
