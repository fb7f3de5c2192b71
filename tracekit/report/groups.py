"""Kernels put together for reading: by name and phase, and by name, phase and shape."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.report.accounting import NS
from tracekit.report.counted import SUMS as COUNTED
from tracekit.report.counted import with_factors
from tracekit.report.roofs import with_roof_shares
from tracekit.tables.ceilings import Ceilings
from tracekit.tables.columns import column, combined
from tracekit.tables.text import category, distinct

BY_NAME = ("name", "phase")
BY_SHAPE = ("name", "phase", "grid", "_octave_flops", "_octave_bytes")
"""Launches of one grid whose work lies within a factor of the square root of two are one shape."""

_SUMS = ("own_ns", "dur_ns", "known_dur_ns")
_KNOWN = (
    "known_flops",
    "known_bytes",
    "known_traffic",
    "compute_ns",
    "compute_measured_ns",
    "compute_spec_ns",
    "excess_ns",
    "dram_bytes_hw",
)
_OF_LONGEST = (
    "family",
    "op",
    "dtype",
    "grid",
    "block",
    "bottleneck",
    "bottleneck_confidence",
    "bottleneck_evidence",
    "phase_evidence",
    "flops_source",
    "dram_bytes_source",
    "peak",
    "flags",
    "hw_status",
    "hw_level",
)


def grouped(rows: pd.DataFrame, ceilings: Ceilings, by: tuple[str, ...] = BY_NAME) -> pd.DataFrame:
    """One row a group of kernels, most exclusive time first.

    Args:
        rows: Kernels as `accounting.accounted` gives them.
        ceilings: Those of the device.
        by: `BY_NAME` or `BY_SHAPE`.

    Returns:
        The columns of `by` that the input has; sums own_ns, dur_ns, known_dur_ns [ns], known work, excess_ns;
        count; share of all exclusive time; rates, intensity and shares of the compute and DRAM roofs, which are
        sums of work over sums of duration of the kernels whose work is known; where there are counters, the sums
        and factors of `counted`; and, from the class that holds most of the group's time, the bottleneck with its
        evidence, as its longest kernel has it.
    """
    kept = [name for name in dict.fromkeys((*by, *_OF_LONGEST)) if name in rows]
    known = [name for name in (*_KNOWN, *COUNTED) if name in rows]
    frame = rows[[*kept, *_SUMS, *(name for name in known if name in rows)]].assign(
        _octave_flops=_half_octaves(rows, "flops"),
        _octave_bytes=_half_octaves(rows, "dram_bytes"),
        excess_ns=column(rows, "excess_ns"),
    )
    # By number: a key with nulls in it (an op has no grid) would not find itself in a join.
    frame["_group"] = combined(*(_numbers(frame, name) for name in by))
    groups = frame.groupby("_group")
    sums = groups[[*_SUMS]].sum().join(groups[known].sum(min_count=1), validate="1:1")
    sums["count"] = groups.size()
    longest = frame.loc[_leaders(frame)].set_index("_group")[kept]
    out = longest.join(sums, validate="1:1")
    whole = float(out["own_ns"].sum())
    out["share"] = out["own_ns"] / whole if whole else 0.0
    return with_factors(with_roof_shares(_with_rates(out, ceilings), ceilings)).sort_values(
        "own_ns", ascending=False, kind="stable", ignore_index=True
    )


def _numbers(frame: pd.DataFrame, name: str) -> npt.NDArray[np.int64]:
    """A number for each value of a column, null being one."""
    if pd.api.types.is_numeric_dtype(frame[name]):
        return pd.factorize(column(frame, name))[0] + 1
    return distinct(frame[name])[1]


def _with_rates(out: pd.DataFrame, ceilings: Ceilings) -> pd.DataFrame:
    time = out["known_dur_ns"].where(out["known_dur_ns"] > 0).astype("float64")
    bandwidth = ceilings.dram.used or float("nan")
    moved = out["known_bytes"].where(out["known_bytes"] > 0)
    return out.assign(
        flops_per_s=out["known_flops"] / time * NS,
        dram_bytes_per_s=out["known_traffic"] / time * NS,
        arithmetic_intensity=out["known_flops"] / moved,
        s_compute=out["compute_ns"] / time,
        s_dram=out["known_traffic"] / bandwidth / time * NS,
    )


def _half_octaves(rows: pd.DataFrame, name: str) -> pd.Series:
    values = column(rows, name)
    rough = np.full(len(values), np.nan)
    np.log2(values, out=rough, where=values > 0)
    return pd.Series(np.round(2 * rough), index=rows.index)


def _leaders(frame: pd.DataFrame) -> pd.Index:
    """The longest kernel of each group, among those of the class that holds most of the group's time."""
    group = frame["_group"].to_numpy(dtype=np.int64)
    kinds = category(frame, "bottleneck")
    pair = group * (len(kinds.categories) + 1) + kinds.codes + 1
    held = np.bincount(pair, column(frame, "own_ns"))[pair]
    order = np.lexsort((-column(frame, "dur_ns"), -held, group))
    first = np.diff(group[order], prepend=-1) != 0
    leaders: pd.Index = frame.index[order[first]]
    return leaders
