"""A mixed step's kernels divided between prefill and decode."""

import numpy as np
import pandas as pd
import pytest

from tracekit.phase.apportion import apportion, context_shares
from tracekit.phase.grammar import COUNTS


def counts(**known: float) -> pd.DataFrame:
    return pd.DataFrame([{name: known.get(name, np.nan) for name in COUNTS}])


# One new prompt of 100 tokens beside four requests that each decode one token at 1,000 keys:
# linear layers 100 : 4; attention 100 * 101 / 2 = 5,050 causal products against 4,000.
STEP = counts(
    context_requests=1, context_tokens=100, context_sk=100, context_sqsq=10_000, context_sqsk=10_000,
    generation_requests=4, generation_tokens=4, generation_sk=4_000, generation_sqsq=4, generation_sqsk=4_000,
)  # fmt: skip


def test_linear_layers_go_by_tokens_and_attention_by_products() -> None:
    shares = context_shares(STEP)
    assert shares["by_tokens"].tolist() == [pytest.approx(100 / 104)]
    assert shares["by_attention"].tolist() == [pytest.approx(5_050 / 9_050)]


def test_only_kernels_of_mixed_steps_are_divided() -> None:
    kernels = pd.DataFrame(
        {
            "phase": pd.Categorical(["mixed", "mixed", "decode", "mixed"]),
            "family": pd.Categorical(["gemm", "attn", "gemm", "attn.meta"]),
        }
    )
    found = apportion(kernels, np.array([0, 0, 0, -1]), context_shares(STEP))
    assert found == pytest.approx([100 / 104, 5_050 / 9_050, np.nan, np.nan], nan_ok=True)


def test_without_products_attention_is_not_divided() -> None:
    plain = counts(context_requests=1, context_tokens=100, generation_requests=4, generation_tokens=4)
    shares = context_shares(plain)
    assert shares["by_tokens"].tolist() == [pytest.approx(100 / 104)]
    assert shares["by_attention"].isna().all()
