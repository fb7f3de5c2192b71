"""The classifier against simulated kernels whose limiting resource is known.

The simulator's law is not the classifier's: see benchmarks/classifier.py, which prints the confusion matrix.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

# By path: some distributions install a package called `benchmarks` of their own.
SPEC = importlib.util.spec_from_file_location(
    "classifier_benchmark", Path(__file__).parents[2] / "benchmarks" / "classifier.py"
)
benchmark = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = benchmark
SPEC.loader.exec_module(benchmark)
run, score, simulate = benchmark.run, benchmark.score, benchmark.simulate


@pytest.mark.parametrize("seed", [0, 1_000, 2_000])
def test_right_where_sure_and_sure_for_half_of_the_time(seed: int) -> None:
    at = score(run(8_000, seed))
    assert at.right >= 0.95
    assert at.sure_time >= 0.5


def test_less_confidence_means_less_often_right() -> None:
    out = run(8_000, 0)
    assert score(out, 0.8).right >= score(out, 0.5).right >= score(out, 0.0).right


def test_the_simulation_holds_every_class_and_is_seeded() -> None:
    first, again = simulate(2_000, 7), simulate(2_000, 7)
    assert set(first.truth) == {"compute", "dram", "l2", "latency"}
    assert first.kernels.equals(again.kernels)
