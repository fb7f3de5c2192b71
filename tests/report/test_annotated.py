"""The annotated trace: read back, it is the run that it was made of."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracekit.pipeline import analyze
from tracekit.report import Result
from tracekit.report import annotated as module
from tracekit.report.annotated import mean_rates, write_annotated

Make = Callable[..., Result]
BREAKOUT = "</script>\x00\u202e"


def written(result: Result, path: Path, **choices: Any) -> list[dict[str, Any]]:
    write_annotated(result, path, **choices)
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return events


def test_read_back_it_has_the_same_kernels(big_result: Make, tmp_path: Path) -> None:
    result = big_result(steps=4)
    path = tmp_path / "out.json.gz"
    written(result, path)
    again = analyze([str(path)])
    assert again.errors == ()
    old, new = (
        one.kernels.sort_values("ts_ns")[["name", "dur_ns", "stream", "kind"]].astype(str)
        for one in (result, again)
    )
    assert new.to_numpy().tolist() == old.to_numpy().tolist()
    assert np.diff(again.kernels["ts_ns"].sort_values()).tolist() == np.diff(result.kernels["ts_ns"]).tolist()


def test_a_kernel_says_what_limits_it(make_result: Make, tmp_path: Path) -> None:
    row = {"ts_ns": 5_000, "dur_ns": 1000, "flops": 5e8, "dram_bytes": 1e6, "peak": "bf16", "step_id": 0}
    result = make_result(
        [{"name": BREAKOUT, **row, "phase": "decode", "bottleneck": "dram"}],
        [{"phase": "decode", "ts_ns": 5_000, "dur_ns": 3_000}],
        [{"step_id": 0, "ts_ns": 6_000, "dur_ns": 2_000, "cause": "host"}],
    )
    events = written(result, tmp_path / "out.json.gz")
    (kernel,) = (event for event in events if event.get("cat") == "kernel")
    assert (kernel["name"], kernel["ts"], kernel["dur"]) == (BREAKOUT, 0.0, 1.0)
    # 5e8 FLOP in 1 us is half of 1000 TFLOP/s; 1e6 bytes in 1 us half of 2 TB/s.
    shown = ("class", "class confidence", "% of compute roof", "% of DRAM roof")
    assert [kernel["args"][word] for word in shown] == ["dram", 0.5, 50, 50]
    tracks = {event["cat"]: (event["name"], event["ts"], event["dur"]) for event in events if "cat" in event}
    assert tracks["tracekit_step"] == ("step 0: decode", 0.0, 3.0)
    assert tracks["tracekit_phase"] == ("decode", 0.0, 1.0)
    assert tracks["tracekit_gap"] == ("idle: host", 1.0, 2.0)
    counted = {event["name"] for event in events if event["ph"] == "C"}
    assert counted == {"achieved FLOP/s", "DRAM byte/s"}


def test_a_kernel_with_counters_says_what_was_measured(make_result: Make, tmp_path: Path) -> None:
    row = {"dur_ns": 1000, "dram_bytes": 1e6}
    kernels = [
        {"name": "counted", "ts_ns": 0, "dram_bytes_hw": 3e6, "hw_status": "measured", **row},
        {"name": "lacking", "ts_ns": 1000, "hw_status": "unsupported", **row},
    ]
    first, second = (
        event["args"]
        for event in written(make_result(kernels), tmp_path / "out.json.gz")
        if event.get("cat") == "kernel"
    )
    assert (first["least DRAM byte"], first["measured DRAM byte"], first["counters"]) == (
        1e6,
        3e6,
        "measured",
    )
    assert (second.get("measured DRAM byte"), second["counters"]) == (None, "unsupported")


def test_the_rules_of_the_format_hold_where_kernels_and_steps_overlap(
    big_result: Make, tmp_path: Path
) -> None:
    result = big_result(steps=4)
    # Each second kernel starts before the one ahead of it has ended, and each step lasts into the next one.
    starts = result.all_kernels["ts_ns"] - 700 * (result.all_kernels["kernel_id"] % 2)
    result = replace(
        result,
        all_kernels=result.all_kernels.assign(ts_ns=starts.astype("int64")),
        steps=result.steps.assign(dur_ns=result.steps["dur_ns"] + 500_000),
    )
    events = written(result, tmp_path / "out.json.gz")
    assert {event["ph"] for event in events} == {"X", "M", "C"}
    named = {(event["pid"], event.get("tid")): event["name"] for event in events if event["ph"] == "M"}
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    series: dict[tuple[int, str], list[float]] = {}
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 0
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
        elif event["ph"] == "C":
            assert event["args"]["rate"] >= 0
            series.setdefault((event["pid"], event["name"]), []).append(event["ts"])
    assert sum(len(slices) for slices in tracks.values()) >= len(result.kernels) + len(result.steps)
    for track, slices in tracks.items():
        assert track in named
        assert (track[0], None) in named
        ends = [round(1e3 * (start + dur)) for start, dur in sorted(slices)]
        begins = [round(1e3 * start) for start, _ in sorted(slices)]
        assert all(begin >= end for begin, end in zip(begins[1:], ends, strict=False)), track
    assert all(times == sorted(times) for times in series.values())
    assert len(tracks) > len({"stream", "steps", "phases", "idle"})


def test_self_times_of_ops_do_not_overlap(make_result: Make, tmp_path: Path) -> None:
    # An op of 100 ns self time calls one of 50 ns at 10 ns: as slices of one track they stand in a row.
    ops = [
        {"name": "outer", "ts_ns": 0, "dur_ns": 100, "kind": "cpu_op", "device": None},
        {"name": "inner", "ts_ns": 10, "dur_ns": 50, "kind": "cpu_op", "device": None},
        {"name": "later", "ts_ns": 500, "dur_ns": 50, "kind": "cpu_op", "device": None},
    ]
    events = written(make_result(ops), tmp_path / "out.json.gz")
    assert [event["ts"] for event in events if event.get("cat") == "cpu_op"] == [0.0, 0.1, 0.5]


def test_the_mean_rate_spreads_work_over_its_kernel() -> None:
    # 10 of work over 0-10 ns, 20 over 5-15 ns: 1 a ns, then 1 + 2, then 2.
    edges, rates = mean_rates(np.array([0, 5]), np.array([10, 10]), np.array([10.0, 20.0]), 3)
    assert edges.tolist() == [0, 5, 10, 15]
    assert (rates / 1e9).tolist() == pytest.approx([1, 3, 2])


def test_reduced_it_stays_under_its_size_whatever_the_texts_are(
    big_result: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REDUCED_BYTES", 60_000)
    names = [(text * 500, "gemm", "bf16") for text in ("n", '"', "\\", "\U0001f600", "\x00")]
    result = big_result(steps=4, names=names)
    result.steps["annotation"] = '"' * 3000
    path = tmp_path / "out.json"
    left_out = write_annotated(result, path, reduced=True)
    assert path.stat().st_size < module.REDUCED_BYTES
    document = json.loads(path.read_bytes())
    drawn = {
        what: sorted(event["dur"] for event in document["traceEvents"] if event.get("cat") == word)
        for what, word in (("kernels", "kernel"), ("gaps", "tracekit_gap"), ("steps", "tracekit_step"))
    }
    assert set(left_out) == {"kernels", "gaps"}
    assert {what: len(drawn[what]) + left_out.get(what, 0) for what in drawn} == {
        "kernels": len(result.kernels),
        "gaps": len(result.gaps),
        "steps": len(result.steps),
    }
    # What stays is the longest, and the trace itself says what is missing.
    longest = result.kernels["dur_ns"].nlargest(len(drawn["kernels"]))
    assert drawn["kernels"][0] * 1e3 == longest.min()
    assert document["otherData"]["tracekit_left_out_kernels"] == str(left_out["kernels"])


def test_an_empty_result_is_an_empty_trace(make_result: Make, tmp_path: Path) -> None:
    assert written(make_result([]), tmp_path / "out.json.gz") == []
