"""How often a comparison is wrong: `python benchmarks/compare_rates.py [trials]`.

Each trial draws decode steps of two sides with 2 % jitter a step and 1 % drift a run over a growing
KV cache, and compares them through the same functions as `tracekit compare`.
"""

import sys

import numpy as np
import pandas as pd

from tracekit.compare.statistics import measure
from tracekit.compare.steps import by_run, match_steps

JITTER, DRIFT, STEPS, SEED = 0.02, 0.01, 10, 20
NS_A_STEP, NS_A_TOKEN = 5e6, 200.0


def side(rng: np.random.Generator, runs: int, slowdown: float, first: int) -> pd.DataFrame:
    drift = np.repeat(rng.normal(1.0, DRIFT, runs), STEPS)
    sum_k = np.tile(np.arange(first, first + STEPS), runs)
    level = (NS_A_STEP + NS_A_TOKEN * sum_k) * (1 + slowdown)
    time = level * drift * rng.normal(1.0, JITTER, runs * STEPS)
    return pd.DataFrame(
        {
            "run": np.repeat(np.arange(runs), STEPS),
            "step_id": np.arange(runs * STEPS),
            "phase": "decode",
            "flags": None,
            "n_kernels": 1,
            "dur_ns": time,
            "generation_requests": 1,
            "context_requests": 0,
            "generation_tokens": 1,
            "context_tokens": 0,
            "sum_k": sum_k,
        }
    )


def rates(runs: int, slowdown: float, trials: int) -> dict[str, int]:
    """Verdicts of seeded trials, by word."""
    rng = np.random.default_rng(SEED + runs)
    found: dict[str, int] = {}
    for trial in range(trials):
        matched = match_steps(side(rng, runs, 0.0, 1000), side(rng, runs, slowdown, 1000))
        word = measure(by_run(matched.base), by_run(matched.new), seed=trial).verdict
        found[word] = found.get(word, 0) + 1
    return found


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"{trials} trials, {STEPS} steps a capture, jitter {JITTER:.0%} a step, drift {DRIFT:.0%} a run")
    print(f"{'captures a side':>15} {'slowdown':>9}  verdicts")
    for runs in (1, 2, 3, 5):
        for slowdown in (0.0, 0.05):
            print(f"{runs:>15} {slowdown:>9.0%}  {rates(runs, slowdown, trials)}")


if __name__ == "__main__":
    main()
