"""Families of kernels and ops: every distinct name is looked at once."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from tracekit.tables import Kind
from tracekit.tables.text import coded, mapped
from tracekit.taxonomy.rules import LONGEST, OTHER, Rule, demangle, first_match, rules
from tracekit.taxonomy.tiles import read_tile


def name_families(kernels: pd.DataFrame, extra: tuple[Path, ...] = ()) -> pd.DataFrame:
    """The kernels with the columns that their names tell.

    A kernel whose own name says nothing takes the family of the op that launched it; a row of kind
    `cpu_op` is named by its op alone.

    Args:
        kernels: Rows with `name`, `kind` and `op`.
        extra: Folders given with `--data`, whose rows come first.

    Returns:
        The rows with `family` (`other` where no rule matched), `name_dtype` (null where the name has no
        type), `name_tile` ("MxNxK", null likewise), `tile_tokens` (its side that meets the tokens, NaN where
        unknown), `phase_hint` and `phase_hint_weight` (null where the name decides no phase).

    Raises:
        RegistryError: A row of `data/kernels` is malformed.
    """
    on_cpu = (kernels["kind"] == str(Kind.CPU_OP)).to_numpy(dtype=bool)
    by_name = _look_up(kernels["name"], rules("family", extra))
    by_op = _look_up(kernels["op"], rules("op", extra))
    family = np.where(on_cpu | pd.isna(by_name), by_op, by_name)
    family[pd.isna(family)] = OTHER
    hints = rules("hint", extra)
    told = {
        "name_dtype": _look_up(kernels["name"], rules("dtype", extra)),
        "name_tile": _look_up(kernels["name"], rules("tile", extra), _tile_text),
        "tile_tokens": _look_up(kernels["name"], rules("tile", extra), _tile_tokens),
        "phase_hint": _look_up(kernels["name"], hints),
        "phase_hint_weight": _look_up(kernels["name"], hints, _weight),
    }
    for column in told.values():
        column[on_cpu] = None
    numbers = {"tile_tokens", "phase_hint_weight"}
    columns = {
        name: column.astype(float) if name in numbers else coded(column) for name, column in told.items()
    }
    return kernels.assign(family=coded(family), **columns)


def _word(name: str, candidates: tuple[Rule, ...]) -> object:
    rule = first_match(name, candidates)
    return None if rule is None else rule.word


def _weight(name: str, candidates: tuple[Rule, ...]) -> object:
    rule = first_match(name, candidates)
    return None if rule is None else rule.weight


def _tile_text(name: str, candidates: tuple[Rule, ...]) -> object:
    tile = read_tile(name, candidates)
    return None if tile is None else tile.text


def _tile_tokens(name: str, candidates: tuple[Rule, ...]) -> object:
    tile = read_tile(name, candidates)
    return None if tile is None else tile.tokens


def _look_up(
    names: pd.Series, candidates: tuple[Rule, ...], read: Callable[[str, tuple[Rule, ...]], object] = _word
) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    """What the rules say of each name; None where none matches. Every distinct name is read once."""
    return mapped(names, lambda name: read(demangle(name)[:LONGEST], candidates))
