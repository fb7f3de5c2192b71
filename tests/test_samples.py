"""Every sample that ships is reported, and what the report says is held to a file beside the tests.

`pytest tests/test_samples.py --update-golden` writes the files anew: look at the difference before you commit it.
"""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import tracekit

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "sample_traces"
GOLDEN = Path(__file__).parent / "golden"
SCHEMA = json.loads((ROOT / "docs" / "reference" / "report.schema.json").read_text())
NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() or path.name.endswith(".json.gz"))


def summary_of(name: str) -> dict[str, Any]:
    """The summary, with paths that do not depend on where the project lies."""
    document = json.loads(json.dumps(tracekit.analyze([str(SAMPLES / name)]).summary))
    for capture in document["captures"]:
        capture["path"] = Path(capture["path"]).relative_to(ROOT).as_posix()
    return document


def close(value: Any) -> Any:
    """The same with floats that compare approximately: sums may be taken in another order elsewhere."""
    if isinstance(value, dict):
        return {key: close(item) for key, item in value.items()}
    if isinstance(value, list):
        return [close(item) for item in value]
    return pytest.approx(value, rel=1e-6) if isinstance(value, float) else value


@pytest.mark.parametrize("name", NAMES)
def test_the_report_of_a_sample_is_the_recorded_one(name: str, request: pytest.FixtureRequest) -> None:
    document = summary_of(name)
    jsonschema.validate(document, SCHEMA)
    golden = GOLDEN / f"{name.split('.', maxsplit=1)[0]}.json"
    if request.config.getoption("--update-golden"):
        golden.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    assert document == close(json.loads(golden.read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_holds_no_private_names(name: str) -> None:
    path = SAMPLES / name
    size = sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]))
    assert size < 1_000_000
    assert "/root/" not in json.dumps(summary_of(name))


@pytest.mark.parametrize("name", ["cpu-dense", "cpu-mixed"])
def test_prefill_stands_right_of_decode_in_arithmetic_intensity(name: str) -> None:
    """The claim that tracekit was made to check, on its own run: intensities from shapes, exact, not times."""
    kernels = tracekit.analyze([str(SAMPLES / name)]).kernels
    linear = kernels[kernels["family"].isin(["gemm", "gemv"])]
    sums = linear.groupby("phase", observed=True)[["flops", "dram_bytes"]].sum()
    intensity = sums["flops"] / sums["dram_bytes"]
    assert intensity["prefill"] > 30 * intensity["decode"] / (4 if name == "cpu-mixed" else 1)
    assert intensity["prefill"] > 40
    assert intensity["decode"] < 3


def test_the_phases_of_a_mixed_run_are_told_apart() -> None:
    steps = tracekit.analyze([str(SAMPLES / "cpu-mixed")]).steps
    assert set(steps["phase"]) == {"prefill", "decode", "mixed"}
    assert (steps["confidence"] == 0.99).all()
