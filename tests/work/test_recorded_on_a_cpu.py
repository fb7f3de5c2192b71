"""A small decoder recorded here and now: the whole path from a profiler's file to exact operations."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install tracekit-llm[collect]")

from collectors.decoder.moe import MixtureOfExperts  # noqa: E402 - after the skip
from tracekit.link import link  # noqa: E402 - after the skip
from tracekit.models import ModelConfig  # noqa: E402 - after the skip
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


def recorded(run: Callable[[], object], folder: Path) -> pd.DataFrame:
    """The work of what a profiler records of a run."""
    path = folder / "trace.json"
    with (
        torch.no_grad(),
        torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
        ) as recorder,
    ):
        run()
    recorder.export_chrome_trace(str(path))
    found = read(str(path))
    capture = found if not isinstance(found, (list, tuple)) else found[0]
    linked = link(capture)
    return model_work(linked.kernels, linked.ops, capture.signatures)


@pytest.fixture(scope="module")
def modelled(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return recorded(decoder, tmp_path_factory.mktemp("cpu"))


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


def test_the_collectors_experts_are_counted_as_they_were_touched(tmp_path: Path) -> None:
    # Each expert that has tokens is a product of its own, so what was recorded tells which were touched.
    hidden, wide, count, tokens = 32, 24, 16, 5
    config = ModelConfig(
        "moe", 1, hidden, 0, 4, 2, 8, 100, experts=count, experts_per_token=2, expert_intermediate=wide
    )
    torch.manual_seed(0)
    layer, x = MixtureOfExperts(config), torch.randn(tokens, hidden)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight)
    work = recorded(lambda: layer(x), tmp_path)
    with torch.no_grad():
        touched = len(set(layer.router(x).topk(2, dim=-1).indices.flatten().tolist()))
    assert 2 < touched < count
    router = 4 * (count * hidden + (0 if layer.router.bias is None else count))
    assert work["weight_bytes"].sum() == router + touched * 3 * hidden * wide * 4
    assert work["expected_bytes"].sum() == 0
