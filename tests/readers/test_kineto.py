"""Kineto traces, era by era and oddity by oddity, each as the smallest trace that shows it."""

import json
from pathlib import Path

import pytest
from tracebuilder import A100, TraceBuilder

from tracekit.errors import CaptureError, FormatError, UnsupportedError
from tracekit.readers import read, read_stream
from tracekit.readers.kineto import document
from tracekit.readers.source import from_bytes
from tracekit.tables import DEVICE_EVENTS, OPS, RANGES, RUNTIME_CALLS, SIGNATURES, Capture, DeviceProperties


def parse(data: bytes) -> Capture:
    return read_stream(from_bytes("trace.json", data), lambda name: "execute_model" in name)[0]


def decode_trace() -> TraceBuilder:
    trace = TraceBuilder(options={"record_shapes": 1})
    trace.annotation("step", 0, 100).op("aten::mm", 10, 20, dims=[[2, 3], [3, 4]], types=["float", "float"])
    return trace.launched("gemm", 12, 40.5, 7.125, grid=[64, 1, 1], block=[128, 1, 1])


def test_every_table_keeps_its_contract() -> None:
    capture = parse(decode_trace().text())
    DEVICE_EVENTS.check(capture.device_events)
    RUNTIME_CALLS.check(capture.runtime_calls)
    OPS.check(capture.ops)
    SIGNATURES.check(capture.signatures)
    RANGES.check(capture.annotations)
    RANGES.check(capture.frames)


def test_a_kernel_row_has_exact_nanoseconds_on_the_absolute_clock() -> None:
    row = parse(decode_trace().text()).device_events.iloc[0]
    assert (row["ts_ns"], row["dur_ns"]) == (1_000_000_000 + 40_500, 7_125)
    assert (row["name"], row["kind"], row["device"], row["stream"], row["correlation"]) == (
        "gemm",
        "kernel",
        0,
        7,
        1,
    )
    assert (row["grid"], row["block"]) == ("64,1,1", "128,1,1")


def test_recorded_shapes_become_one_signature_for_equal_calls() -> None:
    trace = decode_trace().op("aten::mm", 50, 5, dims=[[2, 3], [3, 4]], types=["float", "float"])
    capture = parse(trace.text())
    assert capture.signatures["op"].tolist() == ["aten::mm"]
    assert capture.signatures["dims"].tolist() == ["[[2, 3], [3, 4]]"]
    assert capture.ops["signature"].tolist() == [0, 0]


def test_metadata_is_read_before_and_after_the_events() -> None:
    trace = decode_trace()
    trace.base_ns = None
    trace.tail = {
        "baseTimeNanoseconds": 5_000_000_000,
        "distributedInfo": {"rank": 3, "world_size": 8},
        "host_name": "secret",
    }
    capture = parse(trace.text())
    assert capture.info.rank == 3
    assert capture.info.world_size == 8
    assert capture.info.options == {"record_shapes"}
    assert capture.info.devices == (DeviceProperties(0, "NVIDIA A100-SXM4-80GB", 8, 0, 108, 85_000_000_000),)
    assert capture.device_events["ts_ns"].tolist() == [5_000_040_500]
    assert "secret" not in repr(capture.info)


def test_the_eras_are_told_apart() -> None:
    def era(**changes: object) -> str:
        trace = decode_trace()
        for name, value in changes.items():
            setattr(trace, name, value)
        return parse(trace.text()).info.schema

    assert era(options={"cuda_runtime_version": 12040}) == "E4"
    assert era() == "E3"
    assert era(base_ns=None) == "E2"
    old = TraceBuilder(base_ns=None)
    old.event(
        "Kernel", "gemm", 1_623_142_623_531_625, 2, pid=0, tid="stream 7", device=0, stream=7, correlation=9
    )
    old.event("Runtime", "cudaLaunchKernel", 1_623_142_623_531_600, 3, tid="25738", correlation=9)
    old.event(
        "Operator", "aten::mm", 1_623_142_623_531_500, 90, tid="25738", **{"Input Dims": [[2, 2], [2, 2]]}
    )
    capture = parse(old.text())
    assert capture.info.schema == "E1"
    assert capture.device_events["ts_ns"].tolist() == [1_623_142_623_531_625_000]
    assert (len(capture.runtime_calls), len(capture.ops)) == (1, 1)


@pytest.mark.parametrize(
    ("written", "ns"),
    [
        ("4000000000000.001", 4_000_000_000_000_001),
        ("1711964646123456.789", 1_711_964_646_123_456_789),
        ("12", 12_000),
        ('"12.5"', 12_500),
        ("1.5e3", 1_500_000),
        ("0.0009", 0),
    ],
)
def test_times_are_exact_from_their_decimal_text(written: str, ns: int) -> None:
    text = '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": WRITTEN, "dur": 1}]}'.replace(
        "WRITTEN", written
    )
    assert parse(text.encode()).device_events["ts_ns"].tolist() == [ns]


@pytest.mark.parametrize("written", ["null", '"N/A"', "-3", "1e400", '"1e999999999"', "[1]", "true"])
def test_an_event_without_a_usable_duration_is_kept_out_and_counted(written: str) -> None:
    text = '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "good", "ts": 1, "dur": 1}, {"ph": "X", "cat": "kernel", "name": "bad", "ts": 2, "dur": WRITTEN}]}'.replace(
        "WRITTEN", written
    )
    capture = parse(text.encode())
    assert capture.device_events["name"].tolist() == ["good"]
    assert [(note.code, note.count) for note in capture.quality] == [("bad_time", 1)]


def test_kernels_come_out_in_order_of_start_whatever_the_file_order() -> None:
    trace = TraceBuilder().kernel("late", 30, 1).kernel("early", 10, 1).kernel("middle", 20, 1)
    assert parse(trace.text()).device_events["name"].tolist() == ["early", "middle", "late"]


def test_ids_beyond_64_bits_and_odd_types_become_null_not_errors() -> None:
    trace = TraceBuilder().kernel("k", 1, 1, device=-(1 << 70)).kernel("l", 2, 1)
    trace.events[1]["args"].update(correlation="17", stream=3.0)
    frame = parse(trace.text()).device_events
    assert frame["device"].isna().tolist() == [True, False]
    assert frame["correlation"].tolist()[1] == 17
    assert frame["stream"].tolist()[1] == 3


def test_a_comms_id_above_int64_does_not_lose_its_event() -> None:
    trace = TraceBuilder().op("record_param_comms", 1, 5)
    trace.events[0]["args"]["Comms Id"] = 10159970886766084423
    assert parse(trace.text()).ops["name"].tolist() == ["record_param_comms"]


def test_only_wanted_python_frames_are_kept_and_all_are_counted() -> None:
    trace = (
        decode_trace()
        .frame("vllm/v1/worker/gpu_model_runner.py(1002): execute_model", 0, 90)
        .frame("noise.py(1): f", 1, 2)
    )
    capture = parse(trace.text())
    assert capture.frames["name"].tolist() == ["vllm/v1/worker/gpu_model_runner.py(1002): execute_model"]
    assert capture.info.event_counts["python_function"] == 2


def test_unknown_categories_are_counted_and_named() -> None:
    capture = parse(decode_trace().event("martian_op", "x", 1, 1).text())
    assert [(note.code, note.count) for note in capture.quality] == [("unknown_category", 1)]
    assert "martian_op" in capture.quality[0].message


@pytest.mark.parametrize("indent", [None, 2])
def test_batches_of_any_size_give_the_same_tables(
    indent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = TraceBuilder()
    for number in range(200):
        trace.launched(f'name with }}, {{ and "quotes" {number % 7}', number * 10, number * 10 + 3, 2.5)
    whole = parse(trace.text(indent)).device_events
    monkeypatch.setattr(document, "BATCH", 512)
    monkeypatch.setattr("tracekit.readers.source.BLOCK", 64)
    pieces = parse(trace.text(indent)).device_events
    assert pieces.astype(object).equals(whole.astype(object))
    assert len(whole) == 200


def test_a_bare_array_of_events_is_a_trace() -> None:
    capture = parse(json.dumps(decode_trace().events).encode())
    assert len(capture.device_events) == 1


@pytest.mark.parametrize("gzipped", [False, True])
def test_files_are_read_by_content_plain_or_gzip(gzipped: bool, tmp_path: Path) -> None:
    trace = decode_trace()
    written = trace.write(tmp_path / ("t.json.gz" if gzipped else "t.json"))
    renamed = tmp_path / ("t.json" if gzipped else "t.json.gz")
    Path(written).rename(renamed)
    assert len(read(str(renamed)).device_events) == 1


def test_a_gpu_with_no_kernels_is_said_so() -> None:
    trace = TraceBuilder(devices=[A100]).op("aten::mm", 1, 2)
    trace.launch(1)
    capture = parse(trace.text())
    assert capture.device_events.empty
    assert [note.code for note in capture.quality] == ["no_kernels"]


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        (b"", CaptureError, "empty"),
        (b"   \n", CaptureError, "empty"),
        (b"hello", FormatError, "not JSON"),
        (b'{"a": 1}', FormatError, "without a traceEvents"),
        (b'{"traceEvents": []}', FormatError, "no event"),
        (b'{"traceEvents": null}', FormatError, "null"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", UnsupportedError, "Git LFS pointer"),
        (b'{"schema": "1.1.1", "nodes": [], "pid": 3}', FormatError, "execution trace"),
        (
            b'{"traceEvents": [{"ph": "X", "cat": "FEE", "ts": 1, "dur": 1}], "viztracer_metadata": {}}',
            FormatError,
            "VizTracer",
        ),
        (
            b'{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "a", "ts": 1, "dur": 1}]}',
            FormatError,
            "neither device work",
        ),
    ],
)
def test_what_cannot_be_reported_is_refused_in_one_line_with_a_next_step(
    data: bytes, error: type[CaptureError], said: str
) -> None:
    with pytest.raises(error) as caught:
        parse(data)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        read(str(tmp_path / "nothing.json"))


def test_begin_and_end_events_are_paired() -> None:
    trace = TraceBuilder().kernel("whole", 1, 1)
    for ph, name, ts in (
        ("B", "outer", 0),
        ("B", "inner", 10),
        ("E", "", 30.25),
        ("E", "", 50),
        ("E", "", 60),
        ("B", "open", 70),
    ):
        trace.events.append({"ph": ph, "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts})
    capture = parse(trace.text())
    assert dict(zip(capture.ops["name"], capture.ops["dur_ns"], strict=True)) == {
        "outer": 50_000,
        "inner": 20_250,
    }
    assert [(note.code, note.count) for note in capture.quality] == [
        ("paired_events", 2),
        ("unpaired_events", 2),
    ]


def test_ranks_merged_into_one_file_are_split_so_that_ids_do_not_collide() -> None:
    trace = TraceBuilder()
    for rank in (1, 0):
        host, device = f"[TP0{rank}-DP00] 4242", f"[TP0{rank}-DP00] 0"
        trace.event("cuda_runtime", "cudaLaunchKernel", 10 + rank, 1, pid=host, correlation=5)
        trace.event(
            "kernel",
            f"kernel of {rank}",
            20 + rank,
            3,
            pid=device,
            tid=7,
            device=rank,
            stream=7,
            correlation=5,
        )
    captures = read_stream(from_bytes("merged.json", trace.text()), lambda _name: False)
    assert [
        (capture.info.rank, capture.device_events["name"].tolist(), len(capture.runtime_calls))
        for capture in captures
    ] == [(0, ["kernel of 0"], 1), (1, ["kernel of 1"], 1)]


def test_a_jax_trace_is_told_so() -> None:
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:TPU:0"}},
        {"ph": "X", "name": "fusion", "pid": 1, "tid": 1, "ts": 1, "dur": 2},
    ]
    with pytest.raises(FormatError, match="JAX or TensorFlow"):
        parse(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}).encode())


@pytest.mark.parametrize("category", ["mtia_ccp_events", "hpu_op"])
def test_device_work_of_other_accelerators_is_counted_and_timed(category: str) -> None:
    capture = parse(TraceBuilder(devices=[]).kernel("matmul", 5, 7, cat=category).text())
    assert capture.device_events[["kind", "dur_ns"]].to_numpy().tolist() == [["kernel", 7_000]]


def test_a_duplicate_key_counts_once_the_last_wins() -> None:
    text = b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "dur": 5, "args": {"stream": 1, "stream": 9}}]}'
    frame = parse(text).device_events
    assert frame[["dur_ns", "stream"]].to_numpy().tolist() == [[5_000, 9]]
