"""Ceilings from a row, from a calibration and from the command line."""

import pandas as pd
import pytest

from tracekit.errors import CaptureError, UsageError
from tracekit.formats import MeasuredCeilings
from tracekit.roofline import (
    device_ceilings,
    load_devices,
    parse_peak,
    parse_rate,
    unknown_peaks,
    with_calibration,
    with_given,
    with_measured,
    with_reported,
)
from tracekit.tables import DeviceProperties
from tracekit.tables.ceilings import Ceilings, Roof

ROWS = {device.key: device for device in load_devices()}


def test_a_row_gives_data_sheet_roofs() -> None:
    h100 = device_ceilings(ROWS["h100-sxm5-80gb"])
    assert h100.peak("bf16").used == 989.4e12
    assert h100.peak("vector").used == h100.peak("fp32").used == 66.9e12
    assert h100.peak("fp64").used == 66.9e12  # matrix units; 33.5 without
    assert h100.dram.used == 3352e9
    assert (h100.sm_count, h100.l2_bytes) == (132, 50 * 2**20)
    assert not h100.peak("bf16").is_measured


def test_what_a_device_lacks_is_unknown_not_zero() -> None:
    v100 = device_ceilings(ROWS["v100-sxm2-16gb"])
    assert v100.peak("bf16").used is None
    assert v100.ridge("bf16") is None


def test_the_peer_link_of_an_sxm_part_is_not_its_host_link() -> None:
    assert device_ceilings(ROWS["h100-sxm5-80gb"]).host_link.used is None
    assert device_ceilings(ROWS["h100-pcie"]).host_link.used == 63e9


def test_measured_wins_over_spec_and_both_are_kept() -> None:
    roof = with_measured(device_ceilings(ROWS["h200-sxm"]), flops_per_s={"bf16": 787e12}).peak("bf16")
    assert (roof.used, roof.measured, roof.spec) == (787e12, 787e12, 989.4e12)


def test_a_cpu_has_measured_roofs_alone() -> None:
    cpu = with_measured(
        Ceilings("cpu"), flops_per_s={"fp32": 28e9}, dram_bytes_per_s=10.3e9, launch_floor_ns=9_000
    )
    assert cpu.peak("vector").used == 28e9
    assert cpu.ridge("vector") == pytest.approx(2.72, abs=0.005)
    assert cpu.launch_floor_ns == 9_000


def test_a_capture_folders_calibration_is_taken_with_its_method() -> None:
    found = MeasuredCeilings(
        device={"kind": "cuda"},
        peaks={"bf16": {"flops_per_s": 787e12, "shape": [8192, 8192, 8192]}},
        dram={"copy_bytes_per_s": 4.30e12, "read_bytes_per_s": 4.1e12, "buffer_bytes": 4e9},
        launch_overhead_ns=2_400,
        method="best of 10",
        host_link={"host_to_device_bytes_per_s": 54e9, "device_to_host_bytes_per_s": 52e9},
    )
    h200 = with_calibration(device_ceilings(ROWS["h200-sxm"]), found)
    assert (h200.peak("bf16").measured, h200.dram.measured, h200.host_link.measured) == (
        787e12,
        4.30e12,
        54e9,
    )
    assert h200.launch_floor_ns == 2_400
    assert h200.dram.source == "best of 10"
    assert h200.peak("fp8") == device_ceilings(ROWS["h200-sxm"]).peak("fp8")


def test_a_cpus_calibration_names_it_and_gives_its_cache() -> None:
    found = MeasuredCeilings(
        device={"kind": "cpu", "name": "Some CPU", "llc_bytes": 32 * 2**20},
        peaks={"fp32": {"flops_per_s": 28e9}},
        dram={"copy_bytes_per_s": 10.3e9, "read_bytes_per_s": 12e9},
        launch_overhead_ns=9_000,
        method="best of 5",
    )
    cpu = with_calibration(Ceilings(), found)
    assert (cpu.device, cpu.l2_bytes, cpu.dram.used) == ("Some CPU", 32 * 2**20, 12e9)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "fast"])
def test_a_measurement_that_is_no_rate_is_refused(value) -> None:  # noqa: ANN001 - wrong types are the point
    with pytest.raises(CaptureError, match="bf16"):
        with_measured(Ceilings(), flops_per_s={"bf16": value}, source="ceilings.json")


def test_an_unknown_dtype_in_a_calibration_is_refused() -> None:
    with pytest.raises(CaptureError, match="bf17"):
        with_measured(Ceilings(), flops_per_s={"bf17": 1e12})


def test_what_the_user_gives_wins_over_everything() -> None:
    base = with_measured(
        device_ceilings(ROWS["h200-sxm"]), flops_per_s={"bf16": 787e12}, dram_bytes_per_s=4.3e12
    )
    given = with_given(base, {"bf16": 700e12}, 4e12)
    assert (given.peak("bf16").used, given.dram.used) == (700e12, 4e12)
    assert given.peak("bf16").status == "given"
    assert given.peak("fp8") == base.peak("fp8")


@pytest.mark.parametrize(
    ("text", "value"),
    [("3.35e12", 3.35e12), ("3.35T", 3.35e12), ("3.35 TB/s", 3.35e12), ("900G", 9e11), (" 5 ", 5)],
)
def test_rates_are_read_with_si_steps(text: str, value: float) -> None:
    assert parse_rate(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "fast", "-3", "0", "1.2.3T", "1e999", "nan", "3 Ti"])
def test_what_is_no_rate_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rate(text)


def test_a_peak_names_its_dtype() -> None:
    assert parse_peak("bf16=989e12") == ("bf16", 989e12)
    assert parse_peak("vector = 67 TFLOP/s") == ("vector", 67e12)


@pytest.mark.parametrize("text", ["bf16", "bf17=1e12", "=1e12", "bf16=", "bf16=x"])
def test_a_malformed_peak_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_peak(text)


def test_peaks_that_kernels_need_and_the_device_lacks_are_named() -> None:
    kernels = pd.DataFrame({"peak": ["bf16", "fp16", None, "vector", "bf16"]})
    assert unknown_peaks(kernels, device_ceilings(ROWS["v100-sxm2-16gb"])) == ("bf16",)


def test_what_a_capture_reports_fills_what_no_data_sheet_says() -> None:
    properties = DeviceProperties(
        0, "NVIDIA H100 80GB HBM3", sm_count=99, memory_bytes_per_s=900_000_000_000, l2_bytes=5_000_000
    )
    unknown = with_reported(Ceilings(), properties)
    assert (unknown.dram.used, unknown.dram.status) == (900e9, "reported")
    assert (unknown.l2_bytes, unknown.sm_count) == (5e6, 99)
    assert unknown.notes == ("DRAM bandwidth (900 GB/s) is what the capture reports of its GPU",)
    known = Ceilings(dram=Roof(spec=3.35e12), l2_bytes=50e6, sm_count=132)
    assert with_reported(known, properties) == known
    assert with_reported(Ceilings(), None) == Ceilings()


def test_the_thin_products_of_a_calibration_are_those_of_the_largest_width() -> None:
    by_shape = {"1x1024x1024": 1e9, "1x2048x2048": 2e9, "16x2048x2048": 9e9, "512x2752x512": 7e9, "odd": 1.0}
    peaks = {"fp32": {"flops_per_s": 1e11, "shape": [2048] * 3, "by_shape": by_shape}}
    found = MeasuredCeilings(
        {"kind": "cpu", "name": "EPYC"},
        peaks,
        {"copy_bytes_per_s": 1e10, "read_bytes_per_s": 2e10},
        1000.0,
        "measured",
    )
    assert with_calibration(Ceilings(), found).thin == {"fp32": {1: 2e9, 16: 9e9}}
