"""The acceptance run: its table from recorded inputs, its reasons, and the script itself as far as a CPU goes."""

import csv
import importlib.util
import io
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tracebuilder import TraceBuilder

from tracekit.formats import (
    TIMING_TRACE,
    MeasuredCeilings,
    Rate,
    RequestSums,
    RunManifest,
    Workload,
    step_annotation,
)

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"
SIDE, LANES, TURNS = 4096, 1 << 22, 64
STEP = step_annotation(RequestSums(), RequestSums.of([(1, 1001)]))
HEAD = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC")  # fmt: skip


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("acceptance_table", SCRIPTS / "acceptance_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look their own module up.
    sys.modules[spec.name] = module
    sys.path.insert(0, str(SCRIPTS))
    spec.loader.exec_module(module)
    return module


def page(metrics: dict[str, list[str]], names: list[str], *, ranges: list[str] | None = None) -> str:
    """A raw page of launches, one a name, behind a message of the profiler."""
    nvtx = ["thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"] if ranges else []
    out = io.StringIO()
    write = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow
    write([*HEAD, *nvtx, *metrics])
    write([""] * (len(HEAD) + len(nvtx)) + ["byte"] * len(metrics))
    for number, name in enumerate(names):
        identity = [str(number), "42", "", "", name, "1", "7", "(128, 1, 1)", "(64, 1, 1)", "0", "9.0"]
        write(
            [
                *identity,
                *([ranges[number]] if ranges else []),
                *(values[number] for values in metrics.values()),
            ]
        )
    return "==PROF== Connected\n" + out.getvalue()


def rate(phase: str, overhead: float, step_ns: float = 2e6) -> Rate:
    return Rate("test", phase, 1, step_ns, 0.0, 1.0, overhead)


def workload(**changes: Any) -> Workload:
    shared = ("m", "bf16", "bf16", ("decode",), 1, 512, 1000, 4, 1, 3, 0, "cuda", "sdpa")
    return Workload(*shared, **changes)


def capture(folder: Path, rates: tuple[Rate, ...], notes: tuple[str, ...] = (), **changes: Any) -> None:
    """A folder of one decode step: a product that moves its weights, and its manifest."""
    folder.mkdir(parents=True)
    trace = TraceBuilder(options={"record_shapes": 1}).annotation(STEP, 0, 100)
    trace.op("aten::mm", 10, 20, dims=[[1, 4096], [4096, 4096]], types=["c10::BFloat16"] * 2)
    trace.launched("gemm", 12, 40, 10, grid=[64, 1, 1], block=[128, 1, 1]).write(folder / TIMING_TRACE)
    RunManifest(workload(**changes), {}, 1, 2, 3, {}, {}, "tracekit collect", rates=rates, notes=notes).write(
        folder
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder as a whole run on a GPU leaves it."""
    done = (
        "calibrate",
        "eager",
        "graphs",
        "counted",
        "probe-none",
        "probe-none-csv",
        "probe-all",
        "probe-all-csv",
        "nsys-report",
    )
    steps = [{"name": name, "state": "done", "seconds": 90.0, "reason": "", "command": []} for name in done]
    steps += [
        {"name": "batch", "state": "failed", "seconds": 3.0, "reason": "exit code 1: error: out of memory"}
    ]
    steps += [{"name": "flash", "state": "skipped", "seconds": 0.0, "reason": "no time was left"}]
    (tmp_path / "steps.json").write_text(json.dumps(steps))
    names = ["nvjet_tst", "gemv", "copy_kernel", "packed_halves"]
    ranges = [f"probe:{name}" for name in ("square product", "thin product", "copy", "packed halves")]
    least = [6 * SIDE**2, 2 * (SIDE**2 + 2 * SIDE), 1 << 31, 8 * LANES]
    shared = {
        "gpu__time_duration.sum": ["300", "20", "500", "9"],
        "sm__cycles_elapsed.avg.per_second": ["1.7e9", "1.8e9", "1.9e9", "1.98e9"],
        "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum": ["0", "0", "0", str(LANES * TURNS // 2)],
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum": [str(2 * SIDE**3), "0", "0", "0"],
    }
    (tmp_path / "probe").mkdir()
    for caches, factor in (("none", 1), ("all", 2)):
        metrics = {**shared, "dram__bytes.sum": [str(factor * count) for count in least]}
        (tmp_path / "probe" / f"{caches}.csv").write_text(page(metrics, names, ranges=ranges))
    (tmp_path / "nsys").mkdir()
    (tmp_path / "nsys" / "report.json").write_text('{"coverage": {"phase_known": 1.0, "work_known": 0.9}}')
    (tmp_path / "calibration").mkdir()
    device = {"name": "NVIDIA H200", "cores": 132, "memory_bytes": 150 << 30, "kind": "cuda"}
    peaks = {"bf16": {"flops_per_s": 791.52e12, "shape": [8192] * 3}}
    dram = {"copy_bytes_per_s": 4.0e12, "read_bytes_per_s": 4.32e12, "buffer_bytes": 1 << 30}
    MeasuredCeilings(device, peaks, dram, 4000.0, "measured").write(tmp_path / "calibration")
    capture(tmp_path / "captures" / "eager" / "m_b1", (rate("prefill", 0.1), rate("decode", 0.25)))
    capture(tmp_path / "captures" / "graphs" / "m_b1", (rate("decode", 0.02, 1e6),), cuda_graphs=True)
    note = "counters (counters-dram.csv): set lite on gh100, 1 launches, about 1 passes each"
    capture(tmp_path / "captures" / "counted", (rate("decode", 0.25),), (note,))
    moved = {"dram__bytes.sum": [str(3 * 2 * (4096**2 + 2 * 4096))]}
    (tmp_path / "captures" / "counted" / "counters-dram.csv").write_text(page(moved, ["gemm"]))
    return tmp_path


def test_each_figure_is_what_the_files_say(table: ModuleType, run: Path) -> None:
    rows = {row.question: row for row in table.answers(table.Evidence(run))}
    values = {question: row.value for question, row in rows.items()}
    assert values["sm__ops_path_tensor_* over 2MNK, bf16"] == "1.0000"
    assert values["DRAM bytes over the least, thin product"] == "1.000 / 2.000"
    assert values["DRAM bytes over the least, copy"] == "1.000 / 2.000"
    assert values["multiply-adds of one counted HFMA (2 if packed ones count once)"] == "2.000"
    assert values["NVTX columns of a raw page"].startswith("thread Domain:Push/Pop_Range")
    assert values["SM clock under --clock-control none"] == "1700 / 1850 / 1980"
    assert values["re-read factor, decode, gemm"] == "3.000"
    assert values["measured roof, bf16"] == "791.5 = 80.0 % of spec"
    assert values["measured roof, dram"] == "4.32 = 90.0 % of spec"
    assert values["profiler overhead, decode, eager, b1 kv1000"] == "+25.0"
    assert values["profiler overhead, decode, graphs, b1 kv1000"] == "+2.0"
    assert values["launches and passes of a counter run"].startswith("set lite on gh100, 1 launches")
    assert rows["analytic class equals counter class"].unit == "% of the time"
    assert "decode bound by dram, eager m_b1" in values
    assert values["Nsight Systems export read"] == "100.0 / 90.0"


def test_what_failed_or_was_skipped_says_why(table: ModuleType, run: Path) -> None:
    values = {row.question: row.value for row in table.answers(table.Evidence(run))}
    assert values["whatif against measurement"] == "not measured: batch: exit code 1: error: out of memory"
    assert values["bound by, flash"] == "not measured: flash: no time was left"


def test_a_folder_with_nothing_in_it_answers_every_question_with_a_reason(
    table: ModuleType, tmp_path: Path
) -> None:
    rows = table.answers(table.Evidence(tmp_path))
    assert len(rows) >= len(table.QUESTIONS)
    assert all(row.value.startswith("not measured: ") for row in rows)


def test_the_table_escapes_what_would_end_a_cell(table: ModuleType) -> None:
    text = table.markdown([table.Answer("a|b", "1", "", "")])
    assert text.splitlines()[-1] == "| a\\|b | 1 |  |  |"


def accept(out: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    script = ["bash", str(SCRIPTS / "gpu_acceptance.sh"), "-o", str(out), "--device", "cpu", "--tiny", *words]
    environment = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run(script, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.torch
def test_without_time_each_step_is_skipped_and_the_table_is_printed_all_the_same(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    out = tmp_path / "out"
    done = accept(out, "--budget", "70")
    assert done.returncode == 0, done.stderr
    steps = json.loads((out / "steps.json").read_text())
    assert {step["state"] for step in steps} == {"skipped"}
    assert any("no time was left" in step["reason"] for step in steps)
    assert done.stdout.startswith("| question | value | unit | how |")
    assert "| HFMA2 factor | not measured: probe-all: hardware counters need a GPU |" in done.stdout


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.skipif(not os.environ.get("TRACEKIT_SLOW"), reason="minutes: set TRACEKIT_SLOW=1")
def test_the_tiny_form_runs_end_to_end_on_a_cpu(tmp_path: Path, table: ModuleType) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    done = accept(tmp_path / "out")
    assert done.returncode == 0, done.stderr
    states = {
        step["name"]: step["state"] for step in json.loads((tmp_path / "out" / "steps.json").read_text())
    }
    assert [name for name, state in states.items() if state == "done"] == [
        "environment",
        "eager",
        "batch",
        "flash",
    ]
    assert "failed" not in states.values()
    rows = [table.Answer(**row) for row in json.loads((tmp_path / "out" / "table.json").read_text())]
    assert any(row.question.startswith("whatif over measured") and float(row.value) > 0 for row in rows)
    assert asdict(rows[0]).keys() == {"question", "value", "unit", "how"}
    # Everything is under the one folder, and nothing in it names a place outside it.
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
