"""Families of kernels and ops: every distinct name is looked at once."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from tracekit.tables import Kind
from tracekit.taxonomy.rules import LONGEST, OTHER, Rule, demangle, first_match, rules


def name_families(kernels: pd.DataFrame, extra: tuple[Path, ...] = ()) -> pd.DataFrame:
    """The kernels with the columns that their names tell.

    A kernel whose own name says nothing takes the family of the op that launched it; a row of kind
    `cpu_op` is named by its op alone.

    Args:
        kernels: Rows with `name`, `kind` and `op`.
        extra: Folders given with `--data`, whose rows come first.

    Returns:
        The rows with `family` (`other` where no rule matched), `name_dtype` (null where the name has no
        type), `phase_hint` and `phase_hint_weight` (null where the name decides no phase).

    Raises:
        RegistryError: A row of `data/kernels` is malformed.
    """
    on_cpu = (kernels["kind"] == str(Kind.CPU_OP)).to_numpy(dtype=bool)
    by_name = _look_up(kernels["name"], rules("family", extra))
    by_op = _look_up(kernels["op"], rules("op", extra))
    family = np.where(on_cpu | pd.isna(by_name), by_op, by_name)
    hint_rules = rules("hint", extra)
    hint = _look_up(kernels["name"], hint_rules)
    weight = _look_up(kernels["name"], hint_rules, lambda rule: rule.weight)
    dtype = _look_up(kernels["name"], rules("dtype", extra))
    hint[on_cpu], weight[on_cpu], dtype[on_cpu] = None, None, None
    family[pd.isna(family)] = OTHER
    return kernels.assign(
        family=pd.Categorical(family),
        name_dtype=pd.Categorical(dtype),
        phase_hint=pd.Categorical(hint),
        phase_hint_weight=weight.astype(float),
    )


def _look_up(
    names: pd.Series, candidates: tuple[Rule, ...], word: Callable[[Rule], object] = lambda rule: rule.word
) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    """What the first matching rule says of each name; None where none matches."""
    column = names.astype("category").cat
    found = [first_match(demangle(str(name))[:LONGEST], candidates) for name in column.categories]
    words = np.array([None if rule is None else word(rule) for rule in found] + [None], dtype=object)
    return words[column.codes.to_numpy()]
