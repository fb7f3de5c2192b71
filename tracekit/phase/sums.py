"""Sums over the requests of a step, completed by what is exact."""

import numpy as np
import pandas as pd

SIDES = ("context", "generation")


def request_sums(counts: pd.DataFrame) -> pd.DataFrame:
    """sum_q, sum_k, sum_qq, sum_qk of each step, and the context's part of the last three; null where the engine did not say.

    A side without tokens sums to zero; where every request has one token, its squares sum to the
    requests and its products to the keys.

    Args:
        counts: The columns named in `grammar.COUNTS`, one row a step.
    """
    full = {side: side_sums(counts, side) for side in SIDES}
    both = {name: full["context"][name] + full["generation"][name] for name in ("q", "k", "qq", "qk")}
    sums = {f"sum_{name}": values for name, values in both.items()}
    sums |= {f"context_sum_{name}": full["context"][name] for name in ("k", "qq", "qk")}
    return pd.DataFrame(sums, index=counts.index)


def complete(counts: pd.DataFrame) -> pd.DataFrame:
    """The counts with tokens filled in where a side has no request."""
    filled = {f"{side}_tokens": _tokens(counts, side) for side in SIDES}
    return counts.assign(**filled)


def _tokens(counts: pd.DataFrame, side: str) -> pd.Series:
    return counts[f"{side}_tokens"].where(counts[f"{side}_requests"] != 0, 0.0)


def side_sums(counts: pd.DataFrame, side: str) -> dict[str, pd.Series]:
    """Sums of one side's requests: q, k, qq, qk."""
    requests, q = counts[f"{side}_requests"], _tokens(counts, side)
    none, single = q == 0, (q == requests) & (q > 0)
    k = counts[f"{side}_sk"].mask(none, 0.0)
    qq = counts[f"{side}_sqsq"].mask(none, 0.0)
    qk = counts[f"{side}_sqsk"].mask(none, 0.0)
    return {
        "q": q,
        "k": k,
        "qq": qq.where(~(single & qq.isna()), requests),
        "qk": qk.where(~(single & qk.isna()), k),
    }


def to_integers(values: pd.Series) -> pd.arrays.IntegerArray:
    """A float column of counts as nullable int64."""
    missing = values.isna().to_numpy(dtype=bool)
    return pd.arrays.IntegerArray(
        np.where(missing, 0, values.to_numpy(dtype=float)).astype(np.int64), missing
    )
