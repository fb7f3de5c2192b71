"""Where in the repeated layer sequence a kernel stands: by the attention that each layer runs once.

A layer begins where the kernels before its attention begin to be those before the next layer's, so that what
precedes the first layer (embedding) and what follows the last one (output head, sampling) stand apart. Two builds
with other libraries and other fusions still have the same places: before attention, attention, after attention,
by kernel family, and matrix products by their order.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.compare.contract import LayerChange, Pair, PlaceChange
from tracekit.compare.statistics import Floats

Ints = npt.NDArray[np.int64]
Objects = npt.NDArray[np.object_]
Bools = npt.NDArray[np.bool_]

BEFORE, AFTER = "before the layers", "after the layers"
_CORES = ("attn", "attn.mla")
_PRODUCTS = ("gemm", "gemm.quant", "gemv", "moe.gemm")
_STEP = ["run", "rank", "device", "step_id"]


def layer_places(kernels: pd.DataFrame) -> pd.DataFrame:
    """The place of each kernel in its step.

    Args:
        kernels: Kernels with run, rank, device, step_id, ts_ns and family.

    Returns:
        In the same order: `place` (empty where the step has no attention, or the kernel no step), `layer` (0 for
        the first; NaN outside the layers), and `place_order`, by which places follow each other.
    """
    place = np.full(len(kernels), "", dtype=object)
    layer, order = np.full(len(kernels), np.nan), np.full(len(kernels), np.nan)
    families = kernels["family"].astype(object).to_numpy()
    starts = kernels["ts_ns"].to_numpy(dtype=np.int64)
    for step in _steps(kernels):
        rows = step[np.argsort(starts[step], kind="stable")]
        place[rows], layer[rows], order[rows] = _of_step(families[rows])
    return pd.DataFrame({"place": place, "layer": layer, "place_order": order}, index=kernels.index)


def _steps(kernels: pd.DataFrame) -> Iterator[Ints]:
    """Rows of each step of each device."""
    known = np.flatnonzero(kernels["step_id"].notna().to_numpy(dtype=bool))
    groups = kernels.iloc[known][_STEP].groupby(_STEP, sort=False, dropna=False).indices
    for rows in groups.values():
        yield known[rows]


def _of_step(families: Objects) -> tuple[Objects, Floats, Floats]:
    """Place, layer and order of the kernels of one step, in order of their start."""
    count = len(families)
    at = np.arange(count)
    cores = _cores(families)
    if not len(cores):
        return np.full(count, "", dtype=object), np.full(count, np.nan), np.full(count, np.nan)
    starts = cores - _lead(families, cores)
    # The last layer is as long after its attention as the one before it.
    end = min(count, cores[-1] + (starts[-1] - cores[-2] if len(cores) > 1 else count))
    number = np.searchsorted(starts, at, side="right") - 1
    inside = (number >= 0) & (at < end)
    core = cores[np.maximum(number, 0)]
    section = np.sign(at - core)
    place = np.where(at < end, BEFORE, AFTER).astype(object)
    place[inside] = _names(families, section, number)[inside]
    order = np.where(inside, at - core, np.where(at < end, -np.inf, np.inf))
    return place, np.where(inside, number, np.nan).astype(np.float64), order


def _cores(families: Objects) -> Ints:
    """The first attention kernel of each layer: those of one layer have no matrix product between them."""
    attention = np.flatnonzero(np.isin(families, _CORES))
    if not len(attention):
        return attention
    products = np.cumsum(np.isin(families, _PRODUCTS))
    return attention[np.r_[True, np.diff(products[attention]) > 0]]


def _lead(families: Objects, cores: Ints) -> int:
    """How many kernels of a layer stand before its attention: as far back as the first two layers agree."""
    if len(cores) == 1:
        return int(cores[0])
    limit = int(min(cores[0], cores[1] - cores[0] - 1))
    first, second = (families[core - limit : core][::-1] for core in cores[:2])
    apart = np.flatnonzero(first != second)
    return int(apart[0]) if len(apart) else limit


def _names(families: Objects, section: Ints, number: Ints) -> Objects:
    """Section and family of each kernel, products with their order in the section of their layer."""
    frame = pd.DataFrame({"section": section, "number": number, "product": np.isin(families, _PRODUCTS)})
    turn = frame.groupby(["number", "section", "product"]).cumcount().to_numpy() + 1
    heads = np.select([section < 0, section > 0], ["before attention", "after attention"], "attention")
    tails = np.where(frame["product"], [f"product {n}" for n in turn], families)
    return np.where(section == 0, heads, heads.astype(object) + ": " + tails)


def place_changes(
    sides: Sequence[pd.DataFrame], units: Sequence[dict[str, int]], phases: Sequence[str]
) -> tuple[list[PlaceChange], list[LayerChange]]:
    """What became of each place and of each layer, for phases whose layers are known on both sides.

    Args:
        sides: Kernel rows of base and of new, with phase, time_ns and the columns of `layer_places`.
        units: Steps of each phase, of base and of new.
        phases: The phases to look at.
    """
    places, layers = [], []
    for phase in phases:
        parts = [side[(side["phase"] == phase) & (side["place"] != "")] for side in sides]
        if any(part.empty for part in parts):
            continue
        steps = [unit[phase] for unit in units]
        for place, times, counts in _paired(parts, steps, "place"):
            places.append(PlaceChange(phase, str(place), times, counts, _delta(times)))
        for layer, times, _ in _paired([part[part["layer"].notna()] for part in parts], steps, "layer"):
            layers.append(LayerChange(phase, int(float(str(layer))), times, _delta(times)))
    return places, layers


def _delta(times: Pair) -> float:
    return (times.new or 0.0) - (times.base or 0.0)


def _paired(
    parts: Sequence[pd.DataFrame], steps: Sequence[int], key: str
) -> Iterator[tuple[object, Pair, Pair]]:
    """Time and kernels a step by key, in the order of the sequence."""
    sums = [
        part.groupby(key)["time_ns"].agg(["sum", "size"]) / n for part, n in zip(parts, steps, strict=True)
    ]
    order = pd.concat(parts).groupby(key)["place_order"].median()
    order = order if key == "place" else pd.Series(order.index, index=order.index)
    for name in order.sort_values(kind="stable").index:
        pairs = [Pair(*(float(side[what].get(name, 0.0)) for side in sums)) for what in ("sum", "size")]
        yield name, pairs[0], pairs[1]
