"""The capture folder: annotation text, manifest and ceilings on disk."""

import json
from pathlib import Path

import pytest

from tracekit.errors import CaptureError, FormatError
from tracekit.formats import (
    CEILINGS,
    RUN,
    MeasuredCeilings,
    RequestSums,
    RunManifest,
    Workload,
    step_annotation,
)

WORKLOAD = Workload(
    model="m", dtype="fp32", kv_dtype="fp32", phases=("prefill",), batch=1, prompt_len=8, kv_len=4,
    decode_steps=2, warmup=0, repeats=1, seed=0, device="cpu", attention="sdpa",
)  # fmt: skip
MANIFEST = RunManifest(
    workload=WORKLOAD, model={"name": "m"}, parameters=10, weight_bytes=40, kv_bytes_per_token=8,
    device={"kind": "cpu"}, versions={"torch": "2"}, command="tracekit collect", notes=("a note",),
)  # fmt: skip
CEILING = MeasuredCeilings(
    device={"kind": "cpu", "name": "A CPU"},
    peaks={"fp32": {"flops_per_s": 1e11, "shape": [8, 8, 8]}},
    dram={"copy_bytes_per_s": 2e10, "read_bytes_per_s": 3e10, "buffer_bytes": 256e6},
    launch_overhead_ns=900.0,
    method="measured",
)


def test_the_annotation_is_the_detailed_form_of_a_mixed_step() -> None:
    # One prompt of 512 tokens beside seven decodes whose key lengths sum to 9000.
    context = RequestSums.of([(512, 512)])
    generation = RequestSums.of([(1, 1286)] * 5 + [(1, 1285)] * 2)
    assert step_annotation(context, generation) == (
        "execute_519_context_1(sq512sk512sqsq262144sqsk262144)_generation_7(sq7sk9000sqsq7sqsk9000)"
    )


def test_a_later_chunk_multiplies_its_queries_with_all_its_keys() -> None:
    assert RequestSums.of([(256, 1024)]) == RequestSums(1, 256, 1024, 65_536, 262_144)


def test_a_manifest_survives_the_disk(tmp_path: Path) -> None:
    MANIFEST.write(tmp_path)
    assert RunManifest.read(tmp_path) == MANIFEST


def test_ceilings_survive_the_disk(tmp_path: Path) -> None:
    CEILING.write(tmp_path)
    found = MeasuredCeilings.read(tmp_path)
    assert found.flops_per_s() == {"fp32": 1e11}
    assert found.dram_bytes_per_s() == 3e10


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"run\.json: no such file"):
        RunManifest.read(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"schema_version": 1}', '{"schema_version": 99}', '{"schema_version": "1"}']
)
def test_a_damaged_manifest_is_a_format_error(tmp_path: Path, text: str) -> None:
    (tmp_path / RUN).write_text(text)
    with pytest.raises(FormatError):
        RunManifest.read(tmp_path)


@pytest.mark.parametrize("rate", [0, -1.0, None, "fast", True])
def test_a_ceiling_that_is_no_rate_is_a_format_error(tmp_path: Path, rate: object) -> None:
    CEILING.write(tmp_path)
    document = json.loads((tmp_path / CEILINGS).read_text())
    document["peaks"]["fp32"]["flops_per_s"] = rate
    (tmp_path / CEILINGS).write_text(json.dumps(document))
    with pytest.raises(FormatError):
        MeasuredCeilings.read(tmp_path)


def test_fields_of_a_later_version_are_left_out(tmp_path: Path) -> None:
    MANIFEST.write(tmp_path)
    document = json.loads((tmp_path / RUN).read_text())
    (tmp_path / RUN).write_text(json.dumps({**document, "invented_later": 1}))
    assert RunManifest.read(tmp_path) == MANIFEST


def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="cannot be written"):
        MANIFEST.write(tmp_path / "absent")
