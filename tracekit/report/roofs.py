"""Shares of roofs, by kind of roof: of what was measured on the machine, and of the data sheet."""

import numpy as np
import pandas as pd

from tracekit.report.accounting import NS, ratio, total
from tracekit.report.contract import RoofShares
from tracekit.roofline.apply import mbu, mfu
from tracekit.tables.ceilings import KINDS, Ceilings, Kind
from tracekit.tables.columns import column

_LEFT_OUT = 0.01
"""Share of the time at the compute roofs whose type may have no roof of a kind."""


def phase_shares(
    part: pd.DataFrame, used: RoofShares, wall_ns: float, ceilings: Ceilings
) -> dict[Kind, RoofShares]:
    """A phase's shares of the roofs of each kind that is known.

    Args:
        part: Kernels of the phase as `accounting.accounted` gives them.
        used: Shares of the roofs that are used, which are those of the kind where only one is known.
        wall_ns: Wall time of the phase [ns].
        ceilings: Those of the device.
    """
    kinds = ceilings.kinds()
    if len(kinds) < len(KINDS):
        return dict.fromkeys(kinds, used)
    return {kind: _of_kind(part, wall_ns, ceilings, kind) for kind in kinds}


def _of_kind(part: pd.DataFrame, wall_ns: float, ceilings: Ceilings, kind: Kind) -> RoofShares:
    roofs, known = ceilings.of_kind(kind), float(part["known_ns"].sum())
    least = column(part, f"compute_{kind}_ns")
    # A sum over some of the types would be read as one over all of them; a trace of another type changes nothing.
    used = column(part, "compute_ns")
    whole = bool(np.nansum(used[np.isnan(least)]) <= _LEFT_OUT * np.nansum(used))
    bandwidth = roofs.dram.used or float("nan")
    return RoofShares(
        compute=ratio(total(pd.Series(least)), known) if whole else None,
        dram=ratio(total(part["known_traffic"]) / bandwidth * NS, known),
        mfu=mfu(part, wall_ns, roofs) if whole else None,
        mbu=mbu(part, wall_ns, roofs),
    )


def with_roof_shares(groups: pd.DataFrame, ceilings: Ceilings) -> pd.DataFrame:
    """Groups with `roof_share`, `roof_measured` and `roof_spec`: the larger of both shares, by kind of roof.

    Args:
        groups: With s_compute, s_dram, known_flops, known_dur_ns, known_traffic, peak and, where two kinds of roofs
            are known, the sums of compute_measured_ns and compute_spec_ns.
        ceilings: Those of the device.
    """
    out = groups.assign(roof_share=_larger(groups["s_compute"], groups["s_dram"]))
    kinds = ceilings.kinds()
    time = column(groups, "known_dur_ns")
    time = np.where(time > 0, time, np.nan)
    for kind in KINDS:
        if kinds == (kind,):
            out[f"roof_{kind}"] = out["roof_share"]
        elif kind in kinds:
            bandwidth = getattr(ceilings.dram, kind) or np.nan
            dram = column(groups, "known_traffic") / bandwidth / time * NS
            out[f"roof_{kind}"] = _larger(column(groups, f"compute_{kind}_ns") / time, dram)
        else:
            out[f"roof_{kind}"] = np.nan
    return out


def _larger(compute: object, dram: object) -> np.ndarray:
    """The larger share; unknown where no operations are all that is known."""
    both = np.asarray(compute, dtype=np.float64), np.asarray(dram, dtype=np.float64)
    return np.where((both[0] == 0) & np.isnan(both[1]), np.nan, np.fmax(*both))
