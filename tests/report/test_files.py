"""The files of a report: whole, named, and in the declared types."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tracekit.errors import CaptureError, UsageError
from tracekit.report import Result, parse_formats, write_report
from tracekit.report.markdown import MAX_LINES, escape, render_markdown
from tracekit.tables import PUBLIC

Make = Callable[..., Result]


def test_the_tables_keep_their_schema_units_and_rows(big_result: Make, tmp_path: Path) -> None:
    result = big_result(steps=4)
    write_report(result, tmp_path / "new" / "folder", ("parquet",))
    for table in PUBLIC:
        read = pq.read_table(tmp_path / "new" / "folder" / f"{table.name}.parquet")
        assert read.schema.remove_metadata().equals(table.schema().remove_metadata())
        assert read.schema.field(table.names[-1]).metadata[b"doc"]
        assert len(read) == len(getattr(result, table.name))
    kernels = pq.read_table(tmp_path / "new" / "folder" / "kernels.parquet").to_pylist()
    assert kernels[0]["name"] == str(result.kernels["name"].iloc[0])


def test_pandas_reads_the_tables_back_as_they_were(big_result: Make, tmp_path: Path) -> None:
    result = big_result(steps=4)
    # Unknown beside a time since 1970, which a float cannot hold to the nanosecond.
    kernels = result.all_kernels
    kernels["launch_ts_ns"] = pd.array([None, *([1_764_000_000_123_456_789] * (len(kernels) - 1))], "Int64")
    write_report(result, tmp_path, ("parquet",))
    for table in PUBLIC:
        read, made = pd.read_parquet(tmp_path / f"{table.name}.parquet"), getattr(result, table.name)
        assert {name: str(kind) for name, kind in read.dtypes.items()} == {
            name: str(kind) for name, kind in made.dtypes.items()
        }
        pd.testing.assert_frame_equal(read.astype(object), made.astype(object))


def test_summary_json_is_the_summary(big_result: Make, tmp_path: Path) -> None:
    result = big_result(steps=4)
    written = write_report(result, tmp_path, ("json", "md"))
    assert [path.name for path in written] == ["summary.json", "report.md"]
    assert json.loads((tmp_path / "summary.json").read_text()) == result.summary
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.md", "summary.json"]


def test_a_folder_that_cannot_be_made_is_one_clear_error(big_result: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match="cannot write the report"):
        write_report(big_result(steps=2), tmp_path / "file" / "below", ("json",))


@pytest.mark.parametrize(("text", "formats"), [("json", ("json",)), ("parquet, html", ("html", "parquet"))])
def test_formats_are_read_in_their_own_order(text: str, formats: tuple[str, ...]) -> None:
    assert parse_formats(text) == formats


@pytest.mark.parametrize("text", ["pdf", "html,pdf", "", ","])
def test_an_unknown_format_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="is not a format"):
        parse_formats(text)


def test_markdown_is_short_however_much_there_is_to_say(big_result: Make, make_result: Make) -> None:
    words = ("prefill", "decode", "mixed", "verify", "draft", "other", "unknown")
    counted = {"dram_bytes": 1e6, "dram_bytes_hw": 2e6, "hw_status": "measured"}
    rows = [
        {"name": f"kernel {at}", "ts_ns": 10 * at, "dur_ns": 10, "phase": words[at % len(words)], **counted}
        for at in range(100)
    ]
    quality = [{"code": f"code_{at}", "count": 1, "message": "m\n" * 200} for at in range(30)]
    found = big_result(steps=1).findings * 10
    result = make_result(rows, quality=quality, findings=found)
    text = render_markdown(result, ("roofline.png", "report.html", "summary.json"))
    assert len(result.overview.phases) == len(words)
    assert text.count("re-read factor 2.00") == len(words)
    assert len(text.splitlines()) <= MAX_LINES


def test_markdown_is_short_and_tells_the_story(big_result: Make) -> None:
    text = render_markdown(big_result(), ("report.html",))
    assert len(text.splitlines()) <= MAX_LINES
    for part in (
        "| prefill |",
        "| decode |",
        "Decode waits for the host",
        "[report.html](report.html)",
        "nvjet",
    ):
        assert part in text


def test_markdown_shows_a_hostile_name_as_it_is() -> None:
    assert escape("<b>|`@me`\n_x_") == r"\<b\>\|\`&#64;me\`\\n\_x\_"


def test_a_picture_of_the_roofline_stands_beside_the_markdown(big_result: Make, tmp_path: Path) -> None:
    write_report(big_result(steps=4), tmp_path, ("md",), images=True)
    assert (tmp_path / "roofline.png").read_bytes().startswith(b"\x89PNG")
    assert "![Roofline](roofline.png)" in (tmp_path / "report.md").read_text()


def test_without_known_work_there_is_no_picture(make_result: Make, tmp_path: Path) -> None:
    write_report(make_result([{"name": "a", "ts_ns": 0, "dur_ns": 1}]), tmp_path, ("md",), images=True)
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]
