"""All-reduce among the ranks of one machine: NCCL or RCCL between GPUs, gloo between processes on a CPU.

Bus bandwidth of n ranks is 2 (n-1)/n times message over time: what each link carries, whatever n is. Source:
nccl-tests, doc/PERFORMANCE.md.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, spawn

from collectors.machine import physical_cores
from tracekit.errors import UnsupportedError

SIZES = (4, 1 << 20, 1 << 26)
"""Bytes of a message: one number for the latency, an activation of decode, one of prefill."""
_ITEM = 4
_WARM_UP = 3
_LIMIT = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class AllReduce:
    """What was measured.

    Attributes:
        ranks: How many took part.
        backend: nccl or gloo.
        time_ns: By message size [byte]: the slowest rank's time, best of all repeats [ns].
    """

    ranks: int
    backend: str
    time_ns: Mapping[int, float]

    def bus_bytes_per_s(self) -> dict[int, float]:
        """Bus bandwidth by message size [byte/s]."""
        factor = 2 * (self.ranks - 1) / self.ranks
        return {size: factor * size / time_ns * 1e9 for size, time_ns in self.time_ns.items()}

    @property
    def latency_ns(self) -> float:
        """Time of the smallest message [ns]."""
        return self.time_ns[min(self.time_ns)]


def all_reduce(kind: str, ranks: int, repeats: int, sizes: tuple[int, ...] = SIZES) -> AllReduce:
    """Measure the all-reduce of so many ranks, one process each.

    Args:
        kind: cpu, or cuda: one GPU a rank.
        ranks: At least 2.
        repeats: Repeats of each size; the best counts.
        sizes: Bytes of the messages.

    Raises:
        UnsupportedError: PyTorch has no backend for it, or a rank failed.
    """
    backend = "nccl" if kind == "cuda" else "gloo"
    available = dist.is_available() and (
        dist.is_nccl_available() if kind == "cuda" else dist.is_gloo_available()
    )
    if not available:
        raise UnsupportedError(f"this PyTorch has no {backend}", hint="install one with torch.distributed")
    with TemporaryDirectory() as folder:
        out = Path(folder) / "times.json"
        given = (ranks, backend, f"file://{folder}/store", sizes, repeats, str(out))
        try:
            spawn(_rank, args=given, nprocs=ranks)  # type: ignore[no-untyped-call]
        except (ProcessRaisedException, ProcessExitedException) as error:
            last = str(error).strip().splitlines()[-1]
            raise UnsupportedError(
                f"the all-reduce of {ranks} ranks failed: {last}",
                hint="NCCL_DEBUG=INFO says more; or --ranks 1",
            ) from error
        times = json.loads(out.read_text(encoding="utf-8"))
    return AllReduce(ranks, backend, {int(size): float(value) for size, value in times.items()})


def _rank(
    rank: int, ranks: int, backend: str, store: str, sizes: tuple[int, ...], repeats: int, out: str
) -> None:
    """One rank; the first writes the times."""
    if backend == "nccl":
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(max(1, physical_cores() // ranks))
        if sys.platform == "linux":
            # The ranks are of one machine: a host name that resolves to nothing must not keep them apart.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(backend, init_method=store, rank=rank, world_size=ranks, timeout=_LIMIT)
    try:
        device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
        times = {size: _best(size, repeats, device) for size in sizes}
        if rank == 0:
            Path(out).write_text(json.dumps(times), encoding="utf-8")
    finally:
        dist.destroy_process_group()


def _best(size: int, repeats: int, device: torch.device) -> float:
    """The slowest rank's time of one all-reduce, best of the repeats after a few that do not count [ns]."""
    message = torch.ones(max(1, size // _ITEM), dtype=torch.float32, device=device)
    best = float("inf")
    for repeat in range(_WARM_UP + repeats):
        # A sum of sums grows by the number of ranks each time.
        message.fill_(1.0)
        dist.barrier()
        _synchronise(device)
        start = time.perf_counter()
        dist.all_reduce(message)
        _synchronise(device)
        slowest = torch.tensor([time.perf_counter() - start], dtype=torch.float64, device=device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        if repeat >= _WARM_UP:
            best = min(best, float(slowest))
    return 1e9 * best


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
