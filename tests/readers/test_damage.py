"""Damaged traces: what is repaired, what is kept, what is said, row by row."""

import codecs
import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracebuilder import TraceBuilder

from tracekit.errors import TracekitError
from tracekit.readers import read_stream
from tracekit.readers.source import from_bytes
from tracekit.tables import Capture

KERNELS = 6


def good() -> bytes:
    trace = TraceBuilder(tail={"traceName": "trace.json"})
    for number in range(KERNELS):
        trace.launched(f"kernel_{number}", number * 10, number * 10 + 4, 3)
    return trace.text(indent=2)


def parse(data: bytes) -> Capture:
    return read_stream(from_bytes("trace.json", data), lambda _name: False)[0]


def swap(old: bytes, new: bytes) -> bytes:
    assert old in good()
    return good().replace(old, new, 1)


def two_thirds(data: bytes) -> bytes:
    return data[: 2 * len(data) // 3]


def wrong_checksum() -> bytes:
    packed = bytearray(gzip.compress(good()))
    packed[-8] ^= 0xFF
    return bytes(packed)


def unclosed_array() -> bytes:
    text = good()
    return text[text.index(b'"traceEvents": ') + len(b'"traceEvents": ') : text.rindex(b"]")]


MATRIX: dict[str, tuple[bytes, int, set[str]]] = {
    "byte order mark": (codecs.BOM_UTF8 + good(), KERNELS, {"bom"}),
    "utf-16": (good().decode().encode("utf-16"), KERNELS, {"utf16"}),
    "latin-1 byte in a name": (swap(b"kernel_2", b"kern\xe9l_2"), KERNELS, {"bad_utf8"}),
    "lone backslash in a name": (swap(b"kernel_2", rb"C:\kernel_2"), KERNELS, {"lone_backslash"}),
    "lone backslash in the metadata": (
        swap(b'"trace.json"', rb'"C:\traces\x.json"'),
        KERNELS,
        {"metadata_damaged"},
    ),
    "raw newline in a name": (swap(b"kernel_2", b"kernel\n2"), KERNELS, {"control_characters"}),
    "unescaped quotes in a name": (swap(b"kernel_2", b'say "kernel" 2'), KERNELS, {"inner_quotes"}),
    "an unescaped quote and braces in a name": (swap(b"kernel_2", b'a" }, {"b'), KERNELS, {"inner_quotes"}),
    "NaN duration": (swap(b'"dur": 3', b'"dur": NaN'), KERNELS - 1, {"not_a_number", "bad_time"}),
    "infinite duration": (swap(b'"dur": 3', b'"dur": -Infinity'), KERNELS - 1, {"not_a_number", "bad_time"}),
    "N/A argument": (swap(b'"stream": 7', b'"stream": N/A'), KERNELS, {"not_a_number"}),
    "negative duration": (swap(b'"dur": 3', b'"dur": -3'), KERNELS - 1, {"bad_time"}),
    "time as text": (swap(b'"dur": 3', b'"dur": "3"'), KERNELS, set()),
    "trailing comma in an event": (
        swap(b'"correlation": 1\n', b'"correlation": 1,\n'),
        KERNELS,
        {"trailing_comma"},
    ),
    "trailing comma after the events": (b"},\n  ],".join(good().rsplit(b"}\n  ],", 1)), KERNELS, set()),
    "trailing comma in the metadata": (swap(b"}\n  ],", b"},\n  ],"), KERNELS, {"metadata_damaged"}),
    "trailing junk": (good() + b"\x00\x01 junk", KERNELS, {"trailing_junk"}),
    "a second document": (good() + good(), KERNELS, {"second_document"}),
    "truncated": (two_thirds(good()), 3, {"truncated"}),
    "gzip with a wrong checksum": (wrong_checksum(), KERNELS, {"gzip_checksum"}),
    "gzip with trailing bytes": (gzip.compress(good()) + b"junk", KERNELS, {"gzip_trailing"}),
    "gzip members that make one document": (
        gzip.compress(good()[:700]) + gzip.compress(good()[700:]),
        KERNELS,
        set(),
    ),
    "gzip members of two documents": (gzip.compress(good()) * 2, KERNELS, {"second_document"}),
    "gzip without its last bytes": (gzip.compress(good())[:-6], KERNELS, {"gzip_truncated"}),
    "unclosed array": (unclosed_array(), KERNELS, {"event_array", "unclosed_array"}),
    "closed array": (unclosed_array() + b"]", KERNELS, {"event_array"}),
}


@pytest.mark.parametrize("kind", MATRIX)
def test_damage_is_repaired_and_said(kind: str) -> None:
    data, kernels, codes = MATRIX[kind]
    capture = parse(data)
    assert len(capture.device_events) == kernels
    assert {note.code for note in capture.quality} == codes


def test_a_truncated_gzip_keeps_its_complete_events() -> None:
    trace = TraceBuilder()
    for number in range(20_000):
        trace.kernel(f"k{number % 977}", number * 10, 3 + number % 7)
    packed = gzip.compress(trace.text())
    capture = parse(two_thirds(packed))
    assert 11_000 < len(capture.device_events) < 15_000
    assert {note.code for note in capture.quality} == {"gzip_truncated", "truncated"}


@pytest.mark.parametrize("size", [64, 1000])
def test_repairs_do_not_depend_on_where_batches_end(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.readers.kineto.document.BATCH", size)
    monkeypatch.setattr("tracekit.readers.source.BLOCK", 48)
    for data, kernels, codes in MATRIX.values():
        capture = parse(data)
        assert len(capture.device_events) == kernels
        assert {note.code for note in capture.quality} == codes


def damage(draw: Callable[[st.SearchStrategy[int]], int], data: bytearray) -> None:
    at = draw(st.integers(0, len(data) - 1))
    kind = draw(st.integers(0, 2))
    if kind == 0:
        data[at] = draw(st.integers(0, 255))
    elif kind == 1:
        del data[at]
    else:
        data[at:at] = bytes([draw(st.integers(0, 255))])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_damaged_byte_gives_a_result_or_a_tracekit_error(data: st.DataObject) -> None:
    text = bytearray(good())
    for _ in range(data.draw(st.integers(1, 4))):
        damage(data.draw, text)
    try:
        capture = parse(bytes(text))
    except TracekitError as error:
        assert "\n" not in error.message
    else:
        assert len(capture.device_events) <= KERNELS + 2


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(good())))
def test_a_cut_keeps_every_event_that_is_whole(length: int) -> None:
    text = good()[:length]
    whole = sum(
        text.find(f'"kernel_{n}"'.encode()) >= 0
        and text.find(b"\n    }", text.find(f'"kernel_{n}"'.encode())) >= 0
        for n in range(KERNELS)
    )
    try:
        capture = parse(text)
    except TracekitError:
        assert whole == 0
    else:
        assert len(capture.device_events) >= whole


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_gzip_gives_a_result_or_a_tracekit_error(data: st.DataObject) -> None:
    packed = bytearray(gzip.compress(good()))
    damage(data.draw, packed)
    try:
        parse(bytes(packed))
    except TracekitError as error:
        assert "\n" not in error.message


def test_gzip_that_breaks_in_the_middle_keeps_what_decoded_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.readers.source.BLOCK", 64)
    trace = TraceBuilder()
    for number in range(3_000):
        trace.kernel(f"k{number % 97}", number * 10, 3 + number % 7)
    packed = bytearray(gzip.compress(trace.text()))
    packed[len(packed) // 2 : len(packed) // 2 + 40] = bytes(range(200, 240))
    capture = parse(bytes(packed))
    assert 1_000 < len(capture.device_events) < 3_000
    assert {note.code for note in capture.quality} & {"gzip_damaged", "gzip_checksum"}


def test_gzip_of_nothing_is_refused() -> None:
    with pytest.raises(TracekitError, match="gzip data of nothing"):
        parse(gzip.compress(b""))


def test_a_gzip_bomb_of_spaces_is_refused_without_being_held() -> None:
    packer = zlib.compressobj(wbits=31)
    bomb = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(200)) + packer.flush()
    with pytest.raises(TracekitError) as caught:
        parse(b"".join([bomb]))
    assert "\n" not in caught.value.message


def test_a_deeply_nested_argument_is_bounded() -> None:
    deep = b"[" * 10_000 + b"]" * 10_000
    data = swap(b'"stream": 7', b'"stream": 7, "deep": ' + deep)
    capture = parse(data)
    assert len(capture.device_events) >= KERNELS - 1


def test_one_endless_event_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.readers.kineto.document.LONGEST_EVENT", 1 << 20)
    monkeypatch.setattr("tracekit.readers.kineto.document.BATCH", 1 << 16)
    with pytest.raises(TracekitError, match="one event is longer than") as caught:
        parse(swap(b"kernel_2", b"k" * (3 << 20)))
    assert "\n" not in caught.value.message


def test_a_hundred_thousand_names_are_a_hundred_thousand_names() -> None:
    event = '{"ph":"X","cat":"kernel","name":"k%d","ts":%d,"dur":1}'
    capture = parse(('{"traceEvents":[' + ",".join(event % (n, n) for n in range(100_000)) + "]}").encode())
    assert capture.device_events["name"].nunique() == 100_000
