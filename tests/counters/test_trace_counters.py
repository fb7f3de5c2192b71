"""Counters that torch.profiler once wrote into its traces, and what a file of counters sums up to."""

import json

import counterbuilder as build
import pytest

from tracekit.counters import join_counters, totals_note
from tracekit.readers import read_stream
from tracekit.readers.source import from_bytes
from tracekit.tables import Capture

SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"


def trace(*ranges: tuple[str, dict[str, object]]) -> Capture:
    events = [
        {
            "ph": "X",
            "cat": "cuda_profiler_range",
            "name": name,
            "pid": 0,
            "tid": 0,
            "ts": at,
            "dur": 1,
            "args": args,
        }
        for at, (name, args) in enumerate(ranges)
    ]
    return read_stream(from_bytes("t.json", json.dumps({"traceEvents": events}).encode()), lambda _n: False)[
        0
    ]


def test_profiler_ranges_give_their_metrics() -> None:
    fp32 = {SASS.format("fadd"): 10, SASS.format("fmul"): 20, SASS.format("ffma"): 100}
    capture = trace(("gemm", fp32), ("__missing__", {**fp32, SASS.format("ffma"): 0}))
    assert capture.counters is not None
    assert capture.counters.launches["name"].tolist() == ["gemm", "__missing__"]
    # 10 + 20 + 2 * 100, and 10 + 20.
    assert "260 FLOP in fp32" in totals_note(capture.counters).message


def test_a_metric_that_is_no_number_is_failed() -> None:
    capture = trace(("gemm", {"dram__bytes.sum": "n/a"}), ("gemm", {"dram__bytes.sum": 7}))
    assert capture.counters is not None
    assert capture.counters.readings["status"].tolist() == ["failed", "measured"]


def test_a_capture_without_kernels_keeps_the_sums() -> None:
    found = build.counters([{"name": "gemm"}], [{"dram__bytes.sum": 2e9}])
    joined = join_counters(build.kernels([]), [found], build.steps())
    assert [note.code for note in joined.notes] == ["counters_total"]
    assert "2.00 GB of DRAM traffic" in joined.notes[0].message


@pytest.mark.parametrize(
    "events", ["[]", '[{"ph": "X", "cat": "cuda_profiler_range", "name": "k", "ts": 0, "dur": 1}]']
)
def test_a_range_without_arguments_has_no_counters(events: str) -> None:
    text = '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 1}'
    document = f"{text}{',' if events != '[]' else ''}{events[1:-1]}]}}"
    capture = read_stream(from_bytes("t.json", document.encode()), lambda _n: False)[0]
    assert capture.counters is None or capture.counters.readings.empty
