"""A small decoder recorded here and now: the whole path from a profiler's file to exact operations."""

from pathlib import Path

import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install tracekit-llm[collect]")

from tracekit.link import link  # noqa: E402 - after the skip
from tracekit.readers import read  # noqa: E402 - after the skip
from tracekit.work import model_work  # noqa: E402 - after the skip

pytestmark = pytest.mark.torch

BATCH, LENGTH, HIDDEN, HEADS, DIM, WIDE, VOCAB = 2, 16, 32, 4, 8, 64, 50


def decoder() -> None:
    """One layer: norm, q k v in one product, causal attention, output product, gated MLP, logits of the last token."""
    functional = torch.nn.functional
    tokens = torch.zeros(BATCH, LENGTH, dtype=torch.long)
    x = functional.embedding(tokens, torch.randn(VOCAB, HIDDEN))
    y = functional.layer_norm(x, (HIDDEN,))
    q, k, v = (
        functional.linear(y, torch.randn(3 * HIDDEN, HIDDEN))
        .view(BATCH, LENGTH, 3, HEADS, DIM)
        .permute(2, 0, 3, 1, 4)
    )
    y = (
        functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        .transpose(1, 2)
        .reshape(BATCH, LENGTH, HIDDEN)
    )
    x = x + functional.linear(y, torch.randn(HIDDEN, HIDDEN), torch.randn(HIDDEN))
    gate, up = functional.linear(x, torch.randn(2 * WIDE, HIDDEN)).chunk(2, -1)
    x = x + functional.linear(functional.silu(gate) * up, torch.randn(HIDDEN, WIDE))
    torch.softmax(x[:, -1] @ torch.randn(HIDDEN, VOCAB), -1).topk(3)


@pytest.fixture(scope="module")
def modelled(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    path: Path = tmp_path_factory.mktemp("cpu") / "trace.json"
    with (
        torch.no_grad(),
        torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
        ) as recorder,
    ):
        decoder()
    recorder.export_chrome_trace(str(path))
    found = read(str(path))
    capture = found if not isinstance(found, (list, tuple)) else found[0]
    linked = link(capture)
    return model_work(linked.kernels, linked.ops, capture.signatures)


def flops_of(modelled: pd.DataFrame, *ops: str) -> float:
    return float(modelled.loc[modelled["op"].isin(ops), "flops"].sum())


def test_products_are_counted_once_whatever_wraps_them(modelled: pd.DataFrame) -> None:
    rows = BATCH * LENGTH
    layer = HIDDEN * 3 * HIDDEN + HIDDEN * HIDDEN + HIDDEN * 2 * WIDE + WIDE * HIDDEN
    expected = 2 * rows * layer + 2 * BATCH * HIDDEN * VOCAB
    products = (
        "aten::mm",
        "aten::addmm",
        "aten::linear",
        "aten::matmul",
        "aten::bmm",
        "mkldnn::_linear_pointwise",
    )
    assert flops_of(modelled, *products) == expected


def test_causal_attention_is_counted_once_and_exactly(modelled: pd.DataFrame) -> None:
    attention = modelled["op"].astype(str).str.contains("scaled_dot_product")
    pairs = LENGTH * (LENGTH + 1) // 2
    assert modelled.loc[attention, "flops"].sum() == 4 * BATCH * HEADS * DIM * pairs


def test_nearly_all_time_has_work(modelled: pd.DataFrame) -> None:
    known = modelled["flops"].notna() | modelled["dram_bytes"].notna()
    assert modelled.loc[known, "dur_ns"].sum() / modelled["dur_ns"].sum() > 0.95
