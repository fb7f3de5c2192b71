"""Where a recorder's clock starts says nothing of a run: nothing but the times themselves may depend on it."""

from pathlib import Path

import numpy as np
import pandas as pd
from tracebuilder import TraceBuilder

from tracekit.pipeline import Options, analyze
from tracekit.report import Result

STEP = "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk800sqsq8sqsk800)"
TIMES = ["ts_ns", "launch_ts_ns"]
EPOCH_NS = 1_764_000_000_123_456_789


def run(base_ns: int) -> TraceBuilder:
    """Steps of kernels that wait for the host, for each other and for a synchronisation, at odd nanoseconds."""
    chance = np.random.default_rng(3)
    trace, device = TraceBuilder(base_ns=base_ns), 0.0
    for step in range(12):
        at = step * 900.0
        trace.annotation(STEP, at, 800)
        for number in range(20):
            launch = at + 30 * number + float(chance.integers(1, 2000)) / 1000
            start = max(launch + 7.001, device + float(chance.integers(0, 3000)) / 1000)
            length = float(chance.integers(900, 60_000)) / 1000
            trace.launched(f"gemm_{number % 3}", round(launch, 3), round(start, 3), round(length, 3))
            device = round(start + length, 3)
        trace.event("cuda_runtime", "cudaDeviceSynchronize", at + 700, 60.123)
    return trace


def analysed(base_ns: int, folder: Path) -> Result:
    options = Options(unprofiled={"decode": 700_000.0})
    return analyze([run(base_ns).write(folder / f"{base_ns}.json")], options)


def test_nothing_depends_on_where_the_clock_starts(tmp_path: Path) -> None:
    early, late = analysed(0, tmp_path), analysed(EPOCH_NS, tmp_path)
    assert {"host", "dependency"} <= set(early.gaps["cause"].astype(str))
    for name in ("kernels", "steps", "gaps"):
        first, second = getattr(early, name), getattr(late, name)
        for time in set(TIMES) & set(first):
            assert ((second[time] - first[time]) == EPOCH_NS).all()
        pd.testing.assert_frame_equal(
            *(frame.drop(columns=TIMES, errors="ignore").astype(object) for frame in (first, second))
        )
    first, second = ({**result.summary, "captures": []} for result in (early, late))
    assert first == second
