"""A report with counters: measured bytes beside the model's minimum, and what failed said beside the rest."""

import io
import json
from pathlib import Path

import jsonschema
import pytest
from tracebuilder import TraceBuilder
from typer.testing import CliRunner

from tracekit.cli import app
from tracekit.errors import UsageError
from tracekit.formats import TIMING_TRACE, RunManifest, Workload
from tracekit.pipeline import Options, analyze
from tracekit.pipeline.kept import KeptResult
from tracekit.report import print_summary, wording
from tracekit.report.html import render_html
from tracekit.report.reference import json_schema

HEAD = "ID,Process ID,Kernel Name,Context,Stream,Block Size,Grid Size,Device,CC"


def table(metrics: dict[str, tuple[str, str]], name: str = "gemm") -> str:
    """What ncu prints of one launch."""
    rows = [
        [*HEAD.split(","), *metrics],
        [""] * 9 + [unit for unit, _ in metrics.values()],
        [
            "0",
            "42",
            name,
            "1",
            "7",
            "(128, 1, 1)",
            "(64, 1, 1)",
            "0",
            "8.0",
            *(cell for _, cell in metrics.values()),
        ],
    ]
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """One kernel of a 1024 x 1024 x 1024 matrix product in fp32, 100 us."""
    builder = TraceBuilder(options={"record_shapes": 1})
    builder.op("aten::mm", 10, 20, dims=[[1024, 1024], [1024, 1024]], types=["float", "float"])
    builder.launched("gemm", 12, 40, 100, grid=[64, 1, 1], block=[128, 1, 1])
    path = tmp_path / "trace.json"
    path.write_bytes(builder.text())
    return path


def written(folder: Path, text: str, name: str = "counters.csv") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_measured_bytes_stand_beside_the_least_that_the_model_needs(trace: Path, tmp_path: Path) -> None:
    counters = written(tmp_path, table({"dram__bytes.sum": ("Mbyte", "25.165824")}))
    result = CliRunner().invoke(app, ["report", str(trace), "--counters", counters, "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    jsonschema.validate(document, json_schema())
    phase = document["phases"][0]
    # Three matrices of 4 MiB, and twice that measured.
    assert (phase["dram_bytes"], phase["dram_bytes_hw"]) == (3 * 4 * 1024 * 1024, 25_165_824)
    # 25.2 MB in 100 us: the bandwidth is the measured one.
    assert phase["dram_bytes_per_s"] == pytest.approx(25_165_824 / 100e-6)
    assert [capture["role"] for capture in document["captures"]] == ["timing", "counters"]


def test_a_file_of_counters_is_known_without_the_option(trace: Path, tmp_path: Path) -> None:
    counters = written(tmp_path, table({"dram__bytes.sum": ("byte", "7")}))
    kernels = analyze([str(trace), counters]).kernels
    assert kernels["dram_bytes_hw"].tolist() == [7]
    assert kernels["hw_status"].tolist() == ["measured"]
    # Useful work is the model's: counters never touch it.
    assert kernels["flops"].tolist() == [2 * 1024**3]


def test_speed_of_light_counters_decide_what_limits_a_kernel(trace: Path, tmp_path: Path) -> None:
    metrics = {
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "91"),
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "40"),
    }
    kernels = analyze([str(trace)], Options(counters=(written(tmp_path, table(metrics)),))).kernels
    assert kernels["bottleneck"].tolist() == ["compute"]
    assert kernels["bottleneck_evidence"].str.startswith("counters: SM 91").all()


def test_counters_that_failed_are_failed_and_the_report_is_still_made(trace: Path, tmp_path: Path) -> None:
    counters = written(tmp_path, "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have\n")
    result = analyze([str(trace)], Options(counters=(counters,)))
    assert result.kernels["hw_status"].tolist() == ["failed"]
    assert [error.code for error in result.errors] == ["ncu_no_permission"]
    assert wording.counted(result.overview.phases[0]) == "no counters (failed to be read 100 %)"
    said = next(wording.warnings(result.overview))
    assert said.count(counters) == 1
    assert "could not be read: no counters in it: the user may not read GPU performance counters" in said
    assert "nothing of them could be read" in render_html(result)


def test_a_folder_that_collect_wrote_brings_its_counters_and_how_they_were_made(
    trace: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    trace.rename(folder / TIMING_TRACE)
    written(folder, table({"dram__bytes.sum": ("byte", "7")}), "counters-dram.csv")
    written(folder, table({"lts__t_bytes.sum": ("byte", "9")}), "counters-ops.csv")
    workload = Workload("m", "bf16", "bf16", ("decode",), 1, 8, 8, 1, 0, 1, 0, "cuda", "sdpa")
    note = "counters (counters-dram.csv): set lite on gh100, cache control none"
    busy = "other work kept the machine busy"
    RunManifest(workload, {}, 1, 2, 3, {}, {}, "tracekit collect", notes=(note, busy)).write(folder)
    result = analyze([str(folder)])
    # What the collector noted of the run is said as well, and how counters were made only beside them.
    said = result.quality[result.quality["code"] == "collector_note"]
    assert said["message"].tolist() == [busy]
    assert [(used.role, used.evidence) for used in result.overview.captures] == [
        ("timing", "named by the folder's manifest"),
        ("counters", note),
        ("counters", "named by the folder's manifest"),
    ]
    assert result.kernels["dram_bytes_hw"].tolist() == [7]
    by_hand = analyze([str(folder / TIMING_TRACE)], Options(counters=(str(folder / "counters-dram.csv"),)))
    assert by_hand.overview.captures[1].evidence == f"given with --counters; {note}"


def test_a_run_json_of_another_tool_beside_the_counters_changes_nothing(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"runs": [1, 2]}')
    counters = written(tmp_path, table({"dram__bytes.sum": ("byte", "7")}))
    result = analyze([str(trace)], Options(counters=(counters,)))
    assert result.errors == ()
    assert result.overview.captures[1].evidence.endswith("does not say its clock and cache control")


def test_counters_alone_are_no_run(tmp_path: Path) -> None:
    counters = written(tmp_path, table({"dram__bytes.sum": ("byte", "7")}))
    with pytest.raises(UsageError, match="counters alone"):
        analyze([counters])
    found = json.loads(CliRunner().invoke(app, ["inspect", counters, "--json"]).stdout)["captures"][0]
    assert found["format"] == "ncu"
    assert any(note["code"] == "counters_total" for note in found["quality"])


def test_a_phase_says_how_far_measured_traffic_is_from_the_least(trace: Path, tmp_path: Path) -> None:
    metrics = {
        "dram__bytes.sum": ("byte", "25165824"),
        "lts__t_bytes.sum": ("byte", "50331648"),
        "lts__t_sector_hit_rate.pct": ("%", "75"),
    }
    result = analyze([str(trace)], Options(counters=(written(tmp_path, table(metrics)),)))
    counters = result.overview.phases[0].counters
    assert counters is not None
    assert (counters.time_share, counters.dram_over_least, counters.l2_hit) == (1, 2, 0.75)
    assert (counters.least_bytes, counters.moved_bytes) == (12_582_912, 25_165_824)
    assert (counters.status, counters.joined) == ({"measured": 1}, {"stream": 1})
    line = "counters of 100 % of the time; 25.2 MB of DRAM traffic where the model needs 12.6 MB: re-read factor 2.00; 75.0 % of L2 sectors found there; joined by same name, grid and occurrence on the stream 100 %"
    assert wording.counted(result.overview.phases[0]) == line
    assert line in result._repr_html_()
    assert wording.counted(analyze([str(trace)]).overview.phases[0]) is None


@pytest.fixture
def three(tmp_path: Path) -> tuple[str, str]:
    """A product whose launches were measured, a copy whose counter this chip lacks, and a sum that nobody asked for."""
    builder = TraceBuilder(options={"record_shapes": 1})
    builder.op("aten::mm", 10, 20, dims=[[1024, 1024], [1024, 1024]], types=["float", "float"])
    for number, name in enumerate(("gemm", "copies", "sums")):
        builder.launched(name, 12 + number, 40 + 100 * number, 100, grid=[64, 1, 1], block=[128, 1, 1])
    path = tmp_path / "trace.json"
    path.write_bytes(builder.text())
    cells = {"dram__bytes.sum": ("byte", "25165824"), "lts__t_bytes.sum": ("byte", "50331648")}
    cells |= {"lts__t_sector_hit_rate.pct": ("%", "75")}
    lacking = {name: (unit, "n/a") for name, (unit, _) in cells.items()}
    lines = table(cells).splitlines(keepends=True) + table(lacking, "copies").splitlines(keepends=True)[2:]
    return str(path), written(tmp_path, "".join(lines))


def test_every_rendering_shows_measured_beside_modelled_with_its_status(
    three: tuple[str, str], tmp_path: Path
) -> None:
    path, counters = three
    folder = tmp_path / "report"
    done = CliRunner().invoke(app, ["report", path, "--counters", counters, "-o", str(folder)])
    assert done.exit_code == 0
    screen = " ".join(done.stdout.split())
    # Of three kernels of equal time one was measured: 24 MiB where three matrices of 4 MiB are the least.
    assert "counters of 33.3 % of the time" in screen
    assert "not available on this chip 33.3 %" in screen
    assert "gemm unknown 12.6MB 25.2MB 2.00x - 75% stream" in screen
    assert "DRAM rates use measured bytes" in screen
    markdown = (folder / "report.md").read_text()
    rows = {line.split(" | ")[0].strip("| "): line for line in markdown.splitlines() if line.startswith("| ")}
    assert rows["gemm"].endswith("| 25.2 MB | 2.00x | 75% |")
    assert rows["copies"].endswith("| not available on this chip | - | - |")
    assert rows["sums"].endswith("| not collected | - | - |")
    page = (folder / "report.html").read_text()
    text = page[page.index('<h3 id="counted">Measured beside modelled') : page.index("<h3>All kernels")]
    for part in (
        "12.6 MB",
        "25.2 MB",
        "2.00x",
        "75.0 %",
        "not available on this chip 33.3 %",
        "given with --counters; the file does not say its clock and cache control",
    ):
        assert part in text
    found = json.loads(page[page.index('id="data">') + len('id="data">') : page.index("</script>")])
    shown = [(row["name"], row["status"], row["reread"], row["joined"]) for row in found["kernels"]["rows"]]
    assert shown == [
        ("gemm", "measured", 2, "stream"),
        ("copies", "unsupported", None, "stream"),
        ("sums", "not_collected", None, None),
    ]


def test_without_counters_nothing_is_said_of_them(three: tuple[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "report"
    done = CliRunner().invoke(app, ["report", three[0], "-o", str(folder)])
    assert "Measured" not in done.stdout
    assert "Re-read" not in (folder / "report.md").read_text()
    assert "Measured beside modelled" not in (folder / "report.html").read_text()


def test_what_was_measured_is_kept_with_the_analysis(three: tuple[str, str], tmp_path: Path) -> None:
    trace, counters = three
    options = Options(counters=(counters,), cache=tmp_path / "kept")
    first, second = analyze([trace], options), analyze([trace], options)
    assert isinstance(second, KeptResult)
    assert second.summary == first.summary
    assert render_html(second) == render_html(first)
    texts = [io.StringIO(), io.StringIO()]
    for result, text in zip((first, second), texts, strict=True):
        print_summary(result, stream=text)
    assert "Re-read" in texts[0].getvalue()
    assert texts[1].getvalue() == texts[0].getvalue()
