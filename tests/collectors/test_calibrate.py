"""Calibration: what it measures, and that reports of the same device find it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from collectortools import Recorder

from tracekit.formats import CEILINGS, MeasuredCeilings
from tracekit.pipeline.calibration import find_calibration, folder_for
from tracekit.pipeline.device import find_ceilings
from tracekit.pipeline.loading import load
from tracekit.pipeline.options import Options

H100 = {"kind": "cuda", "name": "NVIDIA H100 80GB HBM3", "cores": 132, "memory_bytes": 85_000_000_000}


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))


def keep(device: dict[str, Any]) -> Path:
    folder = folder_for(device)
    folder.mkdir(parents=True)
    peaks = {"bf16": {"flops_per_s": 700e12, "shape": [8192, 8192, 8192]}}
    dram = {"copy_bytes_per_s": 2.9e12, "read_bytes_per_s": 3.1e12}
    return MeasuredCeilings(device, peaks, dram, 2000.0, "calibrated").write(folder)


@pytest.mark.parametrize(
    ("name", "cores", "memory", "found"),
    [
        ("NVIDIA H100 80GB HBM3", 132, 85_000_000_000, True),
        ("NVIDIA H100 80GB HBM3", 132, 84_600_000_000, True),
        ("NVIDIA H100 80GB HBM3", 114, 85_000_000_000, False),
        ("NVIDIA H100 80GB HBM3", 132, 42_000_000_000, False),
        ("NVIDIA H100 80GB HBM3", 132, None, False),
        ("NVIDIA H100 PCIe", 132, 85_000_000_000, False),
        (None, 132, 85_000_000_000, False),
    ],
)
def test_a_calibration_is_of_the_device_whose_name_cores_and_memory_agree(
    name: str | None, cores: int, memory: int | None, found: bool
) -> None:
    keep(H100)
    assert (find_calibration(name, cores, memory, is_cpu=False) is not None) == found


def test_a_cpu_is_known_by_name_and_cores_and_a_broken_file_is_passed_over() -> None:
    keep({"kind": "cpu", "name": "EPYC", "cores": 8, "memory_bytes": 1})
    keep(H100).write_text("{", encoding="utf-8")
    assert find_calibration("EPYC", 8, None, is_cpu=True) is not None
    assert find_calibration("EPYC", 4, None, is_cpu=True) is None
    assert find_calibration("NVIDIA H100 80GB HBM3", 132, 85_000_000_000, is_cpu=False) is None


def capture(path: Path) -> Path:
    """One kernel on an H100."""
    device = {"id": 0, "name": H100["name"], "numSms": 132, "totalGlobalMem": H100["memory_bytes"]}
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 0, "dur": 1}
    event = {**kernel, "args": {"device": 0, "stream": 7}}
    path.write_text(json.dumps({"deviceProperties": [device], "traceEvents": [event]}), encoding="utf-8")
    return path


@pytest.mark.parametrize("device", [None, "A100 SXM4 80GB"])
def test_a_report_takes_the_calibration_and_keeps_the_data_sheet_beside_it(
    tmp_path: Path, device: str | None
) -> None:
    keep(H100)
    (loaded,), _ = load([str(capture(tmp_path / "one.json"))], Options())
    ceilings, _ = find_ceilings(loaded, loaded.capture.device_events, Options(device=device))
    assert ceilings.dram.measured == (3.1e12 if device is None else None)
    assert ceilings.peak("bf16").measured == (700e12 if device is None else None)
    assert ceilings.dram.spec == pytest.approx(3.35e12 if device is None else 2.039e12, rel=0.01)


@pytest.mark.torch
def test_what_a_calibration_measures_is_written_with_the_ceilings(tmp_path: Path, progress: Recorder) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from collectors.calibrate import THIN, calibrate  # noqa: PLC0415 - needs torch, which may be absent
    from collectors.ceilings import Effort  # noqa: PLC0415 - as above

    quick = Effort(sides=(32, 512), buffer_bytes=1 << 20, repeats=2, inner=1, ops=50)
    found = calibrate("cpu", progress, quick)
    path = found.write(tmp_path)
    assert path == tmp_path / CEILINGS
    assert MeasuredCeilings.read(path).dram_bytes_per_s() == found.ceilings.dram_bytes_per_s()
    more = json.loads(path.read_text(encoding="utf-8"))["calibration"]
    assert set(more["thin_flops_per_s"]["fp32"]) == {str(rows) for rows in THIN}
    places = {f"{access}_{place}" for access in ("copy", "read", "triad") for place in ("dram", "l2")}
    assert set(more["bytes_per_s"]) == places
    assert all(rate > 0 for rate in more["bytes_per_s"].values())
    assert more["graph_replay_ns"] is None
    assert set(found.ceilings.peaks["fp32"]["by_shape"]) >= {"32x32x32", "512x512x512", "1x512x512"}
    assert more["all_reduce"] is None
    # What was left out says why.
    assert {"fp8", "all-reduce"} <= set(more["not_measured"])
    assert all(progress.done[task] == total for task, total in progress.tasks if total)


@pytest.mark.torch
def test_a_scaled_product_is_that_of_the_rounded_operands() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from collectors.narrow import fp8_dtype, scaled_product  # noqa: PLC0415 - needs torch, which may be absent

    made = torch.Generator().manual_seed(0)
    left, right = (
        torch.empty(rows, 64).normal_(generator=made).to(fp8_dtype(torch.device("cpu"))) for rows in (16, 32)
    )
    found = scaled_product(left, right)
    assert found.shape == (16, 32)
    # bf16 keeps 8 bits of what fp32 sums to.
    assert torch.allclose(found.float(), left.float() @ right.float().T, rtol=2**-7, atol=0.1)


@pytest.mark.torch
@pytest.mark.parametrize("capability", ["8.0", "8.6", "7.5", ""])
def test_fp8_is_not_timed_where_no_unit_multiplies_it(capability: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from collectors.machine import Machine  # noqa: PLC0415 - needs torch, which may be absent
    from collectors.narrow import why_no_fp8  # noqa: PLC0415 - as above

    if torch.version.hip is not None:
        pytest.skip("capabilities are NVIDIA's")
    why = why_no_fp8(torch.device("cuda"), Machine("cuda", "NVIDIA", 132, 1, 1, capability))
    assert why == f"compute capability {capability} multiplies no fp8"


@pytest.mark.torch
def test_what_takes_long_is_measured_less_often() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from collectors.ceilings import Bench, Effort  # noqa: PLC0415 - needs torch, which may be absent

    calls = []

    def slow() -> None:
        calls.append(1)
        time.sleep(0.02)

    effort = Effort(sides=(32,), buffer_bytes=1, repeats=50, inner=5, ops=1, limit_s=0.03)
    assert Bench(torch.device("cpu"), effort).best(slow) >= 0.02
    # One that does not count, and repeats of one call each until the limit is past: two, or one on a busy machine.
    assert 2 <= len(calls) <= 3


@pytest.mark.torch
def test_the_all_reduce_of_two_processes_has_a_bus_bandwidth_and_a_latency() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from collectors.allreduce import all_reduce  # noqa: PLC0415 - needs torch, which may be absent

    found = all_reduce("cpu", 2, repeats=2, sizes=(4, 1 << 16))
    assert (found.ranks, found.backend) == (2, "gloo")
    assert set(found.time_ns) == {4, 1 << 16}
    assert found.latency_ns == found.time_ns[4] > 0
    # 2 (n - 1) / n is 1 for two ranks.
    assert found.bus_bytes_per_s()[1 << 16] == pytest.approx((1 << 16) / found.time_ns[1 << 16] * 1e9)


def test_a_measured_all_reduce_is_the_link_that_collectives_are_held_against(tmp_path: Path) -> None:
    path = keep(H100)
    kept = json.loads(path.read_text(encoding="utf-8"))
    kept["peer_link"] = {"all_reduce_bus_bytes_per_s": 360e9}
    path.write_text(json.dumps(kept), encoding="utf-8")
    (loaded,), _ = load([str(capture(tmp_path / "one.json"))], Options())
    ceilings, _ = find_ceilings(loaded, loaded.capture.device_events, Options())
    assert (ceilings.link.measured, ceilings.link.spec) == (360e9, 450e9)
