"""Exports of Nsight Systems, generation by generation and oddity by oddity."""

import pickle
import sqlite3
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nsysbuilder import H100, HOST, MARK, PRIVATE, START_END, USER, NsysBuilder, serialised

import tracekit
from tracekit.errors import CaptureError, UnsupportedError
from tracekit.link import link
from tracekit.readers import read
from tracekit.readers.discover import Source, discover
from tracekit.tables import DEVICE_EVENTS, OPS, RANGES, RUNTIME_CALLS, SIGNATURES, Capture, DeviceProperties

GENERATIONS = ("2.9", "3.1", "3.7", "3.25")


def parse(builder: NsysBuilder, folder: Path) -> Capture:
    return read(builder.write(folder / "capture.sqlite"))


def codes(capture: Capture) -> dict[str, int]:
    return {note.code: note.count for note in capture.quality}


def decode(schema: str = "3.25") -> NsysBuilder:
    trace = NsysBuilder(schema=schema)
    trace.range("step", 0, 900)
    return trace.launched("void gemm<float>(int)", 100, 1_000, 1_250, 7)


@pytest.mark.parametrize("schema", GENERATIONS)
def test_each_generation_gives_the_same_tables(tmp_path: Path, schema: str) -> None:
    capture = parse(decode(schema), tmp_path)
    assert (capture.info.format, capture.info.schema) == ("nsys", f"{schema}.0")
    assert capture.info.versions == {"nsys_schema": f"{schema}.0", "nsys": "2026.1.1.204"}
    row = capture.device_events.iloc[0]
    assert (row["name"], row["ts_ns"], row["dur_ns"]) == ("void gemm<float>(int)", 1_000, 250)
    assert (row["grid"], row["block"], row["stream"], row["correlation"]) == ("8,2,1", "128,1,1", 7, 7)
    call = capture.runtime_calls.iloc[0]
    assert (call["name"], call["ts_ns"], call["dur_ns"]) == ("cudaLaunchKernel", 100, 5)
    assert capture.annotations["name"].tolist() == ["step"]
    assert capture.quality == ()


def test_every_table_keeps_its_contract(tmp_path: Path) -> None:
    capture = parse(decode().range("aten::mm, op_id = 3", 50, 60), tmp_path)
    DEVICE_EVENTS.check(capture.device_events)
    RUNTIME_CALLS.check(capture.runtime_calls)
    OPS.check(capture.ops)
    SIGNATURES.check(capture.signatures)
    RANGES.check(capture.annotations)
    RANGES.check(capture.frames)


def test_the_gpu_is_the_one_that_the_file_lists(tmp_path: Path) -> None:
    assert parse(decode(), tmp_path).info.devices == (
        DeviceProperties(
            0, "NVIDIA H100 80GB HBM3", 9, 0, 132, 85_000_000_000, 3_352_320_000_000, 52_428_800
        ),
    )


def test_an_unknown_gpu_has_the_bandwidth_that_the_recorder_reports(tmp_path: Path) -> None:
    gpu = {**H100, "name": "NVIDIA Unheard Of", "smCount": 77, "memoryBandwidth": 5_000_000_000_000}
    trace = decode()
    trace.gpus = [gpu]
    path = trace.write(tmp_path / "capture.sqlite")
    summary = tracekit.analyze([path]).summary
    assert summary["device"]["matched"] is None
    assert (summary["roofs"]["dram"]["spec"], summary["roofs"]["dram"]["source"]) == (
        5e12,
        "reported by the capture",
    )
    # A data sheet comes first.
    known = tracekit.analyze([decode().write(tmp_path / "known.sqlite")]).summary
    assert known["roofs"]["dram"]["source"] != "reported by the capture"


def test_two_processes_with_equal_correlation_ids_keep_their_own_launches(tmp_path: Path) -> None:
    trace = NsysBuilder()
    trace.call("cudaLaunchKernel_v7000", 100, 105, 7, process=1, thread=1)
    trace.call("cudaLaunchKernel_v7000", 300, 305, 7, process=2, thread=2)
    trace.kernel("first", 1_000, 1_100, 7, process=1).kernel("second", 1_010, 1_110, 7, process=2)
    capture = parse(trace, tmp_path)
    kernels = link(capture).kernels
    assert len(kernels) == 2
    launch = dict(zip(kernels["name"], kernels["launch_ts_ns"], strict=True))
    assert launch == {"first": 100, "second": 300}
    assert codes(capture)["several_processes"] == 2
    assert capture.threads == (("1", "1"), ("2", "2"))


def test_a_kernel_of_a_process_without_calls_finds_no_launch_of_another(tmp_path: Path) -> None:
    trace = NsysBuilder().call("cudaLaunchKernel_v7000", 100, 105, 7, process=1)
    trace.kernel("other", 1_000, 1_100, 7, process=2)
    assert link(parse(trace, tmp_path)).kernels["launch_ts_ns"].isna().all()


def test_processes_that_see_one_gpu_each_are_on_different_gpus(tmp_path: Path) -> None:
    trace = NsysBuilder(gpus=[H100, H100 | {"id": 1}])
    for gpu, process in ((0, 1), (1, 2)):
        trace.row("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=0, pid=process)
        trace.kernel("k", 1_000, 1_100, 7, process=process)
    assert parse(trace, tmp_path).device_events["device"].tolist() == [0, 1]


def test_kernels_of_a_graph_share_their_launch_and_keep_their_node(tmp_path: Path) -> None:
    trace = NsysBuilder().call("cudaGraphLaunch_v10000", 100, 110, 9)
    trace.kernel("a", 1_000, 1_100, 9, graphNodeId=41).kernel("b", 1_100, 1_200, 9, graphNodeId=42)
    capture = parse(trace, tmp_path)
    kernels = link(capture).kernels
    assert kernels["from_graph"].tolist() == [True, True]
    assert capture.device_events["graph_node"].tolist() == [41, 42]


def test_a_graph_recorded_whole_is_busy_time_of_unknown_kernels(tmp_path: Path) -> None:
    trace = NsysBuilder().call("cudaGraphLaunch_v10000", 100, 110, 9)
    trace.row(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        start=1_000, end=4_000, deviceId=0, streamId=7, correlationId=9, globalPid=serialised(100), graphId=5,
    )  # fmt: skip
    capture = parse(trace, tmp_path)
    row = capture.device_events.iloc[0]
    assert (row["name"], row["dur_ns"]) == ("[CUDA graph, its kernels not recorded]", 3_000)
    note = next(note for note in capture.quality if note.code == "graph_opaque")
    assert (note.count, note.time_ns) == (1, 3_000)
    assert "--cuda-graph-trace=node" in note.message


def test_copies_and_fills_have_their_direction_memory_and_bytes(tmp_path: Path) -> None:
    trace = NsysBuilder()
    common = {"deviceId": 0, "streamId": 7, "correlationId": 3, "globalPid": serialised(100)}
    trace.row(
        "CUPTI_ACTIVITY_KIND_MEMCPY", start=10, end=30, bytes=4096, copyKind=1, srcKind=1, dstKind=2, **common
    )
    trace.row("CUPTI_ACTIVITY_KIND_MEMSET", start=40, end=45, bytes=64, memKind=2, **common)
    rows = parse(trace, tmp_path).device_events
    assert rows[["kind", "name", "bytes"]].to_numpy().tolist() == [
        ["memcpy", "Memcpy HtoD (Pinned -> Device)", 4096],
        ["memset", "Memset (Device)", 64],
    ]


def test_the_text_of_a_range_stands_in_its_row_or_by_number(tmp_path: Path) -> None:
    trace = NsysBuilder().range("in the row", 0, 10)
    trace.range(None, 20, 30, textId=trace.string("by number"))
    assert parse(trace, tmp_path).annotations["name"].tolist() == ["in the row", "by number"]


@pytest.mark.parametrize("suffix", ["_V2", "_V3"])
def test_a_suffix_behind_a_table_is_its_version(tmp_path: Path, suffix: str) -> None:
    trace = NsysBuilder(suffix=suffix).range("step", 0, 10)
    assert parse(trace, tmp_path).annotations["name"].tolist() == ["step"]


def test_ranges_that_start_and_end_are_annotations_and_marks_are_none(tmp_path: Path) -> None:
    other = serialised(100, 999)
    trace = NsysBuilder().range("here", 0, 10, eventType=START_END)
    trace.range("elsewhere", 20, 90, eventType=START_END, endGlobalTid=other)
    trace.range("mark", 30, 30, eventType=MARK).range("open", 40, None).range("", 50, 60)
    capture = parse(trace, tmp_path)
    assert capture.annotations[["name", "thread"]].to_numpy().tolist() == [["here", 0], ["elsewhere", 0]]
    assert codes(capture) == {"crossing_ranges": 1, "open_ranges": 1, "nameless_ranges": 1, "no_kernels": 0}


def test_ranges_of_emit_nvtx_are_ops_with_their_sizes(tmp_path: Path) -> None:
    trace = NsysBuilder().range("step, op_id = 1", 0, 900)
    trace.range("aten::mm, seq = 12, op_id = 2, sizes = [[2, 3], [3, 4]], input_op_ids = [(1,0)]", 50, 300)
    trace.launched("gemm", 100, 1_000, 1_250, 7)
    capture = parse(trace, tmp_path)
    assert capture.annotations["name"].tolist() == ["step"]
    assert capture.signatures[["op", "dims"]].to_numpy().tolist() == [["aten::mm", "[[2, 3], [3, 4]]"]]
    assert link(capture).kernels["op"].tolist() == ["aten::mm"]


def test_products_in_ranges_of_emit_nvtx_have_rates_where_their_kernels_name_a_type(tmp_path: Path) -> None:
    trace = NsysBuilder().range("prefill", 0, 900)
    trace.range("aten::mm, seq = 12, op_id = 2, sizes = [[64, 32], [32, 16]]", 50, 300)
    trace.launched("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", 100, 1_000, 2_000, 7)
    (phase,) = tracekit.analyze([trace.write(tmp_path / "capture.sqlite")]).summary["phases"]
    flops, moved = 2 * 64 * 32 * 16, 2 * (64 * 32 + 32 * 16 + 64 * 16)
    assert (phase["phase"], phase["flops"], phase["dram_bytes"]) == ("prefill", flops, moved)
    assert phase["flops_per_s"] == pytest.approx(flops / 1e-6)
    assert phase["weight_bytes"] == 2 * 32 * 16


def test_calls_of_the_recorder_join_no_kernel(tmp_path: Path) -> None:
    trace = NsysBuilder().kernel("k", 1_000, 1_100, 7)
    trace.row(
        "CUPTI_ACTIVITY_KIND_OVERHEAD",
        start=0, end=50, globalTid=serialised(100, 101), correlationId=7, nameId=trace.string("Buffer flush"),
    )  # fmt: skip
    capture = parse(trace, tmp_path)
    assert capture.runtime_calls["name"].tolist() == ["Buffer flush"]
    assert link(capture).kernels["launch_ts_ns"].isna().all()


def test_a_file_without_kernels_says_so(tmp_path: Path) -> None:
    trace = NsysBuilder().call("cudaLaunchKernel_v7000", 100, 105, 7)
    trace.row("DIAGNOSTIC_EVENT", severity=3, text="CUPTI failed on " + HOST).row(
        "DIAGNOSTIC_EVENT", severity=1, text=""
    )
    capture = parse(trace, tmp_path)
    assert codes(capture) == {"no_kernels": 1, "recorder_warnings": 1}


def test_rows_without_a_usable_time_are_kept_out_and_counted(tmp_path: Path) -> None:
    trace = (
        NsysBuilder()
        .kernel("good", 10, 20, 1)
        .kernel("backwards", 20, 10, 2)
        .kernel("absurd", -1 << 63, 1 << 61, 3)
    )
    capture = parse(trace, tmp_path)
    assert capture.device_events["name"].tolist() == ["good"]
    assert codes(capture) == {"bad_time": 2}


def test_values_of_another_type_are_absent_not_believed(tmp_path: Path) -> None:
    trace = NsysBuilder().kernel("k", 10, 20, 1, streamId="seven", gridX=b"\x00", graphNodeId=1.5)
    row = parse(trace, tmp_path).device_events.iloc[0]
    assert row[["stream", "grid", "graph_node"]].isna().all()
    assert row["block"] == "128,1,1"


def test_a_kernel_whose_name_is_lost_keeps_its_time(tmp_path: Path) -> None:
    trace = NsysBuilder().kernel("k", 10, 20, 1, demangledName=999, shortName=None)
    assert parse(trace, tmp_path).device_events["name"].tolist() == ["[kernel without a name in the export]"]


def test_the_recorders_own_overhead_is_host_time_and_no_launch(tmp_path: Path) -> None:
    trace = decode("3.7")
    # As nsys 2023.4 writes it: no correlation id, and a table that older and newer exporters have as well.
    row = {"start": 20, "end": 60, "globalTid": serialised(100, 101), "returnValue": 0}
    trace.row("PROFILER_OVERHEAD", nameId=trace.string("NVTX profiling initialization"), **row)
    capture = parse(trace, tmp_path)
    calls = capture.runtime_calls[["name", "ts_ns", "dur_ns"]].to_numpy().tolist()
    assert ["NVTX profiling initialization", 20, 40] in calls
    assert capture.info.event_counts["PROFILER_OVERHEAD"] == 1
    assert link(capture).kernels["launch_ts_ns"].tolist() == [100]


def test_a_kernel_without_a_demangled_name_has_the_short_one(tmp_path: Path) -> None:
    trace = NsysBuilder()
    trace.kernel("k<1>", 10, 20, 1, demangledName=999)
    assert parse(trace, tmp_path).device_events["name"].tolist() == ["k"]


def test_a_folder_of_parquet_files_is_one_capture(tmp_path: Path) -> None:
    path = decode().write(tmp_path / "capture.sqlite")
    folder = tmp_path / "export"
    folder.mkdir()
    with sqlite3.connect(path) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master").fetchall():
            frame = pd.read_sql(f'SELECT * FROM "{name}"', connection)  # noqa: S608 - the builder's own tables
            pq.write_table(pa.Table.from_pandas(frame), folder / f"{name}.parquet")
    connection.close()
    assert discover(str(folder)) == [Source(str(folder))]
    expected, found = read(path), read(str(folder))
    for name in ("device_events", "runtime_calls", "annotations"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(expected, name))


def test_nothing_private_leaves_the_file(tmp_path: Path) -> None:
    seen = pickle.dumps(parse(decode(), tmp_path))
    for private in (PRIVATE, HOST, USER, "HF_TOKEN"):
        assert private.encode() not in seen


def test_an_export_cut_short_by_an_older_nsys_says_so(tmp_path: Path) -> None:
    trace = NsysBuilder(gpus=[]).row("ProcessStreams", id=1)
    with pytest.raises(CaptureError, match="stopped half-way") as caught:
        parse(trace, tmp_path)
    assert "newer" in caught.value.hint


def test_an_export_without_cuda_says_how_to_record(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="without CUDA or NVTX") as caught:
        parse(NsysBuilder(), tmp_path)
    assert "--trace=cuda,nvtx" in caught.value.hint


def test_a_damaged_file_is_one_clear_error(tmp_path: Path) -> None:
    trace = decode()
    for number in range(3_000):
        trace.kernel(f"kernel_{number}", number, number + 1, number + 10)
    path = Path(trace.write(tmp_path / "capture.sqlite"))
    whole = bytearray(path.read_bytes())
    middle = len(whole) // 2
    whole[middle : middle + 40_000] = b"\xff" * 40_000
    path.write_bytes(whole)
    with pytest.raises(CaptureError, match="damaged"):
        read(str(path))
    path.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(CaptureError, match="damaged"):
        read(str(path))


def test_views_are_never_run(tmp_path: Path) -> None:
    path = decode().write(tmp_path / "capture.sqlite")
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i AS end FROM n"
    )
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE VIEW CUPTI_ACTIVITY_KIND_MEMCPY AS {endless}")
    connection.close()
    assert len(read(path).device_events) == 1


def test_another_sqlite_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cookies.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cookies (name TEXT)")
    connection.close()
    with pytest.raises(UnsupportedError, match="no profiler"):
        read(str(path))


@pytest.mark.parametrize(
    ("name", "head", "what"),
    [
        # The first bytes of reports and exports that nsys 2022.4 and 2023.4 wrote.
        (
            "run.nsys-rep",
            b"NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0\n\n",
            "an Nsight Systems report",
        ),
        ("run.nsys-rep", b"NVIDIA Tegra Profiler Report 1\n\nLocal (CLI)", "an Nsight Systems report"),
        ("run.nsys-rep", b"NVNSREPT", "an Nsight Systems report"),
        ("run.nsys-rep", b"\x01\x02 of a release to come", "an Nsight Systems report"),
        ("run.qdstrm", b"U3w[END]NVIDIA Nsight Systems Stream 2023.4.4.54", "has not made a report"),
        ("run.json", b'{"data":["QnxKernelTrace","GpuMetrics"]}', "a JSON export"),
        ("run.text", b'data: "QnxKernelTrace"\n', "a text export"),
        ("run.hdf", b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        ("run.arrow", b"\xff\xff\xff\xff\xc0", "an Arrow file"),
    ],
)
def test_what_was_not_exported_as_it_must_names_the_command(
    tmp_path: Path, name: str, head: bytes, what: str
) -> None:
    path = tmp_path / name
    path.write_bytes(head + bytes(100))
    with pytest.raises(UnsupportedError, match=what) as caught:
        read(str(path))
    assert "nsys export --type sqlite" in caught.value.hint


def test_the_file_is_left_as_it_was(tmp_path: Path) -> None:
    path = Path(decode().write(tmp_path / "capture.sqlite"))
    before = path.read_bytes()
    read(str(path))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["capture.sqlite"]


def test_a_folder_of_captures_holds_databases_too(tmp_path: Path) -> None:
    decode().write(tmp_path / "rank0.sqlite")
    decode().write(tmp_path / "500_results.db")
    decode().write(tmp_path / "cookies.db")
    assert [Path(source.path).name for source in discover(str(tmp_path))] == [
        "500_results.db",
        "rank0.sqlite",
    ]
