"""The entry point of `tracekit calibrate`: what this device reaches, by type, size and kind of access. It prints nothing."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from collectors.allreduce import AllReduce, all_reduce
from collectors.ceilings import THIN, Bench, Effort, effort_for, measure
from collectors.machine import (
    DTYPES,
    Machine,
    busy_note,
    choose_device,
    describe,
    is_native,
    physical_cores,
)
from collectors.narrow import why_no_fp8
from tracekit.errors import UnsupportedError
from tracekit.formats import CEILINGS, MeasuredCeilings, Progress, write_json

_FEW = 16
_OFTEN = 8
_CACHED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured.

    Attributes:
        ceilings: Largest rates, as a capture folder has them.
        thin: By dtype word and rows M of a product [M, N, N]: rate [FLOP/s].
        traffic: By access and place (`triad_dram`, `copy_l2` …): rate [byte/s].
        graph_replay_ns: Time of one op of a replayed CUDA graph [ns]; None on a CPU.
        all_reduce: Between the machine's ranks; None with one rank.
        not_measured: Why, by what was left out.
    """

    ceilings: MeasuredCeilings
    thin: Mapping[str, Mapping[str, float]]
    traffic: Mapping[str, float]
    graph_replay_ns: float | None
    all_reduce: AllReduce | None = None
    not_measured: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write it as a `ceilings.json` that says more than that of a capture folder.

        Raises:
            CaptureError: The folder cannot be written.
        """
        more = {
            "thin_flops_per_s": self.thin,
            "bytes_per_s": self.traffic,
            "graph_replay_ns": self.graph_replay_ns,
            "all_reduce": None if self.all_reduce is None else _described(self.all_reduce),
            "not_measured": dict(self.not_measured),
        }
        return write_json(folder / CEILINGS, {**asdict(self.ceilings), "calibration": more})


def _described(found: AllReduce) -> dict[str, Any]:
    """An all-reduce as the file has it; message sizes in bytes."""
    rates = {str(size): rate for size, rate in found.bus_bytes_per_s().items()}
    return {
        "ranks": found.ranks,
        "backend": found.backend,
        "latency_ns": found.latency_ns,
        "bus_bytes_per_s": rates,
    }


def calibrate(
    wanted: str | None, progress: Progress, effort: Effort | None = None, ranks: int | None = None
) -> Calibration:
    """Measure what a device reaches, in under a minute.

    Args:
        wanted: cpu or cuda; by default a GPU where there is one.
        progress: Told of each part.
        effort: How much measuring; by default that of the machine.
        ranks: Ranks of the all-reduce, one process each; by default all GPUs, and 1 on a CPU. 1 leaves it out.

    Raises:
        UnsupportedError: There is no such device, or there are fewer GPUs than ranks.
    """
    device = choose_device(wanted)
    if device.type == "cpu":
        torch.set_num_threads(physical_cores())
    busy = busy_note()
    if busy:
        progress.note(busy)
    machine = describe(device)
    chosen = effort or effort_for(machine)
    dtypes, left_out = _dtypes(device, machine)
    ranks = _ranks(device, ranks)
    found = measure(device, machine, dtypes, (), progress, chosen)
    # Whoever reads a report against these ceilings must see that they may be too low.
    found = replace(found, method=f"Beware: {busy}. {found.method}" if busy else found.method)
    progress.begin("triad, caches, ranks", 3)
    bench = Bench(device, chosen)
    with torch.inference_mode():
        if device.type == "cuda":
            found = _with_tf32(found, bench, chosen)
        traffic = _traffic(bench, chosen, machine.llc_bytes)
        progress.advance()
        replay = _graph_replay(bench, chosen) if device.type == "cuda" else None
        progress.advance()
    shared = None
    if ranks > 1:
        shared = all_reduce(device.type, ranks, chosen.repeats)
        best = max(shared.bus_bytes_per_s().values())
        found = replace(found, peer_link={"all_reduce_bus_bytes_per_s": best})
    else:
        left_out["all-reduce"] = "one rank: --ranks N takes more"
    progress.advance()
    return Calibration(found, _thin(found), traffic, replay, shared, left_out)


def _dtypes(device: torch.device, machine: Machine) -> tuple[list[str], dict[str, str]]:
    """Types that torch multiplies on the device and the device in hardware, and why the others are left out."""
    words = ("fp64", "fp32", "bf16", "fp16")
    found = [word for word in words if device.type == "cuda" or is_native(word)]
    left_out = {word: "this CPU emulates it" for word in words if word not in found}
    why = why_no_fp8(device, machine)
    return ([*found, "fp8"], left_out) if why is None else (found, {**left_out, "fp8": why})


def _ranks(device: torch.device, wanted: int | None) -> int:
    """How many ranks the all-reduce has.

    Raises:
        UnsupportedError: There are fewer GPUs.
    """
    if device.type == "cpu":
        return wanted or 1
    there = torch.cuda.device_count()
    if wanted is not None and wanted > there:
        raise UnsupportedError(f"--ranks {wanted}: one GPU a rank, and there are {there}", hint="give fewer")
    return wanted or there


def _with_tf32(found: MeasuredCeilings, bench: Bench, effort: Effort) -> MeasuredCeilings:
    """The ceilings with products of fp32 that the matrix units may take as tf32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        peak = bench.largest_product("fp32", [(side, side, side) for side in effort.sides])
    finally:
        torch.set_float32_matmul_precision(before)
    return replace(found, peaks={**found.peaks, "tf32": peak})


def _thin(found: MeasuredCeilings) -> dict[str, dict[str, float]]:
    """Rates of the thin products by dtype word and rows."""
    return {
        word: {
            str(rows): rate
            for shape, rate in peak["by_shape"].items()
            if (rows := int(shape.partition("x")[0])) in THIN
        }
        for word, peak in found.peaks.items()
    }


def _traffic(bench: Bench, effort: Effort, cache_bytes: int | None) -> dict[str, float]:
    """Copy, read and triad over buffers of DRAM's size, and of half the last cache, all three together."""
    half = (cache_bytes or 2 * _CACHED_BYTES) // 2
    # What takes microseconds is disturbed by anything: more repeats find a quiet moment.
    often = Bench(bench.device, replace(effort, repeats=_OFTEN * effort.repeats))
    places = {"dram": (bench, effort.buffer_bytes), "l2": (often, half // 3)}
    return {
        f"{access}_{place}": rate
        for place, (chosen, size) in places.items()
        for access, rate in _accesses(chosen, max(1024, size // 4)).items()
    }


def _accesses(bench: Bench, count: int) -> dict[str, float]:
    one, two = (bench.random((count,), DTYPES["fp32"]) for _ in range(2))
    out: Tensor = torch.empty_like(one)
    size = float(one.nbytes)
    # STREAM's names: copy moves two arrays, triad (a = b + s c) three.
    return {
        "copy": 2 * size / bench.best(lambda: out.copy_(one)),
        "read": size / bench.best(one.sum),
        "triad": 3 * size / bench.best(lambda: torch.add(one, two, alpha=3.0, out=out)),
    }


def _graph_replay(bench: Bench, effort: Effort) -> float:
    """Time from one op of a replayed graph to the next [ns]."""
    one = torch.ones(1, device=bench.device)
    count = max(_FEW, min(effort.ops, 1000))
    one.add_(1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            one.add_(1.0)
    return 1e9 * bench.best(graph.replay) / count
