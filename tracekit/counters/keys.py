"""What makes a launch comparable to a kernel: name, grid, block, device, and the step around it."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.counters.names import Name, canonical_name
from tracekit.tables.text import mapped

Ints = npt.NDArray[np.int64]
Objects = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class Keys:
    """Codes of kernels and launches: equal where they may be the same, -1 where they can be nothing.

    Attributes:
        kernels: Code of each kernel.
        launches: Code of each launch.
        ambiguous: Launches whose name has no template arguments and that several kernels answer to.
        by_size: Grids were compared by their number of blocks and threads alone.
        by_name: There were no grids to compare; only names of one grid were.
    """

    kernels: Ints
    launches: Ints
    ambiguous: int = 0
    by_size: bool = False
    by_name: bool = False


def compare(kernels: pd.DataFrame, launches: pd.DataFrame, sizes: pd.DataFrame) -> Keys:
    """Codes by name, grid, block and device."""
    mine_named = kernels["name"].astype("category").cat.remove_unused_categories()
    known = [canonical_name(text) for text in mine_named.cat.categories]
    theirs, ambiguous = _launch_names(launches["name"], known)
    left: dict[str, Any] = {"name": mapped(mine_named, lambda text: canonical_name(text).full)}
    right: dict[str, Any] = {"name": theirs}
    here = bool(kernels["grid"].notna().any())
    with_grids = here and bool(launches["grid"].notna().any())
    by_size = here and not with_grids and bool(sizes["grid_size"].notna().any())
    if with_grids:
        for name in ("grid", "block"):
            left[name], right[name] = _texts(kernels[name]), _texts(launches[name])
    elif by_size:
        left["grid"], right["grid"] = _sizes(kernels["grid"]), _numbers(sizes["grid_size"])
        left["block"], right["block"] = _sizes(kernels["block"]), _numbers(sizes["block_size"])
    devices = [frame["device"].astype("float64") for frame in (kernels, launches)]
    if _devices_agree(*devices):
        left["device"], right["device"] = list(devices[0]), list(devices[1])
    mine, yours = _codes(pd.DataFrame(left), pd.DataFrame(right))
    by_name = not with_grids and not by_size
    if by_name:
        several = pd.Series(_texts(kernels["grid"])).groupby(mine).nunique()
        yours = np.where(np.isin(yours, several.index[several > 1]), -1, yours)
    return Keys(mine, yours, ambiguous, by_size, by_name)


def _launch_names(texts: pd.Series, known: list[Name]) -> tuple[Objects, int]:
    """The kernel's name of each launch; None where no kernel, or more than one, can be meant."""
    fulls = {name.full for name in known}
    by_base: dict[str, set[str]] = {}
    for name in known:
        by_base.setdefault(name.base, set()).add(name.full)
    found: dict[str, str | None] = {}
    doubtful: set[str] = set()
    column = texts.astype("category")
    for text in column.cat.categories:
        name = canonical_name(str(text))
        same_base = by_base.get(name.base, set()) if name.bare else set()
        if name.full in fulls:
            found[text] = name.full
        else:
            found[text] = next(iter(same_base)) if len(same_base) == 1 else None
            doubtful |= {text} if len(same_base) > 1 else set()
    return mapped(column, found.__getitem__), int(column.isin(list(doubtful)).sum())


def _texts(column: pd.Series) -> Objects:
    return mapped(column, lambda text: text.replace(" ", ""))


def _sizes(column: pd.Series) -> Objects:
    """The product of `x,y,z` texts."""
    return mapped(column, _product)


def _product(text: str) -> float | None:
    parts = text.replace(" ", "").split(",")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    product = 1.0
    for part in parts:
        product *= float(part)
    return product


def _numbers(column: pd.Series) -> Objects:
    return np.asarray(column.astype(object).where(column.notna(), None), dtype=object)


def _devices_agree(mine: pd.Series, yours: pd.Series) -> bool:
    """Both sides number several devices alike; a process that sees one device calls it 0, whichever it is."""
    if mine.isna().any() or yours.isna().any():
        return False
    return len(set(yours)) > 1 and set(mine) <= set(yours)


def _codes(left: pd.DataFrame, right: pd.DataFrame) -> tuple[Ints, Ints]:
    """A code for each distinct row of both frames; -1 where a value is missing."""
    both = pd.concat([left, right], ignore_index=True).astype(object)
    codes: Ints = np.array(both.groupby(list(both), sort=False).ngroup().fillna(-1), dtype=np.int64)
    codes[both.isna().any(axis=1).to_numpy(dtype=bool)] = -1
    return codes[: len(left)], codes[len(left) :]


def named_ranges(texts: pd.Series, annotations: pd.Series) -> npt.NDArray[np.object_]:
    """The step annotation that each text of NVTX ranges holds: the longest, and as a whole word; None where none."""
    values = texts.astype(object)
    known = sorted({str(name) for name in annotations.dropna().unique() if name}, key=len, reverse=True)
    found = {text: _held(str(text), known) for text in values.dropna().unique()}
    return np.array([found.get(text) for text in values], dtype=object)


def _held(text: str, known: list[str]) -> str | None:
    for name in known:
        if name in text and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text):
            return name
    return None
