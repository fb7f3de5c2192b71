"""Reports, through a stand-in for NVIDIA's package: its licence lets nobody ship it, nor a report of its own."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tracekit.errors import CaptureError, UnsupportedError
from tracekit.readers import read, read_counters


class Metric:
    def __init__(self, value: Any, unit: str) -> None:
        self._value, self._unit = value, unit

    def value(self) -> Any:
        return self._value

    def unit(self) -> str:
        return self._unit

    def has_value(self) -> bool:
        return self._value is not None


class Domain:
    def push_pop_ranges(self) -> tuple[str, ...]:
        return ("tracekit", "decode 3")

    def start_end_ranges(self) -> tuple[str, ...]:
        return ()


class State:
    def domains(self) -> tuple[int, ...]:
        return (0,)

    def domain_by_id(self, _number: int) -> Domain:
        return Domain()


class Action:
    NameBase_DEMANGLED = 1

    def __init__(self, metrics: dict[str, Metric]) -> None:
        self._metrics = metrics

    def name(self, base: int) -> str:
        return {1: "void gemm<float>(float *)"}[base]

    def metric_names(self) -> list[str]:
        return list(self._metrics)

    def metric_by_name(self, name: str) -> Metric | None:
        return self._metrics.get(name)

    def nvtx_state(self) -> State:
        return State()


LAUNCH = {f"launch__grid_dim_{axis}": Metric(size, "") for axis, size in zip("xyz", (64, 2, 1), strict=True)}
LAUNCH |= {
    f"launch__block_dim_{axis}": Metric(size, "") for axis, size in zip("xyz", (128, 1, 1), strict=True)
}
LAUNCH |= {"launch__stream_id": Metric(7.0, ""), "launch__device_id": Metric(0.0, "")}
LAUNCH |= {
    f"device__attribute_compute_capability_{part}": Metric(n, "") for part, n in (("major", 9), ("minor", 0))
}
DRAM = {"dram__bytes.sum": Metric(4096.0, "byte"), "dram__bytes_read.sum": Metric(None, "byte")}


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "run.ncu-rep"
    path.write_bytes(b"NVR\x00\x02\x00\x00\x00")
    return path


def install(monkeypatch: pytest.MonkeyPatch, contents: list[list[Action]]) -> None:
    module = ModuleType("ncu_report")
    module.load_report = lambda _path: contents  # type: ignore[attr-defined]  # the package's one function
    monkeypatch.setitem(sys.modules, "ncu_report", module)


def test_a_report_gives_what_its_csv_gives(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, [[Action(LAUNCH | DRAM)]])
    counters = read(str(report)).counters
    assert counters is not None
    row = counters.launches.iloc[0]
    assert (row["name"], row["grid"], row["block"], row["stream"], row["cc"], row["ranges"]) == (
        "void gemm<float>(float *)",
        "64,2,1",
        "128,1,1",
        7,
        "9.0",
        "tracekit\ndecode 3",
    )
    readings = counters.readings
    dram = readings[readings["metric"] == "dram__bytes.sum"].iloc[0]
    assert (dram["value"], dram["unit"], dram["status"]) == (4096, "byte", "measured")
    assert "dram__bytes_read.sum" not in set(readings["metric"])


def test_without_the_package_the_line_that_prints_a_csv_is_given(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    with pytest.raises(UnsupportedError) as caught:
        read_counters(str(report))
    assert f"ncu --import {report} --csv --page raw --print-units base" in caught.value.hint


def test_a_report_without_launches_is_no_zero(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, [])
    with pytest.raises(CaptureError, match="no profiled launch"):
        read(str(report))
