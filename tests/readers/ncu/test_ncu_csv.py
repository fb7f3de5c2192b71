"""What ncu prints, layout by layout and oddity by oddity, each as the smallest text that shows it."""

import gzip

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.errors import CaptureError
from tracekit.readers import read_stream
from tracekit.readers.source import from_bytes
from tracekit.tables import COUNTER_LAUNCHES, COUNTER_VALUES, Capture

DRAM, TIME, RATE = "dram__bytes.sum", "gpu__time_duration.sum", "dram__bytes.sum.per_second"
NEW = "ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Block Size,Grid Size,Device,CC"
OLD = "ID,Process ID,Process Name,Host Name,Kernel Name,Kernel Time,Context,Stream"


def quoted(*rows: list[str]) -> str:
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


def raw(metrics: dict[str, tuple[str, str]], *, number: int = 0, name: str = "gemm", extra: str = "") -> str:
    """A raw page of one launch in the layout of 2024: metrics by name as (unit, cell)."""
    head = [*NEW.split(","), *([extra] if extra else []), *metrics]
    ids = [str(number), "42", "python3", "host", name, "1", "7", "(128, 1, 1)", "(64, 2, 1)", "0", "9.0"]
    more = ["decode 3"] if extra else []
    return quoted(
        head,
        [""] * (len(ids) + len(more)) + [unit for unit, _ in metrics.values()],
        [*ids, *more, *(cell for _, cell in metrics.values())],
    )


def parse(text: str) -> Capture:
    return read_stream(from_bytes("counters.csv", text.encode()), lambda _name: False)[0]


def reading(capture: Capture, metric: str, launch: int = 0) -> tuple[float | None, str, str]:
    """Value, unit and status of a metric."""
    assert capture.counters is not None
    rows = capture.counters.readings
    row = rows[(rows["metric"] == metric) & (rows["launch"] == launch)].iloc[0]
    return None if pd.isna(row["value"]) else row["value"], row["unit"], row["status"]


def codes(capture: Capture) -> dict[str, int]:
    return {note.code: note.count for note in capture.quality}


def test_a_raw_page_gives_launches_and_values_that_keep_their_contracts() -> None:
    capture = parse(raw({DRAM: ("byte", "4096"), TIME: ("nsecond", "2000")}))
    assert capture.counters is not None
    COUNTER_LAUNCHES.check(capture.counters.launches)
    COUNTER_VALUES.check(capture.counters.readings)
    row = capture.counters.launches.iloc[0]
    assert (row["name"], row["grid"], row["block"], row["stream"], row["device"], row["cc"]) == (
        "gemm",
        "64,2,1",
        "128,1,1",
        7,
        0,
        "9.0",
    )
    assert reading(capture, DRAM) == (4096, "byte", "measured")
    assert reading(capture, TIME) == (pytest.approx(2e-6), "second", "measured")
    assert codes(capture) == {}


@pytest.mark.parametrize(
    ("unit", "cell", "value", "base"),
    [
        ("byte/second", "133819277108.43", 133819277108.43, "byte/second"),
        ("Gbyte/second", "133.819277", 133.819277e9, "byte/second"),
        ("byte/s", "5", 5, "byte/second"),
        ("Kbyte", "4.5", 4500, "byte"),
        ("Mbyte", "4.195712", 4195712, "byte"),
    ],
)
def test_scaled_and_base_units_give_the_same_value(unit: str, cell: str, value: float, base: str) -> None:
    assert reading(parse(raw({RATE: (unit, cell)})), RATE) == (pytest.approx(value), base, "measured")


def test_columns_of_2022_have_no_grid_and_are_found_by_name() -> None:
    text = quoted(
        [*OLD.split(","), DRAM, "launch__grid_size"],
        [""] * 8 + ["Mbyte", ""],
        ["0", "42", "python3", "host", "gemm", "2022-Nov-01 10:00:00", "1", "13", "2", "64"],
    )
    capture = parse(text)
    assert capture.counters is not None
    row = capture.counters.launches.iloc[0]
    assert (row["name"], row["stream"]) == ("gemm", 13)
    assert row[["grid", "block", "cc"]].isna().all()
    assert reading(capture, "launch__grid_size") == (64, "", "measured")


def test_messages_and_output_of_the_program_are_set_aside() -> None:
    text = (
        "==PROF== Connected to process 42 (/usr/bin/python3)\n"
        "Loading weights: 100%, done\n\n"
        '==PROF== Profiling "gemm": 0%....50%....100% - 8 passes\n'
        + raw({DRAM: ("byte", "1")})
        + "==PROF== Disconnected from process 42\n==WARNING== something\nbye, bye\n"
    )
    capture = parse(text)
    assert capture.counters is not None
    assert capture.counters.options == {"passes": "8"}
    assert reading(capture, DRAM) == (1, "byte", "measured")
    assert codes(capture) == {}


def test_nvtx_columns_become_the_text_of_the_ranges() -> None:
    column = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    capture = parse(raw({DRAM: ("byte", "1")}, extra=column))
    assert capture.counters is not None
    assert capture.counters.launches["ranges"].tolist() == ["decode 3"]


def test_several_processes_and_runs_in_one_file_are_all_read_and_repeats_taken_once() -> None:
    first, second = raw({DRAM: ("byte", "1")}), raw({DRAM: ("byte", "2")}, number=1, name="add")
    capture = parse(first + second.replace('"42"', '"43"') + first)
    assert capture.counters is not None
    assert capture.counters.launches["process"].tolist() == [42, 43]
    assert codes(capture) == {"counter_repeats": 1}


@pytest.mark.parametrize(
    ("cell", "status"),
    [
        ("n/a", "unsupported"),
        ("no data", "not_collected"),
        ("", "not_collected"),
        ("nan", "failed"),
        ("-nan", "failed"),
        ("inf", "failed"),
        ("(256, 1, 1)", "failed"),
        ("PolicySpread", "failed"),
    ],
)
def test_what_is_no_number_has_a_status_and_no_value(cell: str, status: str) -> None:
    assert reading(parse(raw({DRAM: ("byte", cell)})), DRAM) == (None, "byte", status)


def test_an_unknown_unit_is_a_failure_and_not_a_guess() -> None:
    capture = parse(raw({DRAM: ("furlong", "12")}))
    assert reading(capture, DRAM) == (None, "", "failed")
    assert codes(capture) == {"counter_cells": 1}


def test_without_the_row_of_units_nothing_can_be_scaled() -> None:
    lines = raw({DRAM: ("Mbyte", "12")}).splitlines(keepends=True)
    capture = parse(lines[0] + lines[2])
    assert reading(capture, DRAM) == (None, "", "failed")
    assert codes(capture) == {"counter_units": 1}


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (("1,234,567", "12.5"), (1234567, 12.5)),
        (("1.234.567,25", "12,5"), (1234567.25, 12.5)),
        (("1\u202f234\u202f567,25", "0,5"), (1234567.25, 0.5)),
        (("1'234'567.25", "0.5"), (1234567.25, 0.5)),
        (("1,234", "0.50"), (1234, 0.5)),
        (("1,234", "0,50"), (1.234, 0.5)),
    ],
)
def test_the_locale_is_read_off_the_numbers(cells: tuple[str, str], values: tuple[float, float]) -> None:
    capture = parse(raw({DRAM: ("byte", cells[0]), RATE: ("byte/second", cells[1])}))
    assert reading(capture, DRAM)[0] == pytest.approx(values[0])
    assert reading(capture, RATE)[0] == pytest.approx(values[1])


def test_a_comma_that_nothing_explains_is_said() -> None:
    capture = parse(raw({DRAM: ("byte", "1,234"), RATE: ("byte/second", "12")}))
    assert reading(capture, DRAM)[0] == 1234
    assert codes(capture) == {"counter_numbers": 1}


DETAILS = [
    *NEW.split(","),
    "Section Name",
    "Metric Name",
    "Metric Unit",
    "Metric Value",
    "Rule Name",
    "Rule Type",
]
DETAILS += ["Rule Description", "Estimated Speedup Type", "Estimated Speedup"]


def details(*metrics: tuple[str, str, str]) -> str:
    """A details page: rows of metrics end after the value, rows of rules are full."""
    ids = ["0", "42", "python3", "host", "gemm", "1", "7", "(128, 1, 1)", "(64, 2, 1)", "0", "9.0"]
    rows = [[*ids, "Section", *metric, ""] for metric in metrics]
    rule = [
        *ids,
        "SpeedOfLight",
        "",
        "",
        "",
        "Bottleneck",
        "OPT",
        "This kernel, at 12%, could",
        "global",
        "8.1",
    ]
    return quoted(DETAILS, *rows, rule)


def test_a_details_page_is_read_through_its_labels() -> None:
    capture = parse(
        details(
            ("Duration", "usecond", "2.5"),
            ("Memory Throughput", "%", "90.58"),
            ("Memory Throughput", "Gbyte/second", "534.37"),
            ("Elapsed Cycles", "cycle", "90985"),
        )
    )
    assert capture.counters is not None
    assert len(capture.counters.launches) == 1
    assert reading(capture, TIME) == (pytest.approx(2.5e-6), "second", "measured")
    share = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
    assert reading(capture, share) == (90.58, "%", "measured")
    assert reading(capture, RATE) == (pytest.approx(534.37e9), "byte/second", "measured")


def test_a_details_page_may_print_metric_names() -> None:
    assert reading(parse(details((DRAM, "byte", "7"))), DRAM) == (7, "byte", "measured")


def test_rows_that_do_not_fit_their_header_are_left_out_and_counted() -> None:
    text = raw({DRAM: ("byte", "1")}) + '"1","42","python3"\n"2","42","unclosed\n'
    capture = parse(text)
    assert capture.counters is not None
    assert len(capture.counters.launches) == 1
    assert codes(capture) == {"counter_rows": 2}


def test_windows_line_ends_a_byte_order_mark_and_gzip_change_nothing() -> None:
    text = raw({DRAM: ("byte", "1")})
    for data in (
        text.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + text.encode(),
        gzip.compress(text.encode()),
        text.encode("utf-16"),
    ):
        capture = read_stream(from_bytes("counters.csv", data), lambda _name: False)[0]
        assert reading(capture, DRAM) == (1, "byte", "measured")


@pytest.mark.parametrize(
    ("lines", "code", "word"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission …",
            "no_permission",
            "CAP_SYS_ADMIN",
        ),
        ("==WARNING== No kernels were profiled.", "no_kernels", "slash"),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute.", "driver", "driver"),
        ("==ERROR== Failed to find metric dram__bytes_reed.sum", "metric", "tracekit metrics"),
        ("==ERROR== Failed to profile kernel: hardware is busy", "busy", "DCGM"),
        ("==ERROR== libcuda.so could not be loaded", "no_gpu", "GPU"),
        ("==ERROR== The application returned an error code (11).", "application", "without ncu"),
        ("==ERROR== Failed to profile kernel: out of memory saving device memory", "memory", "KV cache"),
        ("==ERROR== Profiling is not supported on this GPU", "unsupported_gpu", "newer"),
        (
            "==ERROR== CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
            "busy",
            "torch.profiler",
        ),
        ("==ERROR== Something else.", "profiler", "message"),
        ("==PROF== Connected to process 42", "no_table", "--page raw"),
    ],
)
def test_a_failed_run_gives_the_reason_that_ncu_printed(lines: str, code: str, word: str) -> None:
    with pytest.raises(CaptureError) as caught:
        parse(f"==PROF== Connected to process 42 (/usr/bin/python3)\n{lines}\n")
    assert caught.value.code == f"ncu_{code}"
    assert word in caught.value.hint


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 3000),
    st.integers(0, 60),
    st.sampled_from([b"", b'"', b"\n", b",", b"\0", b"nan", b"1e999", b'"ID"', b"\xff", b"9" * 40]),
)
def test_damage_ends_in_counters_or_in_one_clear_error(at: int, lost: int, put: bytes) -> None:
    whole = (raw({DRAM: ("Mbyte", "1.5")}) + details(("Duration", "usecond", "2.5"))).encode()
    at %= len(whole)
    data = whole[:at] + put + whole[at + lost :]
    try:
        capture = read_stream(from_bytes("counters.csv", data), lambda _name: False)[0]
    except CaptureError as error:
        assert error.hint
        return
    assert capture.counters is not None
    COUNTER_LAUNCHES.check(capture.counters.launches)
    COUNTER_VALUES.check(capture.counters.readings)
