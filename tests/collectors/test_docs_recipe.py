"""The recipe of docs/how-to/collect-from-your-own-code.md runs, and writes the annotation that tracekit reads."""

import gzip
import json
import re
from pathlib import Path

import pytest

from tracekit.formats import RequestSums, step_annotation

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.torch

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "collect-from-your-own-code.md"


def test_the_recipe_writes_the_detailed_annotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    prefill, decode = [(512, 512)], [(1, 1001)] * 8
    # On a machine without a GPU torch warns that it records the CPU alone.
    cpu_only = code.replace(", ProfilerActivity.CUDA", "")
    exec(compile(cpu_only, str(DOCS), "exec"), {"steps": [(prefill, decode, lambda: torch.ones(2) + 1)]})  # noqa: S102 - the documented code is what is tested
    events = json.loads(gzip.decompress((tmp_path / "timing.trace.json.gz").read_bytes()))["traceEvents"]
    expected = step_annotation(RequestSums.of(prefill), RequestSums.of(decode))
    assert [event["name"] for event in events if event.get("cat") == "user_annotation"] == [expected]
