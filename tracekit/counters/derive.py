"""What the counters of each launch say, by the formulas of `data/counters`."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.ncu.metrics import chips
from tracekit.ncu.quantities import Formula, Quantity, quantities
from tracekit.tables import Counters, HwStatus

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int8]

# Where nothing was measured, the status that says most wins.
ORDER = (HwStatus.NOT_COLLECTED, HwStatus.UNSUPPORTED, HwStatus.FAILED, HwStatus.MEASURED)
MEASURED = ORDER.index(HwStatus.MEASURED)
FAILED = ORDER.index(HwStatus.FAILED)
UNSUPPORTED = ORDER.index(HwStatus.UNSUPPORTED)
_COUNTS = frozenset({"byte", "FLOP"})


def derive(counters: Counters, extra: tuple[Path, ...] = ()) -> pd.DataFrame:
    """Every quantity of every launch.

    Args:
        counters: The counters of one file.
        extra: Folders of the user's own rows.

    Returns:
        A row a launch, in the order of `counters.launches`: a column a quantity in its unit, NaN where it is not
        known; `vector_flops`, `tensor_flops` and `tensor_open` as `_operations` gives them; and
        `dram_status`, `flops_status` (int8): positions in ORDER.
    """
    count = len(counters.launches)
    values, statuses = _by_metric(counters, count)
    columns: dict[str, Floats | Ints | npt.NDArray[np.bool_]] = {}
    known: dict[str, Ints] = {}
    for quantity in quantities(extra).values():
        columns[quantity.key], known[quantity.key] = _quantity(quantity, values, statuses, count)
    known["dram_bytes"] = _without_dram(counters.launches, known["dram_bytes"], extra)
    columns |= _operations(columns, values, quantities(extra))
    columns["dram_status"] = known["dram_bytes"]
    groups = [known[key] for key, one in quantities(extra).items() if one.group]
    columns["flops_status"] = np.max(np.stack(groups), axis=0)
    return pd.DataFrame(columns)


def _by_metric(counters: Counters, count: int) -> tuple[dict[str, Floats], dict[str, Ints]]:
    values: dict[str, Floats] = {}
    statuses: dict[str, Ints] = {}
    codes = {str(word): code for code, word in enumerate(ORDER)}
    for metric, part in counters.readings.groupby("metric", observed=True):
        at = part["launch"].to_numpy(dtype=np.int64)
        column = np.full(count, np.nan)
        column[at] = part["value"].to_numpy(dtype=np.float64)
        status = np.zeros(count, dtype=np.int8)
        status[at] = part["status"].astype(object).map(codes).to_numpy(dtype=np.int8)
        values[str(metric)], statuses[str(metric)] = column, status
    return values, statuses


def _quantity(
    quantity: Quantity, values: Mapping[str, Floats], statuses: Mapping[str, Ints], count: int
) -> tuple[Floats, Ints]:
    out = np.full(count, np.nan)
    status = np.zeros(count, dtype=np.int8)
    for formula in quantity.formulas:
        found = [statuses[name] for name in formula.metrics if name in statuses]
        if found:
            status = np.maximum(status, np.where(np.max(found, axis=0) == MEASURED, 0, np.max(found, axis=0)))
        if all(name in values for name in formula.metrics):
            out = np.where(np.isnan(out), _evaluate(formula, values), out)
    if quantity.unit in _COUNTS:
        # Multi-pass sums can come out a little below nothing; such a count says nothing.
        negative = out < 0
        out = np.where(negative, np.nan, out)
        status = np.where(negative, FAILED, status)
    return out, np.where(np.isnan(out), status, MEASURED).astype(np.int8)


def _evaluate(formula: Formula, values: Mapping[str, Floats]) -> Floats:
    total = np.sum([weight * values[name] for name, weight in formula.terms], axis=0)
    for name in formula.times:
        total = total * values[name]
    for name in formula.over:
        total = np.divide(total, values[name], out=np.full_like(total, np.nan), where=values[name] != 0)
    return np.asarray(total * formula.scale, dtype=np.float64)


def _without_dram(launches: pd.DataFrame, status: Ints, extra: tuple[Path, ...]) -> Ints:
    """Unsupported, not merely uncollected, where the chip has no DRAM counter."""
    lacking = [cc for one in chips(extra).values() if one.metrics.get("dram") == () for cc in one.cc]
    lacks = launches["cc"].isin(lacking).to_numpy(dtype=bool)
    return np.where(lacks & (status != MEASURED), UNSUPPORTED, status).astype(np.int8)


def _operations(
    columns: Mapping[str, Floats | Ints | npt.NDArray[np.bool_]],
    values: Mapping[str, Floats],
    known: Mapping[str, Quantity],
) -> dict[str, Floats | npt.NDArray[np.bool_]]:
    """Operations of the vector and of the tensor units.

    `vector_flops` needs the FP32 counters; what else was counted is added. `tensor_flops` is the sum over the types
    that were counted: NaN where none was, or where the tensor pipe ran and none of them saw it; 0 where the pipe did
    not run. `tensor_open` marks a 0 of the counted types with nothing said of the pipe: another type may have run.
    """
    vector = [np.asarray(columns[key]) for key, one in known.items() if one.group == "vector"]
    fp32 = np.asarray(columns["fp32_flops"])
    vector_flops = np.where(np.isnan(fp32), np.nan, np.nansum(np.stack(vector), axis=0))
    parts = []
    for key, one in known.items():
        if one.group == "tensor":
            held = (
                ~np.isnan(values[one.part_of]) if one.part_of in values else np.zeros(len(fp32), dtype=bool)
            )
            parts.append(np.where(held, np.nan, np.asarray(columns[key])))
    stacked = np.stack(parts)
    counted = ~np.isnan(stacked).all(axis=0)
    total = np.where(counted, np.nansum(stacked, axis=0), np.nan)
    pipe = np.asarray(columns["tensor_instructions"], dtype=np.float64)
    unseen = (pipe > 0) & (total == 0)
    total = np.where(unseen, np.nan, np.where((pipe == 0) & ~(total > 0), 0.0, total))
    is_open = np.isnan(pipe) & ~(total > 0)
    return {"vector_flops": vector_flops, "tensor_flops": total, "tensor_open": is_open}
