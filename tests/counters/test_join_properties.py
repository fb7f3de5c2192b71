"""However rows are shuffled, lost or doubled, no counter reaches a kernel of another name or grid."""

from collections.abc import Sequence

import counterbuilder as build
import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.counters import join_counters

NAMES = ("gemm", "void add<float>(int)", "void add<int>(int)", "norm")
GRIDS = ("1,1,1", "64,1,1", "8,8,1")
Shape = tuple[str, str]
shapes = st.tuples(st.sampled_from(NAMES), st.sampled_from(GRIDS))


def mark(shape: Shape) -> float:
    """A number that tells the name and the grid of a launch."""
    return float(1000 * (NAMES.index(shape[0]) + 1) + 10 * (GRIDS.index(shape[1]) + 1))


def join(kernels: Sequence[Shape], launches: Sequence[Shape], values: Sequence[float]) -> pd.Series:
    found = build.counters(
        [{"name": name, "grid": grid} for name, grid in launches],
        [{"dram__bytes.sum": value} for value in values],
    )
    return join_counters(build.kernels(kernels), [found], build.steps()).kernels["dram_bytes_hw"]


@settings(max_examples=40, deadline=None)
@given(st.lists(shapes, max_size=12), st.lists(shapes, max_size=12))
def test_a_kernel_gets_counters_of_its_own_name_and_grid_or_none(
    kernels: list[Shape], launches: list[Shape]
) -> None:
    got = join(kernels, launches, [mark(shape) for shape in launches])
    for shape, value in zip(kernels, got, strict=True):
        if shape in launches:
            assert value == mark(shape)
        else:
            assert np.isnan(value)


@settings(max_examples=40, deadline=None)
@given(st.lists(shapes, min_size=1, max_size=10), st.randoms(use_true_random=False))
def test_the_order_between_different_kernels_does_not_matter(kernels: list[Shape], random: object) -> None:
    # The k-th of a shape keeps its place among its equals; shapes move around each other.
    order = list(range(len(kernels)))
    random.shuffle(order)  # type: ignore[attr-defined]
    count: dict[Shape, int] = {}
    launches, values = [], []
    for at in order:
        shape = kernels[at]
        count[shape] = count.get(shape, 0) + 1
        launches.append(shape)
        values.append(mark(shape) + count[shape])
    expected, seen = [], dict.fromkeys(count, 0)
    for shape in kernels:
        seen[shape] += 1
        expected.append(mark(shape) + seen[shape])
    assert join(kernels, launches, values).tolist() == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(shapes, min_size=1, max_size=8), st.data())
def test_a_missing_launch_costs_no_other_shape_its_counters(
    kernels: list[Shape], data: st.DataObject
) -> None:
    lost = data.draw(st.integers(0, len(kernels) - 1))
    launches = kernels[:lost] + kernels[lost + 1 :]
    values = [mark(shape) + number for number, shape in enumerate(launches)]
    got = join(kernels, launches, values)
    whole = join(kernels, kernels, [mark(shape) + number for number, shape in enumerate(kernels)])
    for at, shape in enumerate(kernels):
        if shape != kernels[lost]:
            position = [number for number, other in enumerate(launches) if other == shape]
            occurrence = [number for number, other in enumerate(kernels) if other == shape].index(at)
            assert got[at] == values[position[occurrence]]
            assert not np.isnan(whole[at])


@settings(max_examples=40, deadline=None)
@given(st.lists(shapes, min_size=1, max_size=8), st.data())
def test_a_doubled_launch_becomes_a_mean_and_never_shifts_the_others(
    kernels: list[Shape], data: st.DataObject
) -> None:
    twice = data.draw(st.integers(0, len(kernels) - 1))
    launches = [*kernels[: twice + 1], kernels[twice], *kernels[twice + 1 :]]
    values = [mark(shape) + number for number, shape in enumerate(launches)]
    got = join(kernels, launches, values)
    of_shape = [value for value, shape in zip(values, launches, strict=True) if shape == kernels[twice]]
    for at, shape in enumerate(kernels):
        if shape == kernels[twice]:
            assert got[at] == np.mean(of_shape)
        else:
            occurrence = [number for number, other in enumerate(kernels) if other == shape].index(at)
            position = [number for number, other in enumerate(launches) if other == shape]
            assert got[at] == values[position[occurrence]]
