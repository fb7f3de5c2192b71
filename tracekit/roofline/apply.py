"""The roofline in its time form: t_i = work_i / roof_i for every resource; the bound is the largest.

Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009, written as times: the gap to the bound is
then in nanoseconds and adds up over kernels, and work without operations needs no special case.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.tables.ceilings import Ceilings
from tracekit.tables.columns import column
from tracekit.tables.text import matches, numbers

Floats = npt.NDArray[np.float64]

_NS = 1e9
_SUMS = ["flops", "dram_bytes", "weight_bytes", "kv_bytes"]
MIN_COVERAGE = 0.5
"""Share of a step's kernel time whose work must be known for its MFU and MBU to be given."""
_TO_HOST_LINK = r"(?i)h(?:ost)?\s*(?:to|->)\s*d(?:ev)?|d(?:evice)?\s*(?:to|->)\s*h(?:ost)?"
_TO_PEER = r"(?i)p(?:eer)?\s*to\s*p(?:eer)?"
_BOUNDS = pd.Index(["compute", "dram", "link"])


def roof_per_kernel(kernels: pd.DataFrame, ceilings: Ceilings) -> Floats:
    """The compute roof of each kernel [FLOP/s] by its `peak` word; NaN where the word or the roof is unknown."""
    return numbers(
        kernels, "peak", {word: roof.used for word, roof in ceilings.peaks.items() if roof.used is not None}
    )


def compute_ns(kernels: pd.DataFrame, ceilings: Ceilings) -> Floats:
    """Least time of each kernel's useful FLOPs at its compute roof [ns]; 0 where it has none."""
    flops = column(kernels, "flops")
    return np.where(flops == 0, 0.0, flops / roof_per_kernel(kernels, ceilings) * _NS)


def link_ns(kernels: pd.DataFrame, ceilings: Ceilings) -> Floats:
    """Least time of each copy over a link [ns]; NaN for what uses no link or whose link is unknown."""
    size = column(kernels, "bytes")
    copies = (kernels["kind"] == "memcpy").to_numpy(dtype=bool)
    host = matches(kernels["name"], _TO_HOST_LINK)
    peer = matches(kernels["name"], _TO_PEER)
    nan = float("nan")
    rate = np.select(
        [copies & host, copies & peer], [ceilings.host_link.used or nan, ceilings.link.used or nan], nan
    )
    return np.asarray(size / rate * _NS, dtype=np.float64)


def apply_roofs(kernels: pd.DataFrame, ceilings: Ceilings) -> pd.DataFrame:
    """Adds rates, bound and excess to each kernel.

    Reads `dur_ns`, `flops`, `dram_bytes`, `peak`, and where present `dram_bytes_hw`, `flops_hw`, `bytes`.

    Adds:
        flops_per_s: flops / dur.
        dram_bytes_per_s: measured bytes where there are any, else modelled ones, over dur.
        arithmetic_intensity: flops / dram_bytes [FLOP/byte].
        bound_ns: max over the roofs that are known, of model work / roof; null where none is.
        bound_by: `compute`, `dram` or `link`: which of them.
        excess_ns: dur - bound; negative where a model or a roof is wrong.
        s_compute, s_dram (internal): shares of the compute and DRAM roofs reached, counters first.
    """
    out = kernels.copy(deep=False)
    dur = column(out, "dur_ns")
    dur = np.where(dur > 0, dur, np.nan)
    flops, moved = column(out, "flops"), column(out, "dram_bytes")
    measured = column(out, "dram_bytes_hw")
    traffic = np.where(np.isnan(measured), moved, measured)
    bandwidth = ceilings.dram.used or float("nan")
    times = np.stack([compute_ns(out, ceilings), moved / bandwidth * _NS, link_ns(out, ceilings)])
    known = ~np.isnan(times)
    # No operations are no bound where the bytes, or their roof, are not known.
    known[0] &= (times[0] > 0) | known[1]
    bound = np.where(known.any(axis=0), np.max(np.where(known, times, -1.0), axis=0, initial=-1.0), np.nan)
    limiter = np.where(bound > 0, np.argmax(np.where(known, times, -1.0), axis=0), -1)
    hw = column(out, "flops_hw")
    operations = np.where(np.isnan(hw), flops, hw)
    roof = roof_per_kernel(out, ceilings)
    out["flops_per_s"] = flops / dur * _NS
    out["dram_bytes_per_s"] = traffic / dur * _NS
    out["arithmetic_intensity"] = np.divide(flops, moved, out=np.full(len(out), np.nan), where=moved > 0)
    out["bound_ns"] = bound
    out["bound_by"] = pd.Categorical.from_codes(limiter, _BOUNDS)
    out["excess_ns"] = column(out, "dur_ns") - bound
    out["s_compute"] = np.where(operations == 0, 0.0, operations / roof) / dur * _NS
    out["s_dram"] = traffic / bandwidth / dur * _NS
    return out


def mfu(kernels: pd.DataFrame, wall_ns: float, ceilings: Ceilings) -> float | None:
    """Model FLOPs utilisation: sum over dtypes of (useful FLOPs / peak), over wall time [1].

    Source: Chowdhery et al., "PaLM", 2022, appendix B, with causal-exact FLOPs and one peak a dtype. A lower
    bound where some kernels' work is unknown; None where no kernel's is known, or no peak that applies is.
    """
    return _share(_working_ns(kernels, ceilings), wall_ns)


def _working_ns(kernels: pd.DataFrame, ceilings: Ceilings) -> Floats:
    """compute_ns of the kernels that do operations: one that does none says nothing of a peak."""
    return np.where(column(kernels, "flops") > 0, compute_ns(kernels, ceilings), np.nan)


def mbu(kernels: pd.DataFrame, wall_ns: float, ceilings: Ceilings) -> float | None:
    """Model bandwidth utilisation: (weight bytes + KV bytes) / (wall time x DRAM bandwidth) [1].

    Source: Databricks, "LLM Inference Performance Engineering", 2023. None where no kernel's weight or KV bytes
    are known or the bandwidth is not.
    """
    bandwidth = ceilings.dram.used or float("nan")
    parts = np.stack([column(kernels, "weight_bytes"), column(kernels, "kv_bytes")])
    total = np.where(np.isnan(parts).all(axis=0), np.nan, np.nansum(parts, axis=0))
    return _share(total / bandwidth * _NS, wall_ns)


def _share(least_ns: Floats, wall_ns: float) -> float | None:
    if np.isnan(least_ns).all() or wall_ns <= 0:
        return None
    return float(np.nansum(least_ns) / wall_ns)


def step_rates(kernels: pd.DataFrame, steps: pd.DataFrame, ceilings: Ceilings) -> pd.DataFrame:
    """Fills flops, dram_bytes, weight_bytes, kv_bytes, mfu and mbu of each step from its kernels.

    Null where no kernel of the step has the figure; a step's sums are lower bounds where some have not. mfu and
    mbu are null where less than `MIN_COVERAGE` of the step's kernel time has known work: a share of a sliver
    would be read as a share of the step. Communication and copies need no work model and do not count here.
    """
    bandwidth = ceilings.dram.used or float("nan")
    frame = pd.DataFrame({name: column(kernels, name) for name in _SUMS})
    frame["compute_ns"] = _working_ns(kernels, ceilings)
    modelled = _is_modelled_kind(kernels)
    dur = np.where(modelled, column(kernels, "dur_ns"), 0.0)
    frame["all_ns"], frame["known_ns"] = dur, np.where(np.isnan(frame["flops"]), 0.0, dur)
    frame["step_id"] = column(kernels, "step_id")
    sums = frame.groupby("step_id").sum(min_count=1).reindex(steps["step_id"].to_numpy(dtype=np.float64))
    wall = column(steps, "dur_ns")
    covered = (sums["known_ns"] >= MIN_COVERAGE * sums["all_ns"]).to_numpy(dtype=bool)
    wall = np.where((wall > 0) & covered, wall, np.nan)
    streamed = sums[["weight_bytes", "kv_bytes"]].sum(axis=1, min_count=1).to_numpy(dtype=np.float64)
    rates = {"mfu": sums["compute_ns"].to_numpy() / wall, "mbu": streamed / bandwidth * _NS / wall}
    return steps.assign(**{name: sums[name].to_numpy() for name in _SUMS}, **rates)


def _is_modelled_kind(kernels: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Kernels and ops other than collectives, copies and fills."""
    kinds = kernels["kind"].isin(["kernel", "cpu_op"]).to_numpy(dtype=bool)
    if "family" not in kernels:
        return np.asarray(kinds, dtype=bool)
    return np.asarray(kinds & ~matches(kernels["family"], "^comm"), dtype=bool)


def unknown_peaks(kernels: pd.DataFrame, ceilings: Ceilings) -> Iterable[str]:
    """Words of `peak` that kernels need and that the ceilings lack, in order of the alphabet."""
    if "peak" not in kernels:
        return ()
    return tuple(
        sorted(word for word in kernels["peak"].dropna().unique() if ceilings.peak(str(word)).used is None)
    )
