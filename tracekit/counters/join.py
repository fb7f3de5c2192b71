"""Fills the measured columns of the kernels table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.counters.derive import MEASURED, ORDER, derive
from tracekit.counters.match import LEVELS, SAID, Level, Matched, match
from tracekit.counters.totals import totals_note
from tracekit.tables import Counters, HwStatus, Kind, QualityNote
from tracekit.tables.text import is_word

Floats = npt.NDArray[np.float64]

# Internal columns, and the quantity that each is.
EXTRA = {
    "hw_sm_pct": "sm_pct",
    "hw_mem_pct": "mem_pct",
    "hw_dram_pct": "dram_pct",
    "hw_l2_pct": "l2_pct",
    "hw_l1_pct": "l1_pct",
    "hw_tensor_pct": "tensor_pct",
    "hw_waves": "waves",
    "hw_l2_bytes": "l2_bytes",
    "hw_l2_hit_pct": "l2_hit_pct",
    "hw_occupancy_pct": "occupancy_pct",
    "hw_sm_clock": "sm_clock",
    "hw_passes": "passes",
}
_VALUES = ["dram_bytes", "vector_flops", "tensor_flops", "tensor_open", *EXTRA.values()]
_STATUSES = ["dram_status", "flops_status"]
_VECTOR = "vector"


@dataclass(frozen=True, slots=True)
class Joined:
    """Kernels with what counters say of them, and how they were found."""

    kernels: pd.DataFrame
    notes: tuple[QualityNote, ...] = ()


def without_counters(kernels: pd.DataFrame, status: HwStatus = HwStatus.NOT_COLLECTED) -> pd.DataFrame:
    """The kernels as they are where nothing was measured, and said so."""
    codes = np.full(len(kernels), list(HwStatus).index(status))
    words = pd.Categorical.from_codes(codes, pd.Index([str(word) for word in HwStatus]))
    return kernels.assign(flops_hw=np.nan, dram_bytes_hw=np.nan, hw_status=words)


def join_counters(
    kernels: pd.DataFrame,
    counters: Sequence[Counters],
    steps: pd.DataFrame,
    extra: tuple[Path, ...] = (),
    *,
    otherwise: HwStatus = HwStatus.NOT_COLLECTED,
) -> Joined:
    """Give each kernel the counters of its launches.

    Times are never taken from counters. Where several files measured the same thing, the first that has it counts.

    Args:
        kernels: Kernels of one capture in order of start, with phase, work and `peak`.
        counters: The counters of each file.
        steps: STEPS of the same capture.
        extra: Folders of the user's own rows.
        otherwise: Status where there are no counters at all.

    Returns:
        The kernels with `flops_hw` [FLOP], `dram_bytes_hw` [byte], `hw_status`, and the internal columns of EXTRA and
        `hw_level`; and notes on how they were joined, and what was not.
    """
    rows = np.flatnonzero(is_word(kernels, "kind", Kind.KERNEL))
    if not counters or not len(rows):
        return Joined(without_counters(kernels, otherwise), tuple(totals_note(one) for one in counters))
    out = without_counters(kernels)
    status = np.zeros(len(out), dtype=np.int8)
    level = np.full(len(out), -1, dtype=np.int8)
    notes: list[QualityNote] = []
    annotations = steps.set_index("step_id")["annotation"]
    part = out.iloc[rows].reset_index(drop=True)
    for one in counters:
        launched = derive(one, extra)
        found = match(part, one.launches, annotations, launched[["grid_size", "block_size"]])
        values = _spread(found, launched, len(part))
        values["flops"], alone = _flops(values, part)
        out, status = _merged(out, status, rows, values)
        level[rows] = np.where(level[rows] < 0, found.level, level[rows])
        notes += _notes(found, one, launched, part, alone)
    codes = [list(HwStatus).index(word) for word in ORDER]
    words = pd.Index([str(word) for word in HwStatus], dtype=object)
    return Joined(
        out.assign(
            hw_status=pd.Categorical.from_codes(np.array(codes)[status], words),
            hw_level=pd.Categorical.from_codes(level, pd.Index([str(one) for one in LEVELS], dtype=object)),
        ),
        tuple(notes),
    )


def _spread(found: Matched, launched: pd.DataFrame, count: int) -> pd.DataFrame:
    """The values of each kernel's launches; the mean where it has several."""
    wanted = launched[[*_VALUES, *_STATUSES]].astype("float64")
    out = pd.DataFrame(np.nan, index=range(count), columns=wanted.columns)
    pairs = wanted.iloc[found.launch].reset_index(drop=True)
    means = _means(pairs, found.kernel)
    out.loc[means.index] = means
    by_key = _means(wanted, found.keys.launches)
    shared = np.flatnonzero(found.level == LEVELS.index(Level.MEAN))
    out.iloc[shared] = by_key.reindex(found.keys.kernels[shared]).to_numpy()
    return out


def _means(values: pd.DataFrame, key: npt.NDArray[np.int64]) -> pd.DataFrame:
    """Means of what is known by key; of statuses and doubts the largest."""
    groups = values.groupby(key)
    worst = [*_STATUSES, "tensor_open"]
    return groups.mean().assign(**{name: groups[name].max() for name in worst})[list(values)]


def _flops(values: pd.DataFrame, kernels: pd.DataFrame) -> tuple[Floats, int]:
    """Operations of all units, and of how many kernels they are the matrix operations alone.

    Null where the tensor pipe may have run unseen: its share would be missing from the sum. A kernel whose work is
    known to be on the vector units needs no word on the tensor pipe.
    """
    tensor = values["tensor_flops"].to_numpy(dtype=np.float64)
    vector = values["vector_flops"].to_numpy(dtype=np.float64)
    is_open = values["tensor_open"].to_numpy(dtype=np.float64) > 0
    peak = kernels["peak"].astype(object).to_numpy() if "peak" in kernels else np.full(len(kernels), None)
    tensor = np.where(is_open, np.where(peak == _VECTOR, 0.0, np.nan), tensor)
    alone = (tensor > 0) & np.isnan(vector)
    return np.where(alone, tensor, tensor + vector), int(alone.sum())


def _merged(
    out: pd.DataFrame, status: npt.NDArray[np.int8], rows: npt.NDArray[np.int64], values: pd.DataFrame
) -> tuple[pd.DataFrame, npt.NDArray[np.int8]]:
    """The columns with what one file adds where nothing was known, and the status that says most."""
    columns = {"dram_bytes_hw": "dram_bytes", "flops_hw": "flops", **EXTRA}
    filled = {}
    for name, quantity in columns.items():
        known = out[name].to_numpy(dtype=np.float64) if name in out else np.full(len(out), np.nan)
        known = known.copy()
        known[rows] = np.where(
            np.isnan(known[rows]), values[quantity].to_numpy(dtype=np.float64), known[rows]
        )
        filled[name] = known
    said = values[_STATUSES].max(axis=1).fillna(0).to_numpy(dtype=np.int8)
    # What was measured but could not be made sense of is not measured for the reader.
    said = np.where(said == MEASURED, 0, said)
    status = status.copy()
    status[rows] = np.maximum(status[rows], said)
    measured = ~np.isnan(filled["dram_bytes_hw"]) | ~np.isnan(filled["flops_hw"])
    return out.assign(**filled), np.where(measured, MEASURED, status).astype(np.int8)


def _notes(
    found: Matched, one: Counters, launched: pd.DataFrame, kernels: pd.DataFrame, alone: int
) -> Iterator[QualityNote]:
    for code, level in enumerate(LEVELS):
        count = int((found.level == code).sum())
        if count:
            time = int(kernels["dur_ns"].to_numpy()[found.level == code].sum())
            name = "counters_joined" if level is not Level.MEAN else "counters_mean"
            yield QualityNote(name, count, f"counters of kernels joined by: {SAID[level]}", time)
    lost = int((found.level < 0).sum())
    if lost:
        time = int(kernels["dur_ns"].to_numpy()[found.level < 0].sum())
        message = "kernels have no counters: no launch of the same name and grid was measured"
        yield QualityNote("counters_missing", lost, message, time)
    unused = int((~np.isin(found.keys.launches, found.keys.kernels) | (found.keys.launches < 0)).sum())
    if unused:
        message = "measured launches are of no kernel of the trace (other name or grid): another run, warm-up or autotuning"
        yield QualityNote("counters_unused", unused, message)
    yield from _doubts(found, one, launched, alone)


def _doubts(found: Matched, one: Counters, launched: pd.DataFrame, alone: int) -> Iterator[QualityNote]:
    if found.keys.ambiguous:
        message = "measured launches are named without template arguments and several kernels answer to it: profile with --kernel-name-base demangled"
        yield QualityNote("counters_ambiguous", found.keys.ambiguous, message)
    if found.keys.by_size:
        message = (
            "the counters have no grid columns: grids were compared by their number of blocks and threads"
        )
        yield QualityNote("counters_by_size", len(one.launches), message)
    if found.keys.by_name:
        message = (
            "neither side has grids to compare: counters were joined by name, where the name has one grid"
        )
        yield QualityNote("counters_by_name", len(one.launches), message)
    if alone:
        message = "flops_hw of kernels counts matrix operations alone: vector operations were not collected"
        yield QualityNote("counters_matrix_only", alone, message)
    packed = int((launched["packed_fp32_flops"] > 0).sum())
    if packed:
        message = "launches ran packed FP32 instructions whose multiply-adds cannot be told apart: their flops_hw is a lower bound"
        yield QualityNote("counters_packed", packed, message)
    replayed = int(((launched["passes"] > 1) & launched["dram_bytes"].notna()).sum())
    if replayed:
        message = "DRAM bytes of launches that were replayed in several passes: with --cache-control none they are too small, with all they include what a warm L2 would have held"
        yield QualityNote("counters_replayed", replayed, message)
