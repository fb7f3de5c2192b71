"""What a path stands for: a file, a folder, a run of the collector, an archive."""

import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest
from tracebuilder import TraceBuilder

from tracekit.errors import CaptureError, FormatError
from tracekit.formats import CEILINGS, INDEX, RUN, SHAPES_TRACE, TIMING_TRACE
from tracekit.pipeline import Options, analyze
from tracekit.pipeline.loading import load
from tracekit.readers import read_source
from tracekit.readers.discover import discover, sweep_failures, sweep_runs
from tracekit.tables import Role


def trace(name: str) -> TraceBuilder:
    return TraceBuilder().launched(name, 1, 5, 2)


def names(path: str) -> list[str]:
    return [
        capture.device_events["name"].iloc[0] for source in discover(path) for capture in read_source(source)
    ]


def test_a_folder_is_all_the_captures_in_it(tmp_path: Path) -> None:
    trace("b").write(tmp_path / "b.json")
    trace("a").write(tmp_path / "a.json.gz")
    (tmp_path / "notes.txt").write_text("not a capture")
    assert names(str(tmp_path)) == ["a", "b"]


def test_a_run_of_the_collector_says_which_file_is_what(tmp_path: Path) -> None:
    for name in (TIMING_TRACE, SHAPES_TRACE):
        trace(name).write(tmp_path / name)
    (tmp_path / RUN).write_text("{}")
    (tmp_path / CEILINGS).write_text("{}")
    found = discover(str(tmp_path))
    assert [(source.role, source.run) for source in found] == [
        (Role.TIMING, tmp_path),
        (Role.SHAPES, tmp_path),
    ]


def test_a_zip_is_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "traces.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../escape.json", trace("first").text())
        archive.writestr("inner/second.json", trace("second").text())
        archive.writestr("readme.txt", "x")
    assert names(str(path)) == ["first", "second"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", ["tar", "tar.gz"])
def test_a_tar_is_read_in_place(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"traces.{suffix}"
    with tarfile.open(path, "w:gz" if suffix.endswith("gz") else "w") as archive:
        for name in ("one.json", "two.json"):
            data = trace(name).text()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    assert names(str(path)) == ["one.json", "two.json"]


@pytest.mark.parametrize("content", [b"PK\x03\x04 and then nothing of a zip", b""])
def test_a_damaged_archive_is_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.zip"
    path.write_bytes(content)
    with pytest.raises(CaptureError) as caught:
        names(str(path))
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_an_empty_folder_and_an_archive_without_captures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no capture in it"):
        discover(str(tmp_path))
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("readme.txt", "x")
    with pytest.raises(CaptureError, match="holds no capture"):
        discover(str(tmp_path / "x.zip"))


def sweep(folder: Path, *entries: object) -> Path:
    """A sweep's folder with two runs in it, and an index of these entries."""
    for name in ("b1", "b8"):
        (folder / name).mkdir(parents=True)
        trace(name).write(folder / name / TIMING_TRACE)
        (folder / name / RUN).write_text("{}")
    (folder / INDEX).write_text(json.dumps({"captures": entries}))
    return folder


def test_a_sweep_is_the_runs_of_its_index_in_their_order(tmp_path: Path) -> None:
    folder = sweep(
        tmp_path / "sweep", {"folder": "b8"}, {"folder": "b1"}, {"folder": "b64", "error": "did not fit"}
    )
    found = discover(str(folder))
    assert [(source.role, source.run) for source in found] == [
        (Role.TIMING, folder / "b8"),
        (Role.TIMING, folder / "b1"),
    ]
    assert sweep_runs(str(folder)) == [str(folder / "b8"), str(folder / "b1")]
    assert sweep_runs(str(folder / "b1")) == []
    (failure,) = sweep_failures(str(folder))
    assert failure.message == f"{folder / 'b64'}: was not collected: did not fit"
    assert sweep_failures(str(folder / "b1")) == []


def test_a_capture_of_a_sweep_that_was_not_collected_is_said_beside_the_others(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "sweep", {"folder": "b8"}, {"folder": "b64", "error": "did\nnot fit"})
    loaded, failures = load([str(folder)], Options())
    assert [part.run for part in loaded] == [folder / "b8"]
    assert [(failure.code, failure.message) for failure in failures] == [
        ("not_collected", f"{folder / 'b64'}: was not collected: did not fit")
    ]


@pytest.mark.parametrize("name", ["../outside", "/etc", ".", "", "b1/../../outside", "link", 7, None, "b1\0"])
def test_an_index_leads_nowhere_but_into_its_own_folder(name: object, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    trace("secret").write(outside / TIMING_TRACE)
    (outside / RUN).write_text("{}")
    folder = sweep(tmp_path / "sweep", {"folder": name})
    (folder / "link").symlink_to(outside)
    with pytest.raises(FormatError, match="which is no folder of it"):
        discover(str(folder))


@pytest.mark.parametrize("text", ["[]", "{}", '{"captures": 3}', "not JSON", ""])
def test_an_index_that_is_none_is_one_line(text: str, tmp_path: Path) -> None:
    folder = sweep(tmp_path / "sweep")
    (folder / INDEX).write_text(text)
    with pytest.raises((CaptureError, FormatError)) as caught:
        discover(str(folder))
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_a_run_that_is_gone_is_said(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "sweep", {"folder": "b1"}, {"folder": "deleted"})
    with pytest.raises(CaptureError, match="stands beside no trace"):
        discover(str(folder))


def test_paths_may_be_given_as_paths(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    trace("a").write(file)
    result = analyze([file])
    assert result.summary["captures"][0]["path"] == str(file)
