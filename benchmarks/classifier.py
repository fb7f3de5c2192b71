"""Confusion matrix of the bottleneck classifier on simulated kernels with a known limiting resource.

Run: python benchmarks/classifier.py [--kernels N] [--seed N]

The simulated times come from another law than the classifier's own: resources overlap by a p-norm instead of
perfectly, part of the bytes are served by the L2 and others are read twice, grids that do not fill the device
slow everything down, no kernel is perfect, and times jitter. The classifier is told work that is wrong by up to 30 %
and roofs that are wrong by up to 15 %. The true class is the resource with the largest time.
"""

import argparse
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit.classify import classify
from tracekit.roofline import apply_roofs
from tracekit.tables.ceilings import Ceilings, Roof

CLASSES = ("compute", "dram", "l2", "latency")
SURE = 0.8

PEAK, BANDWIDTH, L2_RATE, L2_BYTES, SMS, FLOOR_NS = 800e12, 4.3e12, 12e12, 60e6, 132, 2_500.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """Kernels as the classifier sees them, the truth, and the ceilings it is told."""

    kernels: pd.DataFrame
    truth: np.ndarray
    ceilings: Ceilings


def simulate(count: int, seed: int) -> Simulated:
    """Kernels of one device; everything follows from the seed."""
    draw = np.random.default_rng(seed)
    size = 10 ** draw.uniform(4.5, 9.5, count)  # bytes touched
    intensity = 10 ** draw.uniform(-0.5, 3.6, count)
    weights = draw.random(count) < 0.6  # streamed once: never found in the L2
    small = (size < L2_BYTES / 2) & ~weights
    served = np.where(small, draw.uniform(0, 1, count), draw.uniform(0, 0.15, count))
    again = draw.uniform(1, 2.5, count)  # reads of the same byte that reach the L2
    ctas = np.maximum(1, (size / 10 ** draw.uniform(4.0, 5.0, count)).astype(np.int64))
    fill = np.minimum(1.0, ctas / SMS)
    flops = size * intensity
    seconds = np.stack(
        [
            flops / PEAK,
            size * (1 - served) / BANDWIDTH,
            size * again / L2_RATE,
        ]
    )
    p = draw.uniform(2, 6, count)
    busy = (seconds**p).sum(axis=0) ** (1 / p) * draw.uniform(1.0, 1.35, count)
    starved = busy * (np.sqrt(1 / fill) - 1)
    waiting = FLOOR_NS * 1e-9 * draw.uniform(0.8, 1.6, count) + starved
    total = (busy + waiting) * np.exp(draw.normal(0, 0.05, count))
    limits = np.concatenate([seconds, waiting[None]])
    truth = np.array(CLASSES, dtype=object)[np.argmax(limits, axis=0)]
    told_flops, told_bytes = flops * draw.uniform(0.7, 1.3, count), size * draw.uniform(0.7, 1.3, count)
    kernels = pd.DataFrame(
        {
            "kind": "kernel",
            "name": "simulated",
            "family": "gemm",
            "phase": "unknown",
            "grid": pd.Series(ctas).astype(str) + ",1,1",
            "dur_ns": np.maximum(1, np.round(total * 1e9)).astype(np.int64),
            "flops": told_flops,
            "dram_bytes": told_bytes,
            "weight_bytes": np.where(weights, told_bytes, 0.0),
            "kv_bytes": 0.0,
            "peak": "bf16",
        }
    )
    wrong = draw.uniform(0.85, 1.15, 2)
    ceilings = Ceilings(
        "simulated",
        {"bf16": Roof(measured=PEAK * wrong[0])},
        dram=Roof(measured=BANDWIDTH * wrong[1]),
        launch_floor_ns=FLOOR_NS,
        sm_count=SMS,
        l2_bytes=L2_BYTES,
    )
    return Simulated(kernels, truth, ceilings)


def run(count: int, seed: int, devices: int = 20) -> pd.DataFrame:
    """Classified kernels of several simulated devices, with the column `truth`."""
    parts = []
    for number in range(devices):
        one = simulate(max(count // devices, 1), seed + number)
        parts.append(classify(apply_roofs(one.kernels, one.ceilings), one.ceilings).assign(truth=one.truth))
    return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True, slots=True)
class Score:
    """How often the classifier is right where it is sure, and for how much of the time it is sure."""

    right: float
    sure_time: float
    sure_count: float


def score(out: pd.DataFrame, least: float = SURE) -> Score:
    """The score at a confidence of `least` or more."""
    sure = out["bottleneck_confidence"] >= least
    right = (out["bottleneck"].astype(object) == out["truth"])[sure].mean()
    return Score(float(right), float(out.loc[sure, "dur_ns"].sum() / out["dur_ns"].sum()), float(sure.mean()))


def matrix(out: pd.DataFrame) -> pd.DataFrame:
    """Rows: the truth; columns: the answer; shares of all kernels in percent."""
    return pd.crosstab(out["truth"], out["bottleneck"].astype(object), normalize="all").mul(100).round(1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    out = run(asked.kernels, asked.seed)
    print(f"{len(out)} kernels, seed {asked.seed}; share of kernels [%], rows: truth, columns: answer")
    print(matrix(out).to_string())
    sure = out[out["bottleneck_confidence"] >= SURE]
    print(f"\nat confidence >= {SURE}:")
    print(matrix(sure).to_string())
    print("\nconfidence  right [%]  of time [%]  of kernels [%]")
    for least in (0.8, 0.65, 0.5, 0.3):
        at = score(out, least)
        print(f">= {least:<8} {100 * at.right:8.1f} {100 * at.sure_time:12.1f} {100 * at.sure_count:15.1f}")


if __name__ == "__main__":
    main()
