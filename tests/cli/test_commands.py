"""The command line as a user meets it: what goes to which stream, and how it ends."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tracebuilder import TraceBuilder

STEP = "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk800sqsq8sqsk800)"


def tracekit(*arguments: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "tracekit", *arguments], input=given, capture_output=True, check=False
    )


@pytest.fixture
def trace(tmp_path: Path) -> str:
    built = TraceBuilder(options={"record_shapes": 1}).annotation(STEP, 0, 100)
    built.op("aten::mm", 10, 30, dims=[[8, 4096], [4096, 4096]], types=["c10::BFloat16", "c10::BFloat16"])
    built.launched("nvjet_tst_64x8_64x16_4x1_v_bz_TNN", 20, 50, 20, grid=[64, 1, 1], block=[128, 1, 1])
    return built.write(tmp_path / "trace.json")


def test_inspect_counts_what_is_there(trace: str) -> None:
    done = tracekit("inspect", trace, "--json")
    document: dict[str, Any] = json.loads(done.stdout)
    capture = document["captures"][0]
    assert done.returncode == 0
    assert capture["counts"] == {
        "events": 4,
        "kernels": 1,
        "memcpy": 0,
        "memset": 0,
        "cpu_ops": 1,
        "graph_launches": 0,
        "kernels_from_graph": 0,
        "kernels_without_launch": 0,
        "comm_kernels": 0,
    }
    assert capture["time_ns"] == {
        "kernel_sum": 20_000,
        "kernel_union": 20_000,
        "gpu_union": 20_000,
        "gpu_span": 20_000,
    }
    assert capture["device"] == {
        "name": "NVIDIA A100-SXM4-80GB",
        "matched": "A100 SXM4 80GB",
        "match": "exact",
    }
    assert [(step["phase"], step["n_kernels"], step["generation_requests"]) for step in capture["steps"]] == [
        ("decode", 1, 8)
    ]


def test_report_gives_the_figures_that_a_hand_computes(trace: str) -> None:
    summary = json.loads(tracekit("report", trace, "--json").stdout)
    (phase,) = summary["phases"]
    # 2 x 8 x 4096 x 4096 FLOP; (8 x 4096 + 4096 x 4096 + 8 x 4096) x 2 bytes; 20 us; 2.039 TB/s.
    assert phase["phase"] == "decode"
    assert phase["flops"] == 2 * 8 * 4096 * 4096
    assert phase["dram_bytes"] == 2 * (4096 * 4096 + 2 * 8 * 4096)
    assert phase["flops_per_s"] == pytest.approx(2 * 8 * 4096 * 4096 / 20e-6)
    assert phase["mbu"] == pytest.approx(2 * 4096 * 4096 / 20e-6 / 2.039e12)
    assert phase["bottlenecks"] == {"dram": 1.0}
    assert summary["coverage"] == {"linked": 1.0, "phase_known": 1.0, "work_known": 1.0, "classified": 1.0}


def test_a_report_folder_has_every_file(trace: str, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    done = tracekit("report", trace, "-o", str(folder))
    assert done.returncode == 0
    written = {path.name for path in folder.iterdir()}
    assert written == {
        "report.html",
        "report.md",
        "summary.json",
        "kernels.parquet",
        "steps.parquet",
        "gaps.parquet",
        "quality.parquet",
    }


def test_standard_input_is_a_capture(trace: str) -> None:
    done = tracekit("inspect", "-", "--json", given=Path(trace).read_bytes())
    assert json.loads(done.stdout)["captures"][0]["counts"]["kernels"] == 1


def test_a_bad_capture_is_one_line_and_the_others_are_still_reported(trace: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("version https://git-lfs.github.com/spec/v1\n")
    done = tracekit("inspect", trace, str(bad), "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert [capture["path"] for capture in document["captures"]] == [trace]
    assert [error["path"] for error in document["errors"]] == [str(bad)]
    assert b"Git LFS pointer" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["report", "inspect", "kernels"])
def test_a_missing_file_is_an_error_with_a_next_step(command: str, tmp_path: Path) -> None:
    done = tracekit(command, str(tmp_path / "nothing.json"))
    lines = done.stderr.decode().strip().splitlines()
    assert done.returncode == 1
    assert [line.split(":")[0].strip() for line in lines] == ["error", "next"]


def test_a_report_of_nothing_writes_nothing(tmp_path: Path) -> None:
    done = tracekit("report", str(tmp_path / "nothing.json"), "-o", str(tmp_path / "report"))
    assert done.returncode == 1
    assert not (tmp_path / "report").exists()


def test_wrong_usage_exits_with_2(trace: str) -> None:
    assert tracekit("report").returncode == 2
    assert tracekit("nonsense").returncode == 2
    assert tracekit("report", trace, "--format", "pdf").returncode == 2
    assert tracekit("report", trace, "--peak", "bf16").returncode == 2


def test_captures_that_do_not_belong_together_are_told_to_compare(trace: str, tmp_path: Path) -> None:
    other = TraceBuilder().launched("k", 20, 50, 20).write(tmp_path / "other.json")
    done = tracekit("report", trace, other)
    assert done.returncode == 2
    assert b"compare" in done.stderr


def test_ranks_of_one_job_are_reported_together(tmp_path: Path) -> None:
    paths = []
    for rank in (0, 1):
        built = TraceBuilder(options={"distributedInfo": {"rank": rank, "world_size": 2}})
        paths.append(built.launched("k", 20, 50, 20).write(tmp_path / f"rank{rank}.json"))
    document = json.loads(tracekit("kernels", *paths, "--json").stdout)
    assert [(row["kernel_id"], row["rank"]) for row in document["kernels"]] == [(0, 0), (1, 1)]


def test_an_unknown_device_has_no_ceilings_and_the_report_says_how_to_give_them(tmp_path: Path) -> None:
    path = (
        TraceBuilder(devices=[{"id": 0, "name": "Frobnicator 9000"}])
        .launched("k", 1, 5, 2)
        .write(tmp_path / "t.json")
    )
    summary = json.loads(tracekit("report", path, "--json").stdout)
    assert summary["device"]["matched"] is None
    assert all(roof["spec"] is None for roof in summary["roofs"].values())
    assert "no_ceilings" in {row["code"] for row in summary["quality"]}
    given = json.loads(tracekit("report", path, "--json", "--peak", "bf16=1e15", "--dram", "3e12").stdout)
    assert given["roofs"]["dram"]["spec"] == 3e12


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json"])
def test_the_kernels_table_is_written_by_its_suffix(suffix: str, trace: str, tmp_path: Path) -> None:
    target = tmp_path / f"kernels.{suffix}"
    assert tracekit("kernels", trace, "-o", str(target)).returncode == 0
    assert target.stat().st_size > 100


def test_a_kept_capture_gives_the_same_report(trace: str, tmp_path: Path) -> None:
    first = tracekit("report", trace, "--json", "--cache-dir", str(tmp_path / "cache"))
    second = tracekit("report", trace, "--json", "--cache-dir", str(tmp_path / "cache"))
    assert first.stdout == second.stdout
    assert first.returncode == 0


def test_help_loads_nothing_heavy_and_report_never_torch() -> None:
    listing = "import sys; sys.argv = ['tracekit', '--help']\ntry:\n    from tracekit.cli import main; main()\nexcept SystemExit:\n    pass\nprint(sorted(m for m in ('pandas', 'pyarrow', 'numpy', 'torch', 'jinja2') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"
    everything = "import sys, tracekit.pipeline, tracekit.report; print('torch' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", everything], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "False"
    )


def test_a_closed_pipe_is_no_traceback(trace: str) -> None:
    reader = subprocess.Popen(
        [sys.executable, "-m", "tracekit", "kernels", trace, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert reader.stdout is not None
    assert reader.stderr is not None
    reader.stdout.close()
    complaint = reader.stderr.read()
    reader.wait()
    reader.stderr.close()
    assert b"Traceback" not in complaint
