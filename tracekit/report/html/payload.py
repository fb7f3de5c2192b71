"""The kernel table of the page as compact JSON: groups by name and phase, each with its shapes."""

import json
import math
from typing import Any

import pandas as pd

from tracekit.counters.match import SAID
from tracekit.report.result import Result
from tracekit.report.wording import STATUS_SAID, display_name
from tracekit.tables.ceilings import KINDS
from tracekit.units import plain

MAX_ROWS = 1000
"""Rows of the table; groups of less time are counted below it and are all in kernels.parquet."""
_SHAPES_EACH = 5
_NAME_BUDGET = 300_000
"""Characters of names in full; beyond, a name is cut in its middle."""
_CUT_NAME = 200
_SHOWN_NAME = 72
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
_COUNTED = {
    "hw_status": "status",
    "hw_level": "joined",
    "least_bytes": "least",
    "moved_bytes": "moved",
    "over_least": "reread",
    "over_flops": "overFlops",
    "l2_hit": "l2",
}
"""Of tables with counters alone: measured beside modelled."""
_SHAPE_FIELDS = {
    "grid": "grid",
    "own_ns": "ns",
    "count": "count",
    "flops_per_s": "flops",
    "dram_bytes_per_s": "bytes",
    "arithmetic_intensity": "intensity",
    "roof_measured": "measured",
    "roof_spec": "spec",
}


def kernel_table(result: Result) -> dict[str, Any]:
    """Rows for the page, most time first, and what was left out."""
    groups = result.by_name
    top = groups.head(MAX_ROWS)
    shapes = _shapes(result, top)
    counted = "counted_ns" in top
    kept = {name: short for name, short in (_FIELDS | _COUNTED).items() if name in top}
    kept = {name: short for name, short in kept.items() if counted or name not in _COUNTED}
    kinds = [kind for kind in KINDS if top[f"roof_{kind}"].notna().any()]
    kept |= {f"roof_{kind}": kind for kind in kinds}
    shown = top[["name", *kept]]
    if counted:
        shown = shown.assign(counted=top["counted_ns"] / top["own_ns"].where(top["own_ns"] > 0))
    rows = []
    for number, record in enumerate(shown.to_dict("records")):
        key = record.pop("name"), record["phase"]
        fields = {kept.get(str(name), str(name)): _plain(value) for name, value in record.items()}
        rows.append({"id": number, **fields, "shapes": shapes.get(key, [])})
    left = 0
    for row, name in zip(rows, top["name"].astype(str), strict=True):
        text = plain(name, None if left < _NAME_BUDGET else _CUT_NAME)
        text = text if len(text) <= _NAME_BUDGET - left else plain(name, _CUT_NAME)
        row["name"] = text
        # A C++ signature says its function and what it was made for; the whole stands in the row's evidence.
        if (short := display_name(name, _SHOWN_NAME)) != text:
            row["short"] = short
        left += len(text)
    rest = groups.iloc[MAX_ROWS:]
    return {
        "rows": rows,
        "left_out": len(rest),
        "left_out_share": float(rest["share"].sum()),
        "counted": counted,
        "kinds": kinds,
        "shape_fields": list(_SHAPE_FIELDS.values()),
        "statuses": STATUS_SAID,
        "levels": {str(level): text for level, text in SAID.items()},
    }


def _shapes(result: Result, top: pd.DataFrame) -> dict[tuple[Any, Any], list[list[Any]]]:
    """The shapes of most time of each group that has several: values in the order of `_SHAPE_FIELDS`, without names."""
    groups = result.by_shape
    by = groups.groupby(["name", "phase"], observed=True, sort=False)
    several = (by["own_ns"].transform("size") > 1) & (by.cumcount() < _SHAPES_EACH)
    groups = groups.loc[several & groups["name"].isin(top["name"].unique())]
    shown = groups[["name", "phase", *_SHAPE_FIELDS]].rename(columns=_SHAPE_FIELDS)
    out: dict[tuple[Any, Any], list[list[Any]]] = {}
    for row in shown.to_dict("records"):
        key = row.pop("name"), row.pop("phase")
        out.setdefault(key, []).append([_plain(row[name]) for name in _SHAPE_FIELDS.values()])
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
