"""What is asked of a chip: only metrics that it has, within one pass for DRAM, and never with warm replays."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tracekit.cli import app
from tracekit.errors import RegistryError, UnsupportedError
from tracekit.ncu import (
    Recording,
    chip,
    chips,
    import_command,
    labels,
    metric_set,
    quantities,
    record_command,
    runs,
    sets,
    wanted_metrics,
)

EVERY = [(name, key) for name in sets() for key in chips()]


@pytest.mark.parametrize(("name", "key"), EVERY)
def test_runs_of_several_passes_flush_the_caches(name: str, key: str) -> None:
    for run in runs(metric_set(name), chip(key)):
        assert run.cache_control == ("none" if run.passes <= 1 else "all")


@pytest.mark.parametrize(("name", "key"), EVERY)
def test_every_metric_that_is_asked_for_is_one_that_the_reader_keeps(name: str, key: str) -> None:
    for run in runs(metric_set(name), chip(key)):
        assert set(run.metrics) <= wanted_metrics()
        assert len(set(run.metrics)) == len(run.metrics)


def test_dram_bytes_are_a_run_of_their_own_in_one_pass() -> None:
    first = runs(metric_set("lite"), chip("gh100"))[0]
    assert "dram__bytes.sum" in first.metrics
    assert first.passes == 1
    assert not any(
        name.startswith("dram__bytes") for name in runs(metric_set("lite"), chip("gh100"))[1].metrics
    )


def test_tensor_counters_have_the_names_of_the_chip() -> None:
    def tensor(key: str) -> list[str]:
        return [
            name.removeprefix("sm__ops_path_tensor_src_").removesuffix(".sum")
            for name in runs(metric_set("lite"), chip(key))[1].metrics
            if "ops_path_tensor" in name
        ]

    assert tensor("gh100") == ["fp16", "bf16_dst_fp32"]
    assert tensor("ga100") == ["fp16_dst_fp16", "fp16_dst_fp32", "bf16_dst_fp32"]
    assert tensor("tu102") == ["fp16_dst_fp16", "fp16_bf16_tf32_dst_fp32"]
    assert tensor("gv100") == ["fp16_dst_fp16", "fp16_dst_fp32"]


def test_packed_instructions_are_counted_on_blackwell_alone() -> None:
    packed = "smsp__sass_thread_inst_executed_ops_fadd2_fmul2_ffma2_pred_on.sum"
    with_it = {
        key for key in chips() if any(packed in run.metrics for run in runs(metric_set("flops"), chip(key)))
    }
    assert with_it == {"gb100", "gb110", "gb10b", "gb202", "gr100"}


def test_a_chip_without_dram_counters_says_so() -> None:
    first = runs(metric_set("lite"), chip("12.1"))[0]
    assert (first.metrics, first.missing) == ((), ("dram",))


def test_a_type_asked_for_is_the_only_one_counted() -> None:
    ops = runs(metric_set("flops"), chip("9.0"), ["fp8"])[1]
    assert [name for name in ops.metrics if "ops_path_tensor" in name] == ["sm__ops_path_tensor_src_fp8.sum"]
    with pytest.raises(UnsupportedError, match="does not count matrix operations of fp8"):
        runs(metric_set("flops"), chip("ga100"), ["fp8"])


def test_unknown_chips_and_sets_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UnsupportedError) as caught:
        chip("g80")
    assert "gh100" in caught.value.hint
    with pytest.raises(UnsupportedError) as caught:
        metric_set("everything")
    assert "lite" in caught.value.hint


def test_a_users_own_rows_come_first(tmp_path: Path) -> None:
    folder = tmp_path / "counters"
    folder.mkdir()
    (folder / "mine.toml").write_text(
        '[[row]]\nkey = "gx1"\nkind = "chip"\ncc = ["99.0"]\n[row.metrics]\ntensor_fp8 = ["x__y.sum"]\n'
    )
    assert chip("99.0", (tmp_path,)).tensor_dtypes == ("fp8",)


def test_a_malformed_row_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "counters"
    folder.mkdir()
    (folder / "mine.toml").write_text('[[row]]\nkey = "bad"\nkind = "quantity"\nformulas = [{ sum = [] }]\n')
    with pytest.raises(RegistryError, match=r"mine\.toml, row bad: a formula needs"):
        quantities((tmp_path,))


def test_labels_tell_metrics_of_one_label_apart_by_unit() -> None:
    assert labels()["Memory Throughput", "byte/second"] == "dram__bytes.sum.per_second"
    assert labels()["Memory Throughput", "%"].startswith("gpu__compute_memory_throughput")


def test_the_command_line_filters_by_a_push_pop_range() -> None:
    words = record_command(
        Recording(("a__b.sum", "c__d.sum"), output="out", launch_count=5), ["python", "w.py"]
    )
    assert words[0] == "ncu"
    assert words[-4:] == ["--metrics", "a__b.sum,c__d.sum", "python", "w.py"]
    assert words[words.index("--nvtx-include") + 1] == "tracekit/"
    assert words[words.index("--launch-count") + 1] == "5"
    assert words[words.index("--clock-control") + 1] == "none"
    assert words[words.index("--cache-control") + 1] == "all"


def test_metrics_command_prints_the_list_and_the_lines() -> None:
    result = CliRunner().invoke(app, ["metrics", "--chip", "gh100", "--set", "lite"])
    assert result.exit_code == 0
    assert "dram__bytes.sum" in result.stdout
    assert (
        "$ ncu --import counters-dram.ncu-rep --csv --page raw --print-units base > counters-dram.csv"
        in result.stdout
    )
    document = json.loads(CliRunner().invoke(app, ["metrics", "--chip", "9.0", "--json"]).stdout)
    assert document["schema_version"] == 1
    assert [run["name"] for run in document["runs"]] == ["dram", "ops"]


@pytest.fixture
def said() -> Callable[..., str]:
    """What a real ncu prints; no GPU and no driver is needed for what is asked here."""
    ncu = os.environ.get("TRACEKIT_NCU") or shutil.which("ncu")
    if ncu is None:
        pytest.skip("no ncu in PATH, and TRACEKIT_NCU does not name one")
    return lambda *words: (
        subprocess.run([ncu, *words], capture_output=True, text=True, check=True, timeout=120).stdout
    )


@pytest.mark.ncu
def test_a_real_ncu_has_every_option_that_is_used(said: Callable[..., str]) -> None:
    text = said("--help")
    words = [*record_command(Recording(("a__b.sum",)), ["x"]), *import_command("x.ncu-rep")]
    used = {word for word in words if word.startswith("--")} | {"--log-file"}
    assert {word for word in used if word not in text} == set()


@pytest.mark.ncu
def test_a_real_ncu_knows_every_metric_of_the_chips_that_it_knows(said: Callable[..., str]) -> None:
    listed = set(re.findall(r"\w+", said("--list-chips")))
    known = [one for one in chips().values() if one.key in listed]
    assert known
    for one in known:
        wanted = {
            metric.split(".")[0]
            for chosen in sets().values()
            for run in runs(chosen, one, one.tensor_dtypes)
            for metric in run.metrics
        }
        text = said("--query-metrics", "--chips", one.key)
        names = set(re.findall(r"^(\w+)\s", text, re.MULTILINE))
        # Metrics of the launch itself come from no counter and stand in no list of a chip.
        assert {name for name in wanted - names if not name.startswith("launch__")} == set(), one.key
