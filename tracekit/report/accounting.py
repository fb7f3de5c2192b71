"""Whose time is it: each instant of a device is given to one kernel, and sums over kernels are sums of time."""

import numpy as np
import pandas as pd

from tracekit.classify import own_time
from tracekit.roofline.apply import compute_ns
from tracekit.tables.ceilings import Ceilings
from tracekit.tables.columns import column
from tracekit.tables.text import distinct

NS = 1e9


def accounted(kernels: pd.DataFrame, ceilings: Ceilings) -> pd.DataFrame:
    """The kernels with the figures that every sum of a report is made from.

    Args:
        kernels: KERNELS with the internal columns `peak`, `weight_bytes`, `kv_bytes` where known.
        ceilings: Those of the device.

    Returns:
        A frame in the same order, with text columns as in the input, and:
        own_ns: exclusive time [ns]: an overlap between streams of a device is given to the kernel that started
            first; on rows of kind cpu_op the self time as it is.
        known_ns: the same among the kernels whose FLOPs and bytes are both known, 0 for the others [ns].
        known_dur_ns: dur_ns of those, 0 for the others [ns].
        known_flops, known_bytes, known_traffic: work of those [FLOP, byte, byte]; traffic is measured bytes
            where there are any, else modelled ones.
        compute_ns: least time of known_flops at the compute roof [ns]; NaN where the roof is unknown.
        compute_measured_ns, compute_spec_ns: the same at the roofs of one kind, where both kinds are known.
    """
    flops, moved, measured = (column(kernels, name) for name in ("flops", "dram_bytes", "dram_bytes_hw"))
    known = ~np.isnan(flops) & ~np.isnan(moved)
    out = kernels.copy(deep=False)
    out["own_ns"] = own_time(kernels).astype(np.int64)
    out["known_ns"] = own_time(kernels, known).astype(np.int64)
    out["known_dur_ns"] = np.where(known, column(kernels, "dur_ns"), 0.0)
    out["known_flops"] = np.where(known, flops, np.nan)
    out["known_bytes"] = np.where(known, moved, np.nan)
    out["known_traffic"] = np.where(known, np.where(np.isnan(measured), moved, measured), np.nan)
    out["compute_ns"] = np.where(known, compute_ns(kernels, ceilings), np.nan)
    kinds = ceilings.kinds()
    for kind in kinds if len(kinds) > 1 else ():
        least = compute_ns(kernels, ceilings.of_kind(kind))
        out[f"compute_{kind}_ns"] = np.where(known, least, np.nan)
    return out


def ratio(over: float, under: float) -> float | None:
    """A quotient, or None where either side is unknown or the divisor is not positive."""
    if np.isnan(over) or np.isnan(under) or under <= 0:
        return None
    return float(over / under)


def total(values: pd.Series) -> float:
    """The sum of what is known; NaN where nothing is."""
    return float(values.sum(min_count=1))


def shares(words: pd.Series, times: pd.Series, none: str = "none") -> dict[str, float]:
    """Share of the time by word, largest first; nulls count under `none`, words without time are left out."""
    found, back = distinct(words, none)
    sums = np.bincount(back, np.nan_to_num(times.to_numpy(dtype=np.float64, na_value=np.nan)), len(found))
    whole = float(sums[sums > 0].sum())
    ranked = sorted((-value, word) for value, word in zip(sums, found, strict=True) if value > 0)
    return {str(word): float(-value) / whole for value, word in ranked}
