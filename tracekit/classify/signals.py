"""What the rules look at: each kernel's shares, time, grid and ceilings, as arrays of one length."""

import math
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.tables.calls import DEVICE_COPY
from tracekit.tables.ceilings import Ceilings
from tracekit.tables.columns import column
from tracekit.tables.text import category, matches, valued
from tracekit.tables.words import Bottleneck, Kind

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Objects = npt.NDArray[np.object_]
Positions = npt.NDArray[np.int64]

_TRIPLE = re.compile(r"\s*\[?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]?\s*$")
NUMBER = {word: number for number, word in enumerate(Bottleneck)}
"""The position of each class in the enumeration."""
DEFAULT_CPU_FLOOR_NS = 10_000.0
"""Overhead of a framework op on a CPU where none was measured; 7 to 15 us were seen on server CPUs."""


@dataclass(frozen=True, slots=True)
class Signals:
    """One array entry a kernel; NaN is unknown.

    Attributes:
        kind: Kind of the row.
        family: Kernel family as a text column, null where there is none.
        on_device: A copy that stays on the device, by its name.
        phase: Phase, null where there is none.
        dur: Duration [ns].
        compute: Share of the compute roof reached [1]; of what was published as reachable on this device, where that
            is known and nothing was measured.
        of_roof: Share of the compute roof itself [1].
        dram: Share of the DRAM roof reached [1].
        best: The larger of both.
        is_compute: The compute share is the larger.
        margin: |log2(compute share / DRAM share)|, which is |log2(intensity / ridge)|; inf where one is 0 or unknown.
        intensity: FLOP/byte.
        peak: Word of the compute roof, null where there is none.
        measured: The roof of the larger share was measured, not read from a data sheet.
        ctas: Thread blocks of the grid.
        sms: Streaming multiprocessors of the device.
        floor: Launch floor [ns]; on a CPU the overhead of an op.
        working_set: Bytes that the model says are touched.
        streamed: Of these, weights and KV cache: read once a step, from DRAM.
        l2: L2 size [byte].
        bus: Share of the link's rate that a collective reaches.
        bus_bytes: Bytes that a collective puts on the link.
        dram_hw: The DRAM share comes from counters.
        sm_pct: Counters' SM speed of light [%].
        mem_pct: Counters' memory speed of light [%].
        level_pct: Counters' speed of light by memory level: dram, l2, l1 [%].
        tensor_pct: Counters' tensor pipe use [%].
        waves: Counters' waves per SM.
    """

    kind: pd.Categorical
    family: pd.Series
    on_device: Bools
    phase: pd.Categorical
    dur: Floats
    compute: Floats
    of_roof: Floats
    dram: Floats
    best: Floats
    is_compute: Bools
    margin: Floats
    intensity: Floats
    peak: pd.Categorical
    measured: Bools
    ctas: Floats
    sms: float
    floor: Floats
    working_set: Floats
    streamed: Floats
    l2: float
    bus: Floats
    bus_bytes: Floats
    dram_hw: Bools
    sm_pct: Floats
    mem_pct: Floats
    level_pct: dict[str, Floats]
    tensor_pct: Floats
    waves: Floats

    def side(self, at: Positions) -> Positions:
        """The class of the larger share of some kernels, as a position in the enumeration."""
        return np.where(self.is_compute[at], NUMBER[Bottleneck.COMPUTE], NUMBER[Bottleneck.DRAM])


def blocks(frame: pd.DataFrame, name: str = "grid") -> Floats:
    """The product of `x,y,z` texts; NaN where there is none or where it is not three numbers."""
    if name not in frame:
        return np.full(len(frame), np.nan)
    return valued(frame[name], _blocks)


def _blocks(text: str) -> float:
    found = _TRIPLE.match(text)
    return math.nan if found is None else math.prod(map(float, found.groups()))


def signals(kernels: pd.DataFrame, ceilings: Ceilings) -> Signals:
    """Reads a kernels table that the roofline stage has passed."""
    kind, peak = category(kernels, "kind"), category(kernels, "peak")
    of_roof, dram = column(kernels, "s_compute"), column(kernels, "s_dram")
    compute = of_roof / _reach(peak, ceilings)
    side = np.where(np.isnan(compute), -1.0, compute) > np.where(np.isnan(dram), -1.0, dram)
    known = [word for word, roof in ceilings.peaks.items() if roof.is_measured]
    cpu = kind == Kind.CPU_OP
    gpu_floor = np.nan if ceilings.launch_floor_ns is None else ceilings.launch_floor_ns
    floor = np.where(cpu, ceilings.launch_floor_ns or DEFAULT_CPU_FLOOR_NS, gpu_floor)
    streamed = np.nansum(np.stack([column(kernels, "weight_bytes"), column(kernels, "kv_bytes")]), axis=0)
    hw_bytes = column(kernels, "dram_bytes_hw")
    return Signals(
        kind=kind,
        family=kernels["family"] if "family" in kernels else pd.Series(pd.NA, kernels.index, "category"),
        on_device=matches(kernels["name"], DEVICE_COPY),
        phase=category(kernels, "phase"),
        dur=column(kernels, "dur_ns"),
        compute=compute,
        of_roof=of_roof,
        dram=dram,
        # No operations and unknown bytes say nothing of how busy the device was.
        best=np.where((compute == 0) & np.isnan(dram), np.nan, np.fmax(compute, dram)),
        is_compute=side,
        margin=_margin(compute, dram),
        intensity=column(kernels, "arithmetic_intensity"),
        peak=peak,
        measured=np.where(side, peak.isin(known), ceilings.dram.is_measured),
        ctas=blocks(kernels),
        sms=float("nan") if ceilings.sm_count is None else float(ceilings.sm_count),
        floor=floor,
        working_set=column(kernels, "dram_bytes"),
        streamed=streamed,
        l2=float("nan") if ceilings.l2_bytes is None else float(ceilings.l2_bytes),
        bus=column(kernels, "bus_bytes") / (ceilings.link.used or np.nan) / column(kernels, "dur_ns") * 1e9,
        bus_bytes=column(kernels, "bus_bytes"),
        dram_hw=~np.isnan(hw_bytes),
        sm_pct=column(kernels, "hw_sm_pct"),
        mem_pct=column(kernels, "hw_mem_pct"),
        level_pct={level: column(kernels, f"hw_{level}_pct") for level in ("dram", "l2", "l1")},
        tensor_pct=column(kernels, "hw_tensor_pct"),
        waves=column(kernels, "hw_waves"),
    )


def _reach(peak: pd.Categorical, ceilings: Ceilings) -> Floats:
    """Share of the used roof that was published as reachable, by kernel; 1 where it was not or was measured."""
    out = np.ones(len(peak), dtype=np.float64)
    for word, roof in ceilings.peaks.items():
        if roof.reach_known and not roof.is_measured:
            out[peak == word] = roof.reach
    return out


def _margin(compute: Floats, dram: Floats) -> Floats:
    both = (compute > 0) & (dram > 0)
    ratio = np.divide(compute, dram, out=np.ones_like(compute), where=both)
    return np.where(both, np.abs(np.log2(ratio)), np.inf)
