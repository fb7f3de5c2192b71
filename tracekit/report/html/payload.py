"""The kernel table of the page as compact JSON: groups by name and phase, each with its shapes."""

import json
import math
from typing import Any

import pandas as pd

from tracekit.report.groups import BY_NAME, BY_SHAPE, grouped
from tracekit.report.result import Result
from tracekit.units import plain

MAX_ROWS = 1000
"""Rows of the table; groups of less time are counted below it and are all in kernels.parquet."""
_SHAPES_EACH = 5
_NAME_BUDGET = 400_000
"""Characters of names in full; beyond, a name is cut in its middle."""
_CUT_NAME = 200
_FIELDS = {
    "family": "family",
    "phase": "phase",
    "bottleneck": "class",
    "bottleneck_confidence": "confidence",
    "bottleneck_evidence": "evidence",
    "phase_evidence": "phaseEvidence",
    "own_ns": "ns",
    "share": "share",
    "count": "count",
    "flops_per_s": "flops",
    "dram_bytes_per_s": "bytes",
    "arithmetic_intensity": "intensity",
    "excess_ns": "excess",
    "flops_source": "source",
    "op": "op",
    "dtype": "dtype",
    "block": "block",
    "flags": "flags",
}
_SHAPE_FIELDS = {
    "grid": "grid",
    "own_ns": "ns",
    "count": "count",
    "flops_per_s": "flops",
    "dram_bytes_per_s": "bytes",
    "arithmetic_intensity": "intensity",
}


def kernel_table(result: Result) -> dict[str, Any]:
    """Rows for the page, most time first, and what was left out."""
    groups = grouped(result.rows, result.ceilings, BY_NAME)
    top = groups.head(MAX_ROWS)
    shapes = _shapes(result, top)
    rows = [
        {
            "id": number,
            "roof": _plain(row["roof"]),
            **{short: _plain(row[name]) for name, short in _FIELDS.items() if name in row},
            "shapes": shapes.get((row["name"], row["phase"]), []),
        }
        for number, row in enumerate(
            top.assign(roof=top[["s_compute", "s_dram"]].max(axis=1)).to_dict("records")
        )
    ]
    left = 0
    for row, name in zip(rows, top["name"].astype(str), strict=True):
        shown = plain(name, None if left < _NAME_BUDGET else _CUT_NAME)
        shown = shown if len(shown) <= _NAME_BUDGET - left else plain(name, _CUT_NAME)
        row["name"] = shown
        left += len(shown)
    rest = groups.iloc[MAX_ROWS:]
    return {"rows": rows, "left_out": len(rest), "left_out_share": float(rest["share"].sum())}


def _shapes(result: Result, top: pd.DataFrame) -> dict[tuple[Any, Any], list[dict[str, Any]]]:
    """The shapes of most time of each group that has several."""
    groups = grouped(result.rows, result.ceilings, BY_SHAPE)
    key = pd.MultiIndex.from_frame(groups[["name", "phase"]].astype(object))
    groups = groups[key.isin(pd.MultiIndex.from_frame(top[["name", "phase"]].astype(object)))]
    by = groups.groupby(["name", "phase"], observed=True, sort=False)
    groups = groups[(by["own_ns"].transform("size") > 1) & (by.cumcount() < _SHAPES_EACH)]
    out: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for row in groups.assign(roof=groups[["s_compute", "s_dram"]].max(axis=1)).to_dict("records"):
        shape = {short: _plain(row[name]) for name, short in _SHAPE_FIELDS.items()}
        out.setdefault((row["name"], row["phase"]), []).append({**shape, "roof": _plain(row["roof"])})
    return out


def _plain(value: Any) -> Any:
    """A value as JSON has it: no NaN, four significant digits, text without controls."""
    if value is None or value is pd.NA:
        return None
    if isinstance(value, float):
        return None if not math.isfinite(value) else float(f"{value:.4g}")
    return value if isinstance(value, int) else plain(str(value))


def script_json(document: Any) -> str:
    """JSON that can stand in a script element: nothing in it can end the element or start a comment."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
