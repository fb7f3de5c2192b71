"""A kept capture is the capture that was parsed, found by content alone."""

import os
from pathlib import Path

import pandas as pd
import pytest
from tracebuilder import TraceBuilder

from tracekit.readers import cache, entries, read_all

KEY = f"{7:032x}"


def trace() -> TraceBuilder:
    built = TraceBuilder(options={"record_shapes": 1}).annotation("step", 0, 50)
    built.op("aten::mm", 1, 20, dims=[[2, 3], [3, 4]]).launched("gemm", 5, 30, 7, grid=[1, 2, 3])
    return built.kernel("orphan", 60, 1)


def test_what_is_kept_is_what_was_parsed(tmp_path: Path) -> None:
    path = trace().write(tmp_path / "t.json.gz")
    parsed = read_all(path)
    key = cache.key_of(path, "rules")
    cache.store(tmp_path / "cache", key, parsed)
    kept = cache.load(tmp_path / "cache", key, path)
    assert kept is not None
    assert kept[0].info == parsed[0].info
    assert (kept[0].threads, kept[0].quality) == (parsed[0].threads, parsed[0].quality)
    for name in ("device_events", "runtime_calls", "ops", "signatures", "annotations", "frames"):
        pd.testing.assert_frame_equal(
            getattr(kept[0], name).astype(object), getattr(parsed[0], name).astype(object)
        )


def test_the_key_follows_the_content_and_not_the_name(tmp_path: Path) -> None:
    first = trace().write(tmp_path / "a.json")
    second = trace().write(tmp_path / "b.json")
    other = trace().kernel("more", 90, 1).write(tmp_path / "c.json")
    assert cache.key_of(first, "r") == cache.key_of(second, "r")
    assert cache.key_of(first, "r") != cache.key_of(other, "r")
    assert cache.key_of(first, "r") != cache.key_of(first, "other rules")


def test_the_key_follows_the_code_that_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trace().write(tmp_path / "a.json")
    before = cache.key_of(path, "r")
    monkeypatch.setattr(cache, "program", lambda *_: "another")
    assert cache.key_of(path, "r") != before


def test_the_program_is_its_code_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_PACKAGE", tmp_path)
    said = []
    for name, text in (("a.py", "1"), ("a.py", "2"), ("b.toml", "1"), ("notes.md", "of no matter")):
        (tmp_path / name).write_text(text)
        entries.program.cache_clear()
        said.append(entries.program())
    entries.program.cache_clear()
    assert len(set(said)) == 3
    assert said[-1] == said[-2]


def test_what_was_used_last_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captures = read_all(trace().write(tmp_path / "t.json"))
    folder, keys = tmp_path / "cache", [f"{number:032x}" for number in range(3)]
    for place in (folder / "mine", folder / f"{9:032x}"):
        place.mkdir(parents=True)
        (place / "data.bin").write_bytes(b"x" * 10_000_000)
    for when, key in enumerate(keys[:2]):
        cache.store(folder, key, captures)
        os.utime(folder / key, (when, when))
    assert cache.load(folder, keys[0], "t.json") is not None
    size = sum(file.stat().st_size for file in (folder / keys[0]).rglob("*"))
    monkeypatch.setattr(entries, "MOST", int(2.5 * size))
    cache.store(folder, keys[2], captures)
    assert sorted(place.name for place in folder.iterdir()) == sorted([keys[0], keys[2], "mine", f"{9:032x}"])


def test_a_damaged_entry_is_as_good_as_none(tmp_path: Path) -> None:
    path = trace().write(tmp_path / "t.json")
    cache.store(tmp_path / "cache", KEY, read_all(path))
    (tmp_path / "cache" / KEY / "0" / "ops.parquet").write_bytes(b"junk")
    assert cache.load(tmp_path / "cache", KEY, path) is None
    assert cache.load(tmp_path / "cache", "absent", path) is None
    cache.store(tmp_path / "cache", KEY, read_all(path))
    assert cache.load(tmp_path / "cache", KEY, path) is not None


def test_what_two_make_at_once_is_kept_once(tmp_path: Path) -> None:
    captures = read_all(trace().write(tmp_path / "t.json"))

    def write_late(draft: Path) -> None:
        cache.store(tmp_path / "cache", KEY, captures)
        (draft / "mine").touch()

    entries.keep(tmp_path / "cache", KEY, write_late)
    assert [place.name for place in (tmp_path / "cache").iterdir()] == [KEY]
    assert cache.load(tmp_path / "cache", KEY, "t.json") is not None
