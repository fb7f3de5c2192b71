"""Counters under a stand-in ncu that checks its arguments and prints what a real one was recorded to print."""

import stat
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tracekit.cli import app
from tracekit.errors import CaptureError, UnsupportedError
from tracekit.formats import Workload
from tracekit.models import preset
from tracekit.ncu import chip, metric_set

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from collectortools import Recorder  # noqa: E402 - found on the path that conftest sets

from collectors import counted, counters  # noqa: E402 - both need torch
from collectors.running import run_profiler  # noqa: E402 - as above

STAND_IN = """#!{python}
import os, sys, time
words = sys.argv[1:]
mode = os.environ.get("STAND_IN", "success")
def value(option):
    return words[words.index(option) + 1]
if words == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2024.1.1.0 (build 1)")
    sys.exit(0)
if words[0] == "--import":
    assert words[2:] == ["--csv", "--page", "raw", "--print-units", "base"], words
    metrics = open(words[1]).read().split(",")
    ids = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size"]
    for row in ([*ids, *metrics], [""] * 9 + ["byte"] * len(metrics),
                ["0", "42", "python3", "secret-host", "gemm", "1", "7", "(1, 1, 1)", "(2, 1, 1)", *["3"] * len(metrics)]):
        print(",".join('"' + cell + '"' for cell in row))
    sys.exit(0)
known = {{"-f", "-o", "--log-file", "--target-processes", "--replay-mode", "--graph-profiling", "--clock-control",
         "--cache-control", "--nvtx", "--nvtx-include", "--launch-count", "--metrics"}}
assert {{word for word in words if word.startswith("-")}} - {{"-m"}} <= known, words
assert value("--nvtx-include") == "tracekit/"
assert value("--clock-control") == "none"
log = open(value("--log-file"), "w")
log.write("==PROF== Connected to process 42 (/usr/bin/python3)\\n")
if mode == "permission":
    log.write("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\\n")
    sys.exit(1)
if mode == "no_kernels":
    log.write("==WARNING== No kernels were profiled.\\n")
    sys.exit(0)
if mode == "crash":
    log.write("==ERROR== The application returned an error code (139).\\n")
    sys.exit(139)
if mode == "hang":
    log.flush()
    time.sleep(60)
for number in range(2):
    log.write('==PROF== Profiling "gemm" - ' + str(number) + ': 0%....50%....100% - 1 pass\\n')
open(value("-o") + ".ncu-rep", "w").write(value("--metrics"))
"""
WORKLOAD = Workload(
    model="tiny-cpu",
    dtype="bf16",
    kv_dtype="bf16",
    phases=("prefill", "decode"),
    batch=1,
    prompt_len=8,
    kv_len=8,
    decode_steps=8,
    warmup=1,
    repeats=1,
    seed=0,
    device="cuda",
    attention="sdpa",
)


@pytest.fixture
def ncu(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "ncu"
    path.parent.mkdir()
    path.write_text(STAND_IN.format(python=sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def counting(ncu: Path, chosen: str = "lite", on: str = "gh100") -> counters.Counting:
    return counters.Counting(str(ncu), "2024.1", metric_set(chosen), chip(on))


def test_each_run_of_the_set_leaves_a_table_and_says_how_it_was_made(ncu: Path, tmp_path: Path) -> None:
    progress = Recorder()
    done = counting(ncu).collect(preset("tiny-cpu"), WORKLOAD, tmp_path, progress)
    assert [record.name for record in done.files] == ["counters-dram.csv", "counters-ops.csv"]
    assert progress.done == {"counters: dram": 2, "counters: ops": 2}
    assert "1 launches, about 1 passes each, cache control none" in done.notes[0]
    assert "cache control all, clock control none, kernel replay, eager" in done.notes[1]
    text = (tmp_path / "counters-dram.csv").read_text()
    assert "dram__bytes.sum" in text
    assert "secret-host" not in text
    assert '"gemm"' in text


def test_matrix_operations_are_counted_of_the_type_that_runs(ncu: Path, tmp_path: Path) -> None:
    counting(ncu, "flops").collect(preset("tiny-cpu"), WORKLOAD, tmp_path, Recorder())
    header = (tmp_path / "counters-ops.csv").read_text().splitlines()[0]
    assert "sm__ops_path_tensor_src_bf16_dst_fp32.sum" in header
    assert "sm__ops_path_tensor_src_fp8.sum" not in header


def test_a_chip_without_dram_counters_is_noted_and_the_rest_collected(ncu: Path, tmp_path: Path) -> None:
    done = counting(ncu, on="gb10b").collect(preset("tiny-cpu"), WORKLOAD, tmp_path, Recorder())
    assert [record.name for record in done.files] == ["counters-ops.csv"]
    assert done.notes[0] == "counters: gb10b has no counter of dram"


@pytest.mark.parametrize(
    ("mode", "code", "hint"),
    [
        ("permission", "ncu_no_permission", "CAP_SYS_ADMIN"),
        ("no_kernels", "ncu_no_kernels", "range filter"),
        ("crash", "ncu_application", "without ncu"),
    ],
)
def test_a_failed_run_says_why_and_leaves_no_table(
    ncu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, code: str, hint: str
) -> None:
    monkeypatch.setenv("STAND_IN", mode)
    for attempt in (
        lambda: counting(ncu).collect(preset("tiny-cpu"), WORKLOAD, tmp_path, Recorder()),
        lambda: counting(ncu).probe(),
    ):
        with pytest.raises(CaptureError) as caught:
            attempt()
        assert caught.value.code == code
        assert hint in caught.value.hint
    assert not list(tmp_path.glob("*.csv"))


def test_a_run_that_hangs_is_stopped(ncu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "hang")
    start = time.monotonic()
    with pytest.raises(CaptureError) as caught:
        replace(counting(ncu), timeout_s=0.5).collect(preset("tiny-cpu"), WORKLOAD, tmp_path, Recorder())
    assert caught.value.code == "ncu_timeout"
    assert time.monotonic() - start < 30


def test_a_profiler_that_cannot_start_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run_profiler([str(tmp_path / "none")], tmp_path / "log", 1.0)


def test_ncu_is_found_where_the_environment_says(ncu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(counters.VARIABLE, str(ncu))
    assert counters.find_ncu() == str(ncu)
    assert counters.ncu_version(str(ncu)) == "2024.1.1.0"
    monkeypatch.setenv(counters.VARIABLE, "/nowhere/ncu")
    assert counters.find_ncu() is None


def test_what_is_missing_is_said_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(counters.VARIABLE, "/nowhere/ncu")
    folder = tmp_path / "capture"
    result = CliRunner().invoke(app, ["collect", "--counters", "lite", "--device", "cpu", "-o", str(folder)])
    assert isinstance(result.exception, UnsupportedError)
    assert result.exception.exit_code == 1
    assert "an NVIDIA GPU and Nsight Compute" in result.exception.message
    assert not folder.exists()
    with pytest.raises(UnsupportedError, match="no metric set 'all'"):
        counters.prepare("all", torch.device("cpu"))


def test_print_commands_prints_lines_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["collect", "--print-commands", "--device", "cpu", "--layers", "1", "--counters", "flops"]
    lines = CliRunner().invoke(app, words).stdout.splitlines()
    assert sum(line.startswith("ncu -f") for line in lines) == 2
    assert sum(line.startswith("nsys ") for line in lines) == 2
    assert all("python -m collectors.counted" in line for line in lines if line.startswith("ncu -f"))
    assert list(tmp_path.iterdir()) == []


def test_the_profiled_workload_runs_the_first_steps_of_each_phase() -> None:
    config = preset("tiny-cpu").truncated(1)
    on_cpu = replace(WORKLOAD, dtype="fp32", kv_dtype="fp32", device="cpu")
    # One prefill step, and three of the eight decode steps.
    assert counted.run(config, on_cpu) == 4
    counted.main([counted.specification(config, on_cpu)])
