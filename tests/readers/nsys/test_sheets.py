"""Reports of `nsys stats` in CSV: the trace of the GPU, and summaries of kernels."""

from pathlib import Path

import pytest

from tracekit.errors import CaptureError, UnsupportedError
from tracekit.link import link
from tracekit.readers import read, read_stream
from tracekit.readers.nsys import sheets
from tracekit.readers.source import from_bytes
from tracekit.tables import DEVICE_EVENTS, Capture, DeviceProperties

TRACE = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
    "Throughput (MBps),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n"
    "1000,250,7,8,2,1,128,1,1,32,0.000,0.000,,,,,NVIDIA A100-SXM4-80GB (0),1,7,"
    '"void gemm<float, 2>(int)"\n'
    "2000,100,8,,,,,,,,,,4.194,20000.000,Pinned,Device,NVIDIA A100-SXM4-80GB (0),1,7,[CUDA memcpy Host-to-Device]\n"
    "3000,10,9,,,,,,,,,,0.001,1.000,Device,,NVIDIA A100-SXM4-80GB (1),1,7,[CUDA memset]\n"
)
SUMMARY = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    "90.0,1000,3,333.3,333.0,330,340,4.0,gemm\n"
    "10.0,100,2,50.0,50.0,49,51,1.0,relu\n"
)
BY_RANGE = (
    "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),"
    "Kernel Name\n:step,PushPop,1,1,1,3,1000,333.3,333.0,330,340,4.0,gemm\n"
)


def parse(text: str) -> Capture:
    return read_stream(from_bytes("report.csv", text.encode()), lambda _name: False)[0]


def test_a_trace_has_its_kernels_copies_and_fills() -> None:
    capture = parse(TRACE)
    rows = DEVICE_EVENTS.check(capture.device_events)
    assert rows[["kind", "name", "ts_ns", "dur_ns", "device"]].to_numpy().tolist() == [
        ["kernel", "void gemm<float, 2>(int)", 1000, 250, 0],
        ["memcpy", "Memcpy HtoD (Pinned -> Device)", 2000, 100, 0],
        ["memset", "Memset (Device)", 3000, 10, 1],
    ]
    assert rows.iloc[0][["grid", "block", "stream"]].tolist() == ["8,2,1", "128,1,1", 7]
    # The report rounds sizes to a thousandth of a megabyte.
    assert rows["bytes"].tolist()[1:] == [4_194_000, 1_000]
    assert capture.info.devices == (
        DeviceProperties(0, "NVIDIA A100-SXM4-80GB"),
        DeviceProperties(1, "NVIDIA A100-SXM4-80GB"),
    )


def test_a_summary_adds_up_and_says_that_it_is_one() -> None:
    capture = parse(SUMMARY)
    rows = capture.device_events
    sums = rows.groupby("name", observed=True)["dur_ns"].agg(["count", "sum"])
    assert sums.loc["gemm"].tolist() == [3, 1000]
    assert sums.loc["relu"].tolist() == [2, 100]
    # 1000 ns in three kernels, laid end to end: the first takes what does not divide.
    assert rows["dur_ns"].tolist() == [334, 333, 333, 50, 50]
    assert rows["ts_ns"].tolist() == [0, 334, 667, 1000, 1050]
    assert [(note.code, note.count, note.time_ns) for note in capture.quality] == [("summary_only", 5, 1100)]
    assert link(capture).kernels["launch_ts_ns"].isna().all()


def test_a_summary_by_range_counts_kernels_twice_and_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="once for each range") as caught:
        parse(BY_RANGE)
    assert "cuda_gpu_kern_sum" in caught.value.hint


def test_times_in_another_unit_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="nanoseconds"):
        parse(TRACE.replace("(ns)", "(us)"))


def test_a_summary_of_more_kernels_than_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "_MOST_KERNELS", 4)
    with pytest.raises(CaptureError, match="more than 4 kernels"):
        parse(SUMMARY)
    with pytest.raises(CaptureError, match="more than 4 kernels"):
        parse(SUMMARY.replace(",3,", f",{1 << 61},"))


def test_rows_without_times_or_counts_are_kept_out() -> None:
    assert [(n.code, n.count) for n in parse(TRACE.replace("1000,250", "?,250")).quality] == [("bad_time", 1)]
    found = [(n.code, n.count) for n in parse(SUMMARY.replace(",2,50.0", ",0,50.0")).quality]
    assert found == [("bad_time", 1), ("summary_only", 3)]


def test_a_report_without_a_row_says_so(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_text(TRACE.splitlines()[0] + "\n")
    with pytest.raises(CaptureError, match="no row"):
        read(str(path))
