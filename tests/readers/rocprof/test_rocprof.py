"""Captures of rocprofv3: JSON, rocpd databases and CSV, and the same tables from each."""

import gzip
import json
import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from rocprofbuilder import GPU, HOST, PRIVATE, RocprofBuilder

import tracekit
from tracekit.errors import CaptureError, FormatError
from tracekit.link import link
from tracekit.readers import read, read_stream
from tracekit.readers.rocprof import document
from tracekit.readers.source import from_bytes
from tracekit.tables import (
    COUNTER_LAUNCHES,
    COUNTER_VALUES,
    DEVICE_EVENTS,
    RANGES,
    RUNTIME_CALLS,
    Capture,
    Counters,
    DeviceProperties,
)

KERNEL_CSV = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X",'
    '"Grid_Size_Y","Grid_Size_Z"\n'
    '"KERNEL_DISPATCH","Agent 4",1,6,501,1,8,"void gemm<1, 2>(int)",7,1000,1250,256,1,1,1000,2,1\n'
)
COUNTER_CSV = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
    '"Kernel_Name","Workgroup_Size","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
    '1,1,"Agent 4",1,500,501,512,8,"gemm",256,"FETCH_SIZE",2.5,10,20\n'
    '1,1,"Agent 4",1,500,501,512,8,"gemm",256,"SQ_WAVES",8,10,20\n'
)


def parse(data: bytes) -> Capture:
    return read_stream(from_bytes("capture", data), lambda _name: False)[0]


def cells(counters: Counters) -> list[list[object]]:
    return counters.readings[["metric", "value", "unit"]].to_numpy().tolist()


def decode() -> RocprofBuilder:
    trace = RocprofBuilder().range("decode", 0, 900, 1).call(0, 100, 105, 7)
    return trace.kernel("void gemm<float>(int)", 1_000, 1_250, 7).copy(2_000, 2_100, 4096, 8)


def as_json(trace: RocprofBuilder, _folder: Path) -> Capture:
    return parse(trace.text())


def as_indented_json(trace: RocprofBuilder, _folder: Path) -> Capture:
    return parse(trace.text(indent=2))


def as_gzip(trace: RocprofBuilder, _folder: Path) -> Capture:
    return parse(gzip.compress(trace.text()))


def as_rocpd_3(trace: RocprofBuilder, folder: Path) -> Capture:
    return read(trace.write_rocpd(folder / "results.db", 3))


def as_rocpd_4(trace: RocprofBuilder, folder: Path) -> Capture:
    return read(trace.write_rocpd(folder / "results.db", 4))


Way = Callable[[RocprofBuilder, Path], Capture]
WAYS = (as_json, as_indented_json, as_gzip, as_rocpd_3, as_rocpd_4)


@pytest.mark.parametrize("way", WAYS)
def test_each_form_gives_the_same_tables(tmp_path: Path, way: Way) -> None:
    capture = way(decode(), tmp_path)
    assert capture.info.format == "rocprof"
    kernel, copy = (row for _, row in capture.device_events.iterrows())
    assert (kernel["name"], kernel["ts_ns"], kernel["dur_ns"]) == ("void gemm<float>(int)", 1_000, 250)
    assert (kernel["device"], kernel["stream"], kernel["correlation"]) == (0, 6, 7)
    assert (copy["kind"], copy["name"], copy["bytes"]) == ("memcpy", "Memcpy HtoD (Host -> Device)", 4096)
    call = capture.runtime_calls.iloc[0]
    assert (call["name"], call["ts_ns"], call["dur_ns"], call["correlation"]) == (
        "hipLaunchKernel",
        100,
        5,
        7,
    )
    assert capture.annotations[["name", "dur_ns"]].to_numpy().tolist() == [["decode", 900]]
    assert link(capture).kernels["launch_ts_ns"].tolist()[0] == 100
    assert (capture.threads, capture.quality) == ((("500", "501"),), ())


@pytest.mark.parametrize("way", WAYS)
def test_every_table_keeps_its_contract(tmp_path: Path, way: Way) -> None:
    capture = way(decode().count("gemm", SQ_WAVES=[4.0]), tmp_path)
    DEVICE_EVENTS.check(capture.device_events)
    RUNTIME_CALLS.check(capture.runtime_calls)
    RANGES.check(capture.annotations)
    assert capture.counters is not None
    COUNTER_LAUNCHES.check(capture.counters.launches)
    COUNTER_VALUES.check(capture.counters.readings)


@pytest.mark.parametrize("way", WAYS)
def test_a_grid_of_work_items_is_one_of_work_groups(tmp_path: Path, way: Way) -> None:
    # 1000 work items in groups of 256 are 4 groups, the last of them not full.
    row = way(decode(), tmp_path).device_events.iloc[0]
    assert (row["grid"], row["block"]) == ("4,2,1", "256,1,1")


@pytest.mark.parametrize("way", WAYS)
def test_the_device_has_its_target_and_compute_units(tmp_path: Path, way: Way) -> None:
    assert way(decode(), tmp_path).info.devices == (
        DeviceProperties(0, "AMD Instinct MI300X", 9, 4, 304, 206_000_000_000),
    )


@pytest.mark.parametrize("way", WAYS)
def test_nothing_private_leaves_the_file(tmp_path: Path, way: Way) -> None:
    seen = pickle.dumps(way(decode(), tmp_path))
    assert HOST.encode() not in seen
    assert PRIVATE.encode() not in seen


@pytest.mark.parametrize("way", WAYS)
def test_counters_are_sums_over_instances_in_base_units(tmp_path: Path, way: Way) -> None:
    trace = decode().count("gemm", FETCH_SIZE=[2.0, 0.5], SQ_INSTS_VALU_MFMA_MOPS_BF16=[3.0])
    counters = way(trace, tmp_path).counters
    assert isinstance(counters, Counters)
    # FETCH_SIZE is counted in units of 1024 bytes.
    assert cells(counters) == [
        ["FETCH_SIZE", 2560.0, "byte"],
        ["SQ_INSTS_VALU_MFMA_MOPS_BF16", 3.0, ""],
    ]
    launch = counters.launches.iloc[0]
    assert (launch["name"], launch["grid"], launch["block"], launch["process"]) == (
        "gemm",
        "2,1,1",
        "256,1,1",
        500,
    )


def test_a_kernel_trace_as_csv(tmp_path: Path) -> None:
    path = tmp_path / "1_kernel_trace.csv"
    path.write_text(KERNEL_CSV)
    row = read(str(path)).device_events.iloc[0]
    assert (row["name"], row["ts_ns"], row["dur_ns"]) == ("void gemm<1, 2>(int)", 1_000, 250)
    assert (row["grid"], row["block"], row["device"], row["stream"]) == ("4,2,1", "256,1,1", 4, 6)


def test_a_counter_collection_as_csv() -> None:
    counters = parse(COUNTER_CSV.encode()).counters
    assert counters is not None
    assert cells(counters) == [
        ["FETCH_SIZE", 2560.0, "byte"],
        ["SQ_WAVES", 8.0, ""],
    ]
    # Only the product of the three extents is written: which grid it was is not known.
    assert counters.launches[["grid", "block"]].isna().all(axis=None)


def test_rows_of_a_csv_that_are_cut_are_counted() -> None:
    capture = parse((KERNEL_CSV + '"KERNEL_DISPATCH",1,2\n').encode())
    assert [(note.code, note.count) for note in capture.quality] == [("unreadable_events", 1)]


def test_processes_in_one_file_keep_their_own_names_and_launches() -> None:
    first = RocprofBuilder().call(0, 100, 105, 1).kernel("first", 1_000, 1_100, 1)
    second = RocprofBuilder().call(0, 300, 305, 1).kernel("second", 1_010, 1_110, 1)
    capture = parse(first.text(second))
    kernels = link(capture).kernels
    launch = dict(zip(kernels["name"], kernels["launch_ts_ns"], strict=True))
    assert launch == {"first": 100, "second": 300}
    assert capture.threads == (("500", "501"), ("501", "501"))


def test_marks_are_no_ranges_and_ranges_without_a_text_are_counted() -> None:
    trace = decode().range("mark", 10, 10, 50, operation=0).range("", 20, 30, 51)
    capture = parse(trace.text())
    assert capture.annotations["name"].tolist() == ["decode"]
    assert [(note.code, note.count) for note in capture.quality] == [("nameless_ranges", 1)]


def test_batches_end_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = decode()
    for number in range(50):
        trace.kernel(f"k}}, {{{number}", 2_000 + number, 2_001 + number, 100 + number).count(
            "gemm", SQ_WAVES=[1.0, 2.0]
        )
    whole = parse(trace.text())
    assert len(whole.device_events) == 52
    for size in (1, 700, 5_000):
        monkeypatch.setattr(document, "BATCH", size)
        pieces = parse(trace.text())
        pd.testing.assert_frame_equal(pieces.device_events, whole.device_events)
        assert pieces.counters is not None
        assert whole.counters is not None
        pd.testing.assert_frame_equal(pieces.counters.readings, whole.counters.readings)


def test_a_truncated_file_keeps_its_complete_records() -> None:
    text = decode().kernel("last", 3_000, 3_100, 9).text()
    capture = parse(text[: text.index(b'"start_timestamp": 3000') + 30])
    assert capture.device_events["name"].tolist() == ["void gemm<float>(int)"]
    assert [note.code for note in capture.quality] == ["truncated"]


def test_a_damaged_record_is_left_out_and_the_next_is_read() -> None:
    text = (
        decode()
        .kernel("last", 3_000, 3_100, 9)
        .text()
        .replace(b'"start_timestamp": 1000', b'"start_timestamp": "?"')
    )
    capture = parse(text)
    assert capture.device_events["name"].tolist() == ["Memcpy HtoD (Host -> Device)", "last"]
    assert [(note.code, note.count) for note in capture.quality] == [("unreadable_events", 1)]


def test_an_agent_that_is_not_listed_is_an_unknown_device() -> None:
    trace = RocprofBuilder(agents=[GPU | {"id": {"handle": 1}}]).kernel("k", 10, 20, 1)
    assert parse(trace.text()).device_events["device"].isna().all()


def test_numbers_beyond_64_bits_are_absent() -> None:
    text = decode().text().replace(b'"internal": 7', b'"internal": 18446744073709551615')
    assert parse(text).device_events["correlation"].isna().tolist() == [True, False]


def test_a_file_without_records_says_how_to_record() -> None:
    with pytest.raises(FormatError, match="neither kernels nor calls nor counters") as caught:
        parse(RocprofBuilder().text())
    assert "--kernel-trace" in caught.value.hint


def test_a_damaged_database_is_one_clear_error(tmp_path: Path) -> None:
    trace = decode()
    for number in range(2_000):
        trace.kernel(f"kernel_{number}", number, number + 1, number + 10)
    path = Path(trace.write_rocpd(tmp_path / "results.db"))
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(CaptureError, match="damaged"):
        read(str(path))


def test_an_agent_whose_record_is_unreadable_keeps_its_name(tmp_path: Path) -> None:
    trace = decode()
    trace.agents = [json.loads(json.dumps(GPU)) | {"cu_count": "many"}]
    devices = read(trace.write_rocpd(tmp_path / "results.db")).info.devices
    assert devices == (DeviceProperties(0, "AMD Instinct MI300X"),)


def test_counter_values_without_a_dispatch_are_counted(tmp_path: Path) -> None:
    path = Path(decode().count("gemm", SQ_WAVES=[1.0, 2.0]).write_rocpd(tmp_path / "results.db"))
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO rocpd_pmc_event_0001 VALUES (99999, 7000, 4.0)")
    capture = read(str(path))
    assert capture.counters is not None
    assert cells(capture.counters) == [["SQ_WAVES", 3.0, ""]]
    assert [(note.code, note.count) for note in capture.quality] == [("counters_unplaced", 1)]


def test_counters_that_a_file_does_not_name_are_counted() -> None:
    text = decode().count("gemm", SQ_WAVES=[1.0, 2.0]).text().replace(b'"handle": 7000', b'"handle": 7001', 1)
    assert [(note.code, note.count) for note in parse(text).quality] == [("counters_unplaced", 2)]
    capture = parse(COUNTER_CSV.replace('"SQ_WAVES",8,', '"SQ_WAVES",eight,').encode())
    assert [(note.code, note.count) for note in capture.quality] == [("counters_unplaced", 1)]


def test_a_database_of_counters_alone_says_what_to_record(tmp_path: Path) -> None:
    path = Path(RocprofBuilder().count("gemm", SQ_WAVES=[1.0, 2.0]).write_rocpd(tmp_path / "results.db"))
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM rocpd_kernel_dispatch_0001")
    with pytest.raises(FormatError, match="2 counter values without the dispatches") as caught:
        read(str(path))
    assert "--kernel-trace beside --pmc" in caught.value.hint


def test_kernels_without_any_call_say_what_records_calls(tmp_path: Path) -> None:
    (note,) = link(parse(RocprofBuilder().kernel("gemm", 10, 20, 1).text())).quality
    assert (note.code, note.count) == ("unlinked", 1)
    assert "rocprofv3 --hip-trace" in note.message
    (note,) = link(parse(KERNEL_CSV.encode())).quality
    assert "the JSON or rocpd file" in note.message
    path = tmp_path / "results.json"
    path.write_bytes(RocprofBuilder().kernel("gemm", 10, 20, 1).text())
    notes = {note["code"]: note["message"] for note in tracekit.analyze([str(path)]).summary["quality"]}
    assert "roctx range" in notes["no_steps"]
    assert "torch.profiler with shapes" in notes["work_unknown"]
