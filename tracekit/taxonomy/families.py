"""Families of kernels and ops: every distinct name is looked at once."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.tables import Kind
from tracekit.tables.text import distinct, is_word, numbered
from tracekit.taxonomy.rules import LONGEST, OTHER, Rule, demangle, first_match, rules
from tracekit.taxonomy.tiles import read_tile

Ints = npt.NDArray[np.intp]


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
    on_cpu = is_word(kernels, "kind", Kind.CPU_OP)
    texts, number = distinct(kernels["name"])
    # The last is for rows without a name: it is no word of any rule.
    names = [demangle(text)[:LONGEST] for text in texts[:-1]]
    by_own = np.where(on_cpu, len(names), number)
    tiles = [read_tile(name, rules("tile", extra)) for name in names]
    hints = [first_match(name, rules("hint", extra)) for name in names]
    weights = np.array([*(np.nan if hint is None else hint.weight for hint in hints), np.nan])
    tokens = np.array([*(np.nan if tile is None else tile.tokens for tile in tiles), np.nan])
    return kernels.assign(
        family=_families(_words(names, rules("family", extra)), by_own, kernels["op"], rules("op", extra)),
        name_dtype=numbered(by_own, [*_words(names, rules("dtype", extra)), None]),
        name_tile=numbered(by_own, [*(None if tile is None else tile.text for tile in tiles), None]),
        tile_tokens=tokens[by_own],
        phase_hint=numbered(by_own, [*(None if hint is None else hint.word for hint in hints), None]),
        phase_hint_weight=weights[by_own],
    )


def _words(names: Sequence[str], candidates: tuple[Rule, ...]) -> list[str | None]:
    """What the rules say of each name; None where none matches."""
    found = (first_match(name, candidates) for name in names)
    return [None if rule is None else rule.word for rule in found]


def _families(
    own: list[str | None], by_own: Ints, ops: pd.Series, candidates: tuple[Rule, ...]
) -> pd.Categorical:
    """The family of each kernel: its own name's, else its op's, else `other`."""
    texts, by_op = distinct(ops)
    of_ops = [word or OTHER for word in _words([demangle(text)[:LONGEST] for text in texts[:-1]], candidates)]
    silent = np.array([*(word is None for word in own), True], np.bool_)[by_own]
    return numbered(np.where(silent, by_op + len(own), by_own), [*own, *of_ops, OTHER])
