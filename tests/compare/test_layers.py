"""Places in the repeated layer sequence, on sequences of families written out."""

import json
from pathlib import Path

import pandas as pd
import pytest
from tracebuilder import TraceBuilder
from typer.testing import CliRunner

from tracekit.cli import app
from tracekit.compare.layers import AFTER, BEFORE, layer_places
from tracekit.formats import RequestSums, step_annotation

LAYER = ["norm", "gemm", "rope", "attn", "gemm", "norm", "gemm", "act", "gemm"]
IN_LAYER = [
    "before attention: norm", "before attention: product 1", "before attention: rope", "attention",
    "after attention: product 1", "after attention: norm", "after attention: product 2", "after attention: act",
    "after attention: product 3",
]  # fmt: skip


def places(families: list[str], **more: object) -> pd.DataFrame:
    rows = {"run": 0, "rank": 0, "device": 0, "step_id": 0, "ts_ns": range(len(families)), "family": families}
    return layer_places(pd.DataFrame({**rows, **more}))


def test_what_surrounds_the_layers_stands_apart() -> None:
    found = places(["embed", *LAYER, *LAYER, *LAYER, "norm", "gemm", "sampling"])
    assert found["place"].tolist() == [BEFORE, *IN_LAYER * 3, AFTER, AFTER, AFTER]
    assert found["layer"].tolist()[1:-3] == [0] * 9 + [1] * 9 + [2] * 9
    assert found["layer"].isna().sum() == 4


def test_a_layer_without_fusion_has_the_same_places_for_its_products() -> None:
    unfused = ["norm", "gemm", "gemm", "gemm", "rope", "rope", "attn", "gemm", "norm", "gemm", "act", "gemm"]
    found = places(["embed", *unfused * 2, "gemm"])
    places_of_products = [place for place in found["place"] if "product" in place]
    assert places_of_products[:6] == [
        "before attention: product 1", "before attention: product 2", "before attention: product 3",
        "after attention: product 1", "after attention: product 2", "after attention: product 3",
    ]  # fmt: skip


def test_two_attention_kernels_of_one_layer_are_one_layer() -> None:
    mixed = ["gemm", "attn", "attn", "attn.combine", "gemm"]
    found = places(mixed * 2)
    assert found["layer"].tolist() == [0] * 5 + [1] * 5
    assert found["place"].tolist()[1:4] == [
        "attention",
        "after attention: attn",
        "after attention: attn.combine",
    ]


def test_without_attention_or_a_step_there_are_no_places() -> None:
    assert set(places(["gemm", "norm"])["place"]) == {""}
    assert set(places(LAYER, step_id=pd.array([pd.NA] * 9, dtype="Int64"))["place"]) == {""}


def test_steps_and_runs_are_apart_whatever_the_order_of_rows() -> None:
    two = ["embed", *LAYER * 2]
    together = places([*two[::-1], *two], run=[0] * 19 + [1] * 19, ts_ns=[*range(18, -1, -1), *range(19)])
    in_order = [BEFORE, *IN_LAYER * 2]
    assert together["place"].tolist() == [*in_order[::-1], *in_order]


def write(path: Path, second_product: float) -> str:
    trace = TraceBuilder()
    names = ["gemm_kernel", "flash_fwd_kernel", "gemm_kernel"]
    for step in range(3):
        trace.annotation(step_annotation(RequestSums(), RequestSums.of([(1, 100)])), step * 1000.0, 300)
        for number, name in enumerate(names * 2):
            start = step * 1000 + 10 + 40 * number
            trace.launched(name, start, start + 5, second_product if number % 3 == 2 else 10)
    return trace.write(path)


def test_a_comparison_names_the_place_that_changed(tmp_path: Path) -> None:
    pair = write(tmp_path / "base.json", 10), write(tmp_path / "new.json", 15)
    found = json.loads(CliRunner().invoke(app, ["compare", *pair, "--json"]).stdout)
    changed = {row["place"]: row["delta_ns"] for row in found["places"] if row["delta_ns"]}
    # Two layers, 5 us each.
    assert changed == {"after attention: product 1": pytest.approx(10_000)}
    assert [(row["layer"], row["delta_ns"]) for row in found["layers"]] == [
        (0, pytest.approx(5_000)),
        (1, pytest.approx(5_000)),
    ]
    shown = CliRunner().invoke(app, ["compare", *pair]).stdout
    assert "Places in the layer" in shown
