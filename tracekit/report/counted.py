"""What hardware counters measured, beside what the model says is the least.

A factor is taken over the kernels that have both figures: a sum of measured bytes over a sum of modelled ones that
belong to other kernels would say nothing.
"""

import numpy as np
import pandas as pd

from tracekit.report.accounting import ratio, shares
from tracekit.report.contract import CountersRow
from tracekit.tables import HwStatus
from tracekit.tables.columns import column

SUMS = ("counted_ns", "least_bytes", "moved_bytes", "model_flops", "ran_flops", "l2_asked", "l2_found")
"""Columns of `with_counted`, each of which can be summed over kernels."""


def has_counters(rows: pd.DataFrame) -> bool:
    """Whether any kernel has counters, or was to have them."""
    return bool((rows["hw_status"] != HwStatus.NOT_COLLECTED).any())


def with_counted(rows: pd.DataFrame) -> pd.DataFrame:
    """The kernels with what is summed to compare measured with modelled figures.

    Args:
        rows: Kernels with own_ns, and the internal columns `hw_l2_hit_pct` and `hw_l2_bytes` where they were measured.

    Returns:
        The same with counted_ns: exclusive time of kernels with counters [ns]; least_bytes and moved_bytes: modelled
        and measured DRAM bytes of the kernels that have both [byte]; model_flops and ran_flops likewise [FLOP];
        l2_asked: bytes of L2 traffic whose hit rate is known, l2_found: what of it was found there [byte]. NaN where
        unknown. Without any counters the columns are not made.
    """
    if not has_counters(rows):
        return rows
    least, moved = _both(rows, "dram_bytes", "dram_bytes_hw")
    model, ran = _both(rows, "flops", "flops_hw")
    hits, asked = _both(rows, "hw_l2_hit_pct", "hw_l2_bytes")
    measured = (rows["hw_status"] == HwStatus.MEASURED).to_numpy(dtype=bool)
    return rows.assign(
        counted_ns=np.where(measured, column(rows, "own_ns"), 0.0),
        least_bytes=least,
        moved_bytes=moved,
        model_flops=model,
        ran_flops=ran,
        l2_asked=asked,
        l2_found=hits / 100 * asked,
    )


def _both(rows: pd.DataFrame, one: str, other: str) -> tuple[np.ndarray, np.ndarray]:
    """Two columns where both are known, NaN elsewhere."""
    first, second = column(rows, one), column(rows, other)
    known = ~np.isnan(first) & ~np.isnan(second)
    return np.where(known, first, np.nan), np.where(known, second, np.nan)


def with_factors(groups: pd.DataFrame) -> pd.DataFrame:
    """Sums over kernels with `over_least`, `over_flops` and `l2_hit`, NaN where unknown; nothing without counters."""
    if "counted_ns" not in groups:
        return groups
    return groups.assign(
        over_least=_quotient(groups["moved_bytes"], groups["least_bytes"]),
        over_flops=_quotient(groups["ran_flops"], groups["model_flops"]),
        l2_hit=_quotient(groups["l2_found"], groups["l2_asked"]),
    )


def _quotient(over: pd.Series, under: pd.Series) -> pd.Series:
    return over / under.where(under > 0)


def counters_row(part: pd.DataFrame) -> CountersRow | None:
    """What counters say of the kernels of one phase, as `with_counted` gives them; None where there are none."""
    if "counted_ns" not in part or not has_counters(part):
        return None
    sums = {name: float(part[name].sum(min_count=1)) for name in SUMS}
    joined: dict[str, float] = {}
    if "hw_level" in part:
        has_level = part["hw_level"].notna().to_numpy(dtype=bool)
        joined = shares(part["hw_level"][has_level], part["own_ns"][has_level])
    return CountersRow(
        time_share=ratio(sums["counted_ns"], float(part["own_ns"].sum())) or 0.0,
        least_bytes=_or_none(sums["least_bytes"]),
        moved_bytes=_or_none(sums["moved_bytes"]),
        dram_over_least=ratio(sums["moved_bytes"], sums["least_bytes"]),
        flops_over_model=ratio(sums["ran_flops"], sums["model_flops"]),
        l2_hit=ratio(sums["l2_found"], sums["l2_asked"]),
        status=shares(part["hw_status"], part["own_ns"]),
        joined=joined,
    )


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
