"""The roofline of a comparison, and tables over many runs as files."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq
import pytest
from tracebuilder import TraceBuilder
from typer.testing import CliRunner

from tracekit.cli import app
from tracekit.compare.contract import SCHEMA_VERSION, Comparison, KernelChange, Pair, Verdicts
from tracekit.compare.movement import movement
from tracekit.formats import RequestSums, step_annotation

RESULT = Verdicts("slower", 1.1, 1.05, 1.15, 0.02, [10, 10], drift_covered=True)
ROOFS = [{"bf16": 1e15, "dram": 2e12}, {"bf16": 2e15, "dram": 4e12}]


def change(name: str, intensity: Pair, rate: Pair) -> KernelChange:
    nothing, unknown = Pair(1.0, 2.0), Pair(None, None)
    return KernelChange(
        "decode", "gemm", "", "exact", [name], [name], nothing, nothing, 1.0, 2.0, rate, intensity, unknown, [None, None], None,
    )  # fmt: skip


def comparison(*kernels: KernelChange) -> Comparison:
    return Comparison(SCHEMA_VERSION, ["a"], ["b"], ["A", "B"], ROOFS, RESULT, [], [], [], [], [*kernels], [])


def test_an_arrow_goes_from_base_to_new_and_up_where_it_got_faster() -> None:
    found = movement(comparison(change("mm", Pair(10.0, 10.0), Pair(1e13, 2e13))))
    assert found is not None
    drawn = ET.fromstring(found.svg)  # noqa: S314 - our own drawing
    (arrow,) = [line for line in drawn.iter("line") if line.get("marker-end")]
    assert arrow.get("x1") == arrow.get("x2")
    assert float(arrow.get("y2") or 0) < float(arrow.get("y1") or 0)
    # The roofs of both sides, base's solid and new's dashed.
    assert [line.get("stroke-dasharray") for line in drawn.iter("polyline")] == ["none", "6 4"]


def test_a_hostile_name_is_text_in_the_picture() -> None:
    found = movement(comparison(change('"><script>alert(1)</script>', Pair(1.0, 2.0), Pair(1e12, 1e12))))
    assert found is not None
    assert "<script" not in found.svg
    ET.fromstring(found.svg)  # noqa: S314 - our own drawing


@pytest.mark.parametrize("rate", [Pair(None, 1e12), Pair(0.0, 1e12)])
def test_without_work_on_both_sides_there_is_no_picture(rate: Pair) -> None:
    assert movement(comparison(change("mm", Pair(1.0, 1.0), rate))) is None


def decode(path: Path, batch: int, length: int) -> str:
    trace = TraceBuilder()
    for step in range(3):
        requests = [(1, length)] * batch
        trace.annotation(step_annotation(RequestSums(), RequestSums.of(requests)), step * 1000.0, 300)
        trace.launched("flash_fwd_kernel<64>", step * 1000 + 5, step * 1000 + 20, batch * length / 10)
    return trace.write(path)


def test_a_sweep_is_written_with_its_maps(tmp_path: Path) -> None:
    runs = [
        decode(tmp_path / f"{batch}-{length}.json", batch, length)
        for batch in (1, 2)
        for length in (100, 200)
    ]
    out = tmp_path / "sweep"
    done = CliRunner().invoke(app, ["compare", *runs, "-o", str(out)])
    assert done.exit_code == 0, done.stderr
    rows = json.loads((out / "sweep.json").read_text())["runs"]
    assert {(row["batch"], row["length"]) for row in rows} == {(1, 100), (1, 200), (2, 100), (2, 200)}
    assert pq.read_table(out / "sweep.parquet").num_rows == 4
    page = (out / "sweep.html").read_text()
    assert "decode: time a step" in page
    # The longest step is the darkest cell, half of it half as dark.
    assert "rgba(9,105,218,0.60)" in page
    assert "rgba(9,105,218,0.30)" in page
    assert "| Batch | length 100 | length 200 |" in (out / "sweep.md").read_text()
