"""Measured ceilings: what this device reaches in microbenchmarks; the best of all repeats is the roof."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from collectors.machine import DTYPES, Machine
from collectors.narrow import fp8_dtype, scaled_product
from tracekit.formats import MeasuredCeilings, Progress
from tracekit.models import ModelConfig

BUFFER_BYTES = 256_000_000
CACHES = 4
"""A buffer is at least `BUFFER_BYTES` and this many last-level caches, so that it is read from DRAM."""

THIN = (1, 4, 16, 64, 256)
"""Rows of the thin products: those of decode, from a product with one vector to one with many."""

METHOD = (
    "FLOP/s: 2MNK / t of torch linear (fp8: scaled products) on normal random data, largest over square and thin products and the workload's own; "
    "DRAM: copy (bytes read + written) and read (sum, and matrix-vector products) over buffers of at least 256 MB "
    "and four last-level caches; launch overhead: time from one op on one element to the next. "
    "Wall clock, best of all repeats, before and after the workload."
)

Shape = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much measuring.

    Attributes:
        sides: Sides of the square products.
        buffer_bytes: Size of the DRAM buffers.
        repeats: Repeats of each; the best counts.
        inner: Calls of one repeat.
        ops: Ops of one launch-overhead repeat.
        limit_s: Time after which no further repeat of one measurement begins [s].
    """

    sides: tuple[int, ...]
    buffer_bytes: int
    repeats: int
    inner: int
    ops: int
    limit_s: float = 2.0


def effort_for(machine: Machine) -> Effort:
    """The measuring that a machine takes a few seconds for."""
    buffer = buffer_bytes(machine)
    if machine.kind == "cuda":
        # A GPU needs large products, and several launches before each wait.
        return Effort((4096, 8192), max(buffer, 1 << 30), repeats=10, inner=5, ops=5000)
    return Effort((1024, 2048), buffer, repeats=5, inner=1, ops=2000)


def buffer_bytes(machine: Machine) -> int:
    """Bytes that no cache of the machine holds."""
    return max(BUFFER_BYTES, CACHES * (machine.llc_bytes or 0))


def products_of(config: ModelConfig, tokens: int) -> tuple[Shape, ...]:
    """The widest linear products [M, N, K] of a model with so many tokens."""
    width = config.intermediate or config.expert_intermediate
    heads = (config.heads + 2 * config.kv_heads) * config.head_dim
    return (
        (tokens, 2 * width, config.hidden),
        (tokens, config.hidden, width),
        (tokens, heads, config.hidden),
    )


def measure(
    device: torch.device,
    machine: Machine,
    dtypes: Sequence[str],
    products: Iterable[Shape],
    progress: Progress,
    effort: Effort | None = None,
) -> MeasuredCeilings:
    """Measure the ceilings of a device.

    Args:
        device: Where.
        machine: Its description.
        dtypes: Types to multiply in.
        products: Further products [M, N, K] beside the square ones.
        progress: Told of each part.
        effort: How much; by default that of the machine.
    """
    effort = effort or effort_for(machine)
    bench = Bench(device, effort)
    side = max(effort.sides)
    thin = [(rows, side, side) for rows in THIN if rows < side]
    shapes = [*((side, side, side) for side in effort.sides), *thin, *products]
    progress.begin("ceilings", len(dtypes) + 2)
    peaks: dict[str, dict[str, object]] = {}
    with torch.inference_mode():
        for dtype in dtypes:
            peaks[dtype] = bench.largest_product(dtype, shapes)
            progress.advance()
        dram = bench.dram()
        progress.advance()
        overhead = bench.launch_overhead()
        host_link = bench.host_link() if device.type == "cuda" else {}
        progress.advance()
    return MeasuredCeilings(machine.description(), peaks, dram, overhead, METHOD, host_link)


def best_of(first: MeasuredCeilings, second: MeasuredCeilings) -> MeasuredCeilings:
    """The better figure of each: what a busy machine hid once, it may show the other time."""
    peaks = {
        word: max(
            first.peaks[word], second.peaks.get(word, first.peaks[word]), key=lambda peak: peak["flops_per_s"]
        )
        for word in first.peaks
    }
    dram = {name: max(value, second.dram.get(name, value)) for name, value in first.dram.items()}
    link = {name: max(value, second.host_link.get(name, value)) for name, value in first.host_link.items()}
    overhead = min(first.launch_overhead_ns, second.launch_overhead_ns)
    return replace(first, peaks=peaks, dram=dram, host_link=link, launch_overhead_ns=overhead)


class Bench:
    """The microbenchmarks of one device."""

    def __init__(self, device: torch.device, effort: Effort) -> None:
        self.device = device
        self.effort = effort
        self.generator = torch.Generator(device).manual_seed(0)

    def largest_product(self, dtype: str, shapes: Iterable[Shape]) -> dict[str, object]:
        """The largest rate of products [M, N, K], which reached it, and the rate of each [FLOP/s]."""
        rates = {shape: self._product(dtype, shape) for shape in shapes}
        shape, rate = max(rates.items(), key=lambda item: item[1])
        by_shape = {"x".join(map(str, shape)): rate for shape, rate in rates.items()}
        return {"flops_per_s": rate, "shape": list(shape), "by_shape": by_shape}

    def _product(self, dtype: str, shape: Shape) -> float:
        m, n, k = shape
        if dtype == "fp8":
            narrow = fp8_dtype(self.device)
            # Random bits of wide numbers, rounded: there is no generator of narrow ones.
            left, right = (self.random((rows, k), torch.bfloat16).to(narrow) for rows in (m, n))
            return 2.0 * m * n * k / self.best(lambda: scaled_product(left, right))
        left, right = (self.random((rows, k), DTYPES[dtype]) for rows in (m, n))
        return 2.0 * m * n * k / self.best(lambda: functional.linear(left, right))

    def dram(self) -> dict[str, float]:
        """Rates of copying and reading a buffer that no cache holds [byte/s]."""
        side = int((self.effort.buffer_bytes / 4) ** 0.5) + 1
        source = self.random((side, side), torch.float32)
        target, vector = torch.empty_like(source), self.random((side,), torch.float32)
        size = float(source.nbytes)
        read = min(self.best(source.sum), self.best(lambda: torch.mv(source, vector)))
        copied = self.best(lambda: target.copy_(source))
        return {
            "copy_bytes_per_s": 2.0 * size / copied,
            "read_bytes_per_s": size / read,
            "buffer_bytes": size,
        }

    def launch_overhead(self) -> float:
        """Time from one op on one element to the next [ns]."""
        one = torch.ones(1, device=self.device)

        def many() -> None:
            for _ in range(self.effort.ops):
                one.add_(1.0)

        return 1e9 * self.best(many, inner=1) / self.effort.ops

    def host_link(self) -> dict[str, float]:
        """Rates of copies between pinned host memory and the device [byte/s]."""
        size = 1 << 28
        host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        there = torch.empty(size, dtype=torch.uint8, device=self.device)
        return {
            "host_to_device_bytes_per_s": size / self.best(lambda: there.copy_(host, non_blocking=True)),
            "device_to_host_bytes_per_s": size / self.best(lambda: host.copy_(there, non_blocking=True)),
        }

    def random(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Normal random numbers."""
        # Never zeros: data that does not toggle runs faster than real data.
        return torch.empty(shape, dtype=dtype, device=self.device).normal_(generator=self.generator)

    def best(self, work: Callable[[], object], inner: int | None = None) -> float:
        """Seconds of one call: the best repeat, after one call that does not count.

        What takes long needs fewer repeats: a card without fp64 units takes seconds for one product.
        """
        calls, limit = inner or self.effort.inner, self.effort.limit_s
        alone = self._seconds(work, 1)
        if alone * calls > limit / 2:
            calls = 1
        times: list[float] = []
        spent = 0.0
        while not times or (len(times) < self.effort.repeats and spent < limit):
            took = self._seconds(work, calls)
            times.append(took / calls)
            spent += took
        return min(times)

    def _seconds(self, work: Callable[[], object], calls: int) -> float:
        self._synchronise()
        start = time.perf_counter()
        for _ in range(calls):
            work()
        self._synchronise()
        return time.perf_counter() - start

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
