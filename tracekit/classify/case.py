"""What findings are drawn from: one capture's kernels, steps and gaps with exclusive times at hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from tracekit.classify.signals import Bools, Floats
from tracekit.intervals import exclusive, union_length
from tracekit.tables import LLM_PHASES, GapCause, Kind, Phase
from tracekit.tables.ceilings import Ceilings
from tracekit.tables.columns import column, lanes
from tracekit.tables.text import category, distinct, is_word, numbers, occurring

HOST_BOUND = 0.2
"""A step whose device is idle for the host's sake for more than this share of its window is host-bound."""

_SETUP = "setup"
"""The `phase_evidence` of start-up and of recording graphs."""

_READ = (
    "kind", "rank", "device", "stream", "step_id", "name", "family", "op", "dtype", "phase", "from_graph", "ts_ns", "dur_ns",
    "flops", "dram_bytes", "dram_bytes_hw", "weight_bytes", "kv_bytes", "peak", "bound_by", "bound_ns",
    "bottleneck", "bottleneck_confidence",
)  # fmt: skip
"""The columns of the kernels table that findings look at: every selection of rows copies what it is given."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that could be won.

    Attributes:
        title: What it is, in one line.
        phase: Phase that it concerns; empty for all.
        kernels: Names of the kernels that it concerns, most time first.
        recoverable_ns: Time that the phase's steps could lose at most [ns].
        confidence: How sure, 0 to 1.
        evidence: The numbers.
        next_step: What to do.
    """

    title: str
    phase: str
    kernels: tuple[str, ...]
    recoverable_ns: float
    confidence: float
    evidence: str
    next_step: str


@dataclass(frozen=True, slots=True)
class Case:
    """A capture as the findings look at it.

    Attributes:
        rows: What findings read of the kernels table, with the internal columns `own_ns` (exclusive time), `reach_ns` (time at the
            achievable roof, NaN where unknown) and `held` (its step is host-bound).
        steps: STEPS with `idle_host_ns` (host and sync gaps).
        gaps: GAPS.
        ceilings: Those of the device.
        faster: Names of devices and their DRAM byte/s, to compare with.
        unprofiled: By phase, the time of a step without a profiler [ns].
    """

    rows: pd.DataFrame
    steps: pd.DataFrame
    gaps: pd.DataFrame
    ceilings: Ceilings
    faster: Mapping[str, float] = field(default_factory=dict)
    unprofiled: Mapping[str, float] = field(default_factory=dict)

    @property
    def total_ns(self) -> float:
        """Exclusive time of all rows."""
        return float(self.rows["own_ns"].sum())

    def phases(self) -> tuple[str, ...]:
        """The LLM phases that have time here, in the order of the enumeration."""
        present = occurring(self.rows, "phase")
        return tuple(str(phase) for phase in LLM_PHASES if str(phase) in present)

    def stepped(self) -> tuple[str, ...]:
        """Phases whose steps have kernels; `other` (start-up, graph capture, training) is nobody's decode latency."""
        phases = (phase for phase in occurring(self.steps, "phase") if phase != Phase.OTHER)
        return tuple(phase for phase in phases if len(self.steps_of(phase)))

    def is_in(self, phase: str) -> Bools:
        """Whether each row is of a phase; of none where the phase is empty."""
        return category(self.rows, "phase").isna() if not phase else is_word(self.rows, "phase", phase)

    def of_phase(self, phase: str) -> pd.DataFrame:
        """The rows of a phase."""
        return self.rows.loc[self.is_in(phase)]

    def steps_of(self, phase: str) -> pd.DataFrame:
        """The steps of a phase that have kernels."""
        return self.steps.loc[is_word(self.steps, "phase", phase) & (column(self.steps, "busy_ns") > 0)]


def build_case(
    kernels: pd.DataFrame,
    steps: pd.DataFrame,
    gaps: pd.DataFrame,
    ceilings: Ceilings,
    faster: Mapping[str, float] | None = None,
    unprofiled: Mapping[str, float] | None = None,
) -> Case:
    """The case of one report: exclusive times, times at the achievable roof, and host-bound steps.

    What an engine did while it started up or recorded graphs is nobody's latency, and is left out.
    """
    read = [name for name in _READ if name in kernels]
    kernels = kernels.loc[~is_word(kernels, "phase_evidence", _SETUP), read]
    steps = steps.assign(idle_host_ns=_host_idle(steps, gaps))
    window = column(steps, "dur_ns")
    held = steps.loc[(window > 0) & (steps["idle_host_ns"] > HOST_BOUND * window), "step_id"]
    rows = kernels.assign(
        own_ns=own_time(kernels),
        reach_ns=_reach(kernels, ceilings),
        held=kernels["step_id"].isin(held).to_numpy(dtype=bool) if "step_id" in kernels else False,
    )
    return Case(rows, steps, gaps, ceilings, faster or {}, unprofiled or {})


def own_time(kernels: pd.DataFrame, chosen: Bools | None = None) -> Floats:
    """Exclusive time [ns]: an overlap on one device is assigned once; an op's self time is its own already.

    Args:
        kernels: Rows with ts_ns, dur_ns, and where present kind, rank and device.
        chosen: Rows that count, all by default; the others have 0.
    """
    counts = np.ones(len(kernels), np.bool_) if chosen is None else chosen
    on_cpu = is_word(kernels, "kind", Kind.CPU_OP)
    starts = kernels["ts_ns"].to_numpy(dtype=np.int64)
    lengths = kernels["dur_ns"].to_numpy(dtype=np.int64)
    out = np.where(counts & on_cpu, lengths, 0).astype(np.float64)
    for mine in lanes(kernels, "rank", "device", among=counts & ~on_cpu):
        out[mine] = exclusive(starts[mine], starts[mine] + lengths[mine])
    return out


def exposed_ns(rows: pd.DataFrame, chosen: Bools, among: Bools | None = None) -> float:
    """Time in which only the chosen rows ran: the union of all less the union of the others [ns].

    Args:
        rows: Rows with ts_ns, dur_ns, and where present rank and device.
        chosen: The rows asked for.
        among: Rows that count, all by default.
    """
    starts = rows["ts_ns"].to_numpy(dtype=np.int64)
    ends = starts + rows["dur_ns"].to_numpy(dtype=np.int64)
    total = 0
    for mine in lanes(rows, "rank", "device", among=among):
        others = mine[~chosen[mine]]
        total += union_length(starts[mine], ends[mine]) - union_length(starts[others], ends[others])
    return float(total)


_SAID = {
    Phase.OTHER.value: "other work",
    Phase.UNKNOWN.value: "work of no known phase",
    "": "work of no known phase",
}


def said(phase: object) -> str:
    """A phase as a title says it."""
    return _SAID.get(str(phase), str(phase))


def top_names(rows: pd.DataFrame, inside: Bools | slice = slice(None), count: int = 3) -> tuple[str, ...]:
    """Names of the rows, or of some of them, most exclusive time first."""
    names, back = distinct(rows["name"])
    back = back[inside]
    sums = np.bincount(back, column(rows, "own_ns")[inside], len(names))
    seen = np.bincount(back, minlength=len(names)) > 0
    ranked = sorted((-ns, name) for ns, name, here in zip(sums, names, seen, strict=True) if here)
    return tuple(str(name) for _, name in ranked[:count])


def _host_idle(steps: pd.DataFrame, gaps: pd.DataFrame) -> Floats:
    host = gaps[is_word(gaps, "cause", GapCause.HOST, GapCause.SYNC)]
    sums = host.groupby("step_id")["dur_ns"].sum()
    return np.asarray(steps["step_id"].map(sums).fillna(0), dtype=np.float64)


def _reach(kernels: pd.DataFrame, ceilings: Ceilings) -> Floats:
    """Bound time at the achievable roof [ns]: the measured one, or the reachable share of the data sheet's."""
    shares = {
        word: roof.achievable / roof.used
        for word, roof in ceilings.peaks.items()
        if roof.used and roof.achievable
    }
    compute = numbers(kernels, "peak", shares)
    dram = ceilings.dram
    memory = dram.achievable / dram.used if dram.used and dram.achievable else 1.0
    share = np.where(is_word(kernels, "bound_by", "compute"), compute, memory)
    return np.asarray(column(kernels, "bound_ns") / share, dtype=np.float64)
