"""Reports of `nsys stats` in CSV: the trace of the GPU, and summaries of kernels."""

from pathlib import Path

import pytest

import tracekit
from tracekit.errors import CaptureError, UnsupportedError
from tracekit.link import link
from tracekit.pipeline import Options
from tracekit.readers import read, read_stream
from tracekit.readers.nsys import by_range as by_range_module
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
    "Kernel Name\n"
)


def by_range(*rows: tuple[str, int, int, int, int, int, str]) -> str:
    """A report by range: text, instances of the range, kernels, their time, shortest, longest, name."""
    lines = [
        f'"{text}",PushPop,7,8,{instances},{count},{total},1.0,1.0,{least},{most},0.0,{name}'
        for text, instances, count, total, least, most, name in rows
    ]
    return BY_RANGE + "\n".join(lines) + "\n"


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
    linked = link(capture)
    assert linked.kernels["launch_ts_ns"].isna().all()
    assert "nsys export --type sqlite" in linked.quality[0].message


PREFILL = ":[Executor] _forward_step 1: 2 ctx reqs, 640 ctx tokens, 0 gen reqs"
DECODE = ":[Executor] _forward_step 2: 0 ctx reqs, 0 ctx tokens, 3 gen reqs"


def test_a_summary_by_size_keeps_grids_and_blocks() -> None:
    sized = SUMMARY.replace(",Name", ",GridXYZ,BlockXYZ,Name")
    sized = sized.replace(",gemm", ",   1   40    3, 128    1    1,gemm").replace(",relu", ",?,256 1 1,relu")
    rows = parse(sized).device_events
    assert rows["grid"].astype(object).fillna("-").tolist() == ["1,40,3"] * 3 + ["-"] * 2
    assert rows["block"].tolist() == ["128,1,1"] * 3 + ["256,1,1"] * 2


def test_a_summary_by_range_counts_each_kernel_once_in_the_step_around_it() -> None:
    capture = parse(
        by_range(
            (PREFILL, 1, 4, 400, 90, 110, "gemm"),
            (PREFILL, 1, 1, 70, 70, 70, "attention"),
            (":layer", 2, 4, 400, 90, 110, "gemm"),
            (DECODE, 1, 3, 100, 30, 40, "gemm"),
            ("", 0, 2, 20, 10, 10, "copy"),
        )
    )
    rows = DEVICE_EVENTS.check(capture.device_events)
    assert rows["name"].tolist() == ["gemm"] * 4 + ["attention"] + ["gemm"] * 3 + ["copy"] * 2
    assert rows["dur_ns"].tolist() == [100] * 4 + [70, 34, 33, 33, 10, 10]
    spans = capture.annotations[["name", "ts_ns", "dur_ns"]].to_numpy().tolist()
    assert spans == [[PREFILL[1:], 0, 470], [DECODE[1:], 470, 100]]
    assert capture.threads == (("7", "8"),)
    linked = link(capture).kernels
    assert linked["launch_ts_ns"].isna().tolist() == [False] * 8 + [True] * 2
    assert [(note.code, note.count) for note in capture.quality] == [
        ("summary_by_range", 1),
        ("summary_only", 10),
    ]


def test_a_summary_by_range_has_the_phases_of_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "report_nvtx_kern_sum.csv"
    path.write_text(
        by_range((PREFILL, 1, 4, 400, 90, 110, "gemm"), (f"app{DECODE}", 1, 3, 100, 30, 40, "gemm"))
    )
    result = tracekit.analyze([str(path)])
    assert result.steps["phase"].tolist() == ["prefill", "decode"]
    assert result.kernels.groupby("phase", observed=True)["dur_ns"].sum().to_dict() == {
        "prefill": 400,
        "decode": 100,
    }


def test_no_model_is_laid_over_kernels_without_an_order(tmp_path: Path) -> None:
    # One product of each layer of a model of 36, by name: which is which layer's nothing tells.
    path = tmp_path / "report.csv"
    names = ("nvjet_qkv", "nvjet_out", "nvjet_gate_up", "nvjet_down")
    rows = [(DECODE, 1, 36, 3600, 100, 100, name) for name in names]
    path.write_text(by_range(*rows, (DECODE, 1, 1, 100, 100, 100, "nvjet_head")))
    result = tracekit.analyze([str(path)], Options(model="qwen3-8b"))
    assert result.kernels["flops"].isna().all()
    notes = {note["code"]: note["message"] for note in result.summary["quality"]}
    assert "no order" in notes["work_unknown"]


def test_instances_of_one_range_share_its_kernels() -> None:
    capture = parse(by_range(("BatchDecode num_seqs=2", 3, 6, 60, 10, 10, "gemm")))
    assert capture.annotations["ts_ns"].tolist() == [0, 20, 40]
    assert capture.device_events["correlation"].tolist() == [1, 1, 2, 2, 3, 3]


def test_ranges_that_could_lie_in_others_are_counted_once() -> None:
    rows = (
        ("forward", 1, 5, 500, 90, 110, "gemm"),
        ("forward", 1, 2, 20, 10, 10, "norm"),
        ("layer", 2, 4, 400, 90, 110, "gemm"),  # fewer, no shorter and no longer: in the one above
        ("other", 1, 1, 300, 300, 300, "gemm"),  # longer than any of the other range
        ("", 0, 1, 7, 7, 7, "gemm"),
    )
    capture = parse(by_range(*rows))
    assert capture.device_events["dur_ns"].sum() == 500 + 20 + 300 + 7
    assert [(note.code, note.count) for note in capture.quality] == [
        ("summary_by_range", 1),
        ("summary_only", 9),
    ]


def test_rows_of_a_summary_by_range_without_numbers_are_kept_out() -> None:
    capture = parse(by_range(("a", 1, 1, 10, 10, 10, "gemm"), ("a", 1, 1, -1, 10, 10, "norm")))
    assert capture.device_events["name"].tolist() == ["gemm"]
    assert [(note.code, note.count) for note in capture.quality] == [("bad_time", 1), ("summary_only", 1)]


def test_numbers_beyond_any_recording_are_kept_out_or_bounded() -> None:
    huge = 1 << 61
    capture = parse(by_range(("a", huge, 2, 20, 10, 10, "gemm"), ("a", 1, 1, huge, 10, 10, "norm")))
    assert capture.device_events["dur_ns"].tolist() == [10, 10]
    assert capture.annotations["ts_ns"].tolist() == [0, 10]
    assert [(note.code, note.count) for note in capture.quality] == [("bad_time", 1), ("summary_only", 2)]


def test_none_stands_for_no_range_in_older_reports() -> None:
    old = by_range(("", 0, 2, 20, 10, 10, "gemm")).replace('"",PushPop,7,8,', "None,None,None,None,")
    capture = parse(old)
    assert capture.annotations.empty
    assert capture.device_events["correlation"].isna().all()


@pytest.mark.parametrize(
    "header",
    [
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Category,Operation",
        "PID,TID,DevId,Count,QCount,TAvg (ns),TMed (ns),API Name,Kernel Name",
        "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Total GPU Ops",
        "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name",
    ],
)
def test_other_reports_of_the_recorder_are_told_by_name(header: str) -> None:
    row = ",".join("1" for _ in header.split(","))
    with pytest.raises(UnsupportedError, match="lists no kernels") as caught:
        parse(f"{header}\n{row}\n")
    assert "nvtx_kern_sum" in caught.value.hint


def test_a_summary_of_too_many_ranges_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_range_module, "_MOST_RANGES", 1)
    with pytest.raises(UnsupportedError, match="more than 1 ranges") as caught:
        parse(by_range(("a", 1, 1, 10, 10, 10, "gemm"), ("b", 1, 1, 10, 10, 10, "gemm")))
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
