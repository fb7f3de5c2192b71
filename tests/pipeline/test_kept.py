"""A kept analysis is the analysis that was made, and is found again only where nothing that it depends on has changed."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tracebuilder import TraceBuilder

from tracekit.errors import CaptureError
from tracekit.pipeline import Options, analyze
from tracekit.pipeline.asked import key_of
from tracekit.pipeline.kept import KeptResult
from tracekit.readers import cache
from tracekit.report import Result
from tracekit.report.html import render_html
from tracekit.report.markdown import render_markdown
from tracekit.tables import PUBLIC

SAMPLES = Path(__file__).parents[2] / "sample_traces"
# A time since 1970, which a float cannot hold to the nanosecond.
NOW = 1_764_000_000_000_000


def trace() -> TraceBuilder:
    built = TraceBuilder(options={"record_shapes": 1}).annotation("step", NOW, 50)
    built.op("aten::mm", NOW + 1, 20, dims=[[2, 3], [3, 4]]).launched(
        "gemm", NOW + 5, NOW + 30, 7, grid=[1, 2, 3]
    )
    return built.kernel("orphan", NOW + 60, 1)


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Texts as objects, whatever pandas makes of them when it reads a file."""
    return frame.astype({name: object for name in frame if frame[name].dtype == "category"})


def again(paths: list[str], options: Options) -> tuple[Result, Result]:
    first, second = analyze(paths, options), analyze(paths, options)
    assert not isinstance(first, KeptResult)
    assert isinstance(second, KeptResult)
    return first, second


def samples() -> list[Path]:
    return sorted(path for path in SAMPLES.iterdir() if path.is_dir() or path.name.endswith((".json", ".gz")))


@pytest.mark.parametrize("sample", samples(), ids=lambda path: path.name)
def test_what_is_kept_of_a_sample_is_what_was_found(sample: Path, tmp_path: Path) -> None:
    first, second = again([str(sample)], Options(cache=tmp_path))
    assert json.dumps(second.summary) == json.dumps(first.summary)
    assert render_markdown(second, []) == render_markdown(first, [])
    assert render_html(second) == render_html(first)
    pd.testing.assert_frame_equal(
        plain(second.all_kernels[list(first.all_kernels)]), plain(first.all_kernels)
    )
    pd.testing.assert_frame_equal(plain(second.by_name), plain(first.by_name))
    assert (second.ceilings, second.findings, second.device) == (first.ceilings, first.findings, first.device)
    for table in PUBLIC:
        assert second.parquet(table) == first.parquet(table)


def test_times_are_kept_to_the_nanosecond_where_some_are_unknown(tmp_path: Path) -> None:
    first, second = again([trace().write(tmp_path / "t.json")], Options(cache=tmp_path / "kept"))
    launched = second.kernels["launch_ts_ns"]
    assert launched.isna().tolist() == [False, True]
    assert launched.iloc[0] == first.kernels["launch_ts_ns"].iloc[0]
    assert int(launched.iloc[0]) != int(np.float64(launched.iloc[0]))


def rows(folder: Path, name: str, text: str) -> Path:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "own.toml").write_text(text)
    return folder


@pytest.mark.parametrize(
    "change",
    [
        lambda o, _: replace(o, device="NVIDIA H100 SXM"),
        lambda o, _: replace(o, peaks={"bf16": 1e12}),
        lambda o, _: replace(o, dram=1e12),
        lambda o, _: replace(o, model="llama-3.1-8b"),
        lambda o, _: replace(o, ranks=2),
        lambda o, _: replace(o, unprofiled={"decode": 1e6}),
        lambda o, _: replace(o, steady=True),
        lambda o, tmp: replace(o, donors=(str(tmp / "t.json"),)),
        lambda o, tmp: replace(o, counters=(str(tmp / "t.json"),)),
        lambda o, tmp: replace(o, data=(rows(tmp / "data", "kernels", "[[row]]\nkey = 'x'\n"),)),
    ],
)  # fmt: skip
def test_every_option_that_an_analysis_heeds_is_in_the_key(
    change: Callable[[Options, Path], Options], tmp_path: Path
) -> None:
    path = trace().write(tmp_path / "t.json")
    options = Options()
    assert key_of([path], options) == key_of([path], Options(cache=tmp_path))
    assert key_of([path], options) != key_of([path], change(options, tmp_path))


def changed(write: Callable[[], Any], paths: list[str], options: Options) -> bool:
    """Whether the key is another after something was written."""
    before = key_of(paths, options)
    write()
    return before != key_of(paths, options)


def test_every_file_that_an_analysis_looks_at_is_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = trace().write(tmp_path / "t.json")
    data, model = rows(tmp_path / "data", "models", ""), tmp_path / "model"
    model.mkdir()
    calibration = tmp_path / "config" / "tracekit" / "calibrations" / "gpu"
    calibration.mkdir(parents=True)
    options = Options(data=(data,), model=str(model))
    writes = [
        lambda: (model / "config.json").write_text("{}"),
        lambda: (model / "config.json").write_text("{ }"),
        lambda: rows(tmp_path / "data", "models", "# changed"),
        lambda: (tmp_path / "run.json").write_text("{}"),
        lambda: (tmp_path / "ceilings.json").write_text("{}"),
        lambda: (calibration / "ceilings.json").write_text("{}"),
        lambda: trace().kernel("more", 90, 1).write(tmp_path / "t.json"),
    ]
    assert all(changed(write, [path], options) for write in writes)
    assert not changed(lambda: (tmp_path / "notes.txt").write_text("of no matter"), [path], options)


def test_another_version_of_the_program_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trace().write(tmp_path / "t.json")
    before = key_of([path], Options())
    monkeypatch.setattr("tracekit.pipeline.asked.program", lambda: "another")
    assert before != key_of([path], Options())


def test_standard_input_and_what_is_not_there_have_no_key(tmp_path: Path) -> None:
    assert key_of(["-"], Options()) is None
    assert key_of([str(tmp_path / "absent.json")], Options()) is None


def test_an_analysis_with_a_failure_is_made_anew(tmp_path: Path) -> None:
    good = trace().write(tmp_path / "t.json")
    (tmp_path / "bad.json").write_text("{")
    for _ in range(2):
        result = analyze([good, str(tmp_path / "bad.json")], Options(cache=tmp_path / "kept"))
        assert not isinstance(result, KeptResult)
        assert len(result.errors) == 1


def test_an_entry_without_its_last_file_is_as_good_as_none(tmp_path: Path) -> None:
    options = Options(cache=tmp_path / "kept")
    path = trace().write(tmp_path / "t.json")
    analyze([path], options)
    for file in (tmp_path / "kept").glob("*/result.msgpack"):
        file.write_bytes(b"junk")
    assert not isinstance(analyze([path], options), KeptResult)


def test_a_table_that_was_damaged_is_one_clear_error(tmp_path: Path) -> None:
    _, kept = again([trace().write(tmp_path / "t.json")], Options(cache=tmp_path / "kept"))
    for file in (tmp_path / "kept").glob("*/internal.parquet"):
        file.write_bytes(b"junk")
    with pytest.raises(CaptureError, match="the kept analysis is damaged"):
        _ = kept.all_kernels


def test_a_second_report_reads_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(cache=tmp_path / "kept")
    path = trace().write(tmp_path / "t.json")
    first = analyze([path], options)
    monkeypatch.setattr("tracekit.pipeline.analysis.load", None)
    monkeypatch.setattr(cache, "read_frame", None)
    assert analyze([path], options).overview == first.overview
