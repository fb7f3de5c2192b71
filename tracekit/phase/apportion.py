"""Mixed steps: which part of a kernel's time is the context's (prefill), which the generation's (decode).

Nothing measures it: one kernel serves both. Linear layers and everything else that works token by token are
divided by tokens, attention by its products of query and key lengths.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracekit.phase.sums import side_sums
from tracekit.tables import Phase
from tracekit.tables.text import matches

Floats = npt.NDArray[np.float64]
COLUMN = "context_share"


def context_shares(counts: pd.DataFrame) -> pd.DataFrame:
    """The context's share of each step's work, `by_tokens` and `by_attention`; NaN where its counts are not known.

    Attention is counted causally: a new chunk's queries see half of its own keys, sum(q k) - sum(q (q - 1)) / 2.

    Args:
        counts: The columns named in `grammar.COUNTS`, one row a step.
    """
    context, generation = (side_sums(counts, side) for side in ("context", "generation"))
    products = context["qk"] - (context["qq"] - context["q"]) / 2
    return pd.DataFrame(
        {
            "by_tokens": _share(context["q"], generation["q"]),
            "by_attention": _share(products, generation["qk"]),
        },
        index=counts.index,
    )


def _share(context: pd.Series, generation: pd.Series) -> pd.Series:
    total = context + generation
    return (context / total).where(total > 0)


def apportion(kernels: pd.DataFrame, step: npt.NDArray[np.int64], shares: pd.DataFrame) -> Floats:
    """The context's share of each kernel of a mixed step; NaN for all others, and where it is not known.

    Args:
        kernels: Labelled kernels with `phase` and `family`.
        step: Row of `shares` of each kernel, negative where it has no step.
        shares: What `context_shares` gives.
    """
    mixed = matches(kernels["phase"], f"^{Phase.MIXED}$") & (step >= 0)
    attention = matches(kernels["family"], r"^attn(?!\.meta)")
    at = np.where(mixed, step, 0)
    if not len(shares):
        return np.full(len(kernels), np.nan)
    by_tokens, by_attention = (
        shares[name].to_numpy(dtype=np.float64)[at] for name in ("by_tokens", "by_attention")
    )
    return np.where(mixed, np.where(attention, by_attention, by_tokens), np.nan)
