"""Shapes from a second pass of the same work reach the ops of the pass that was timed."""

from tracebuilder import TraceBuilder

from tracekit.link import borrow_signatures
from tracekit.readers import read_stream
from tracekit.readers.source import from_bytes
from tracekit.tables import Capture


def step(trace: TraceBuilder, name: str, at: float, dims: list[list[int]] | None) -> None:
    trace.annotation(name, at, 100).op("aten::linear", at + 5, 40).op("aten::mm", at + 10, 30, dims=dims)


def capture(trace: TraceBuilder) -> Capture:
    return read_stream(from_bytes("trace.json", trace.text()), lambda _name: False)[0]


def test_the_kth_call_in_the_kth_range_of_a_name_is_the_same_call() -> None:
    timing, shapes = TraceBuilder(devices=[]), TraceBuilder(devices=[])
    for at in (0, 200):
        step(timing, "decode", at, None)
        step(shapes, "decode", at * 3, [[1, at + 1], [4, 4]])
    borrowed = borrow_signatures(capture(timing), capture(shapes))
    ops = borrowed.capture.ops
    dims = borrowed.capture.signatures["dims"].astype(object)[ops["signature"].astype(int)]
    assert dims[ops["name"].to_numpy() == "aten::mm"].tolist() == ["[[1, 1], [4, 4]]", "[[1, 201], [4, 4]]"]
    assert ops["dims_source"].tolist() == ["donor"] * 4
    assert borrowed.share == 1.0
    assert not borrowed.capture.quality


def test_calls_that_differ_in_number_are_not_aligned() -> None:
    timing, shapes = TraceBuilder(devices=[]), TraceBuilder(devices=[])
    step(timing, "decode", 0, None)
    step(shapes, "decode", 0, [[1, 2], [2, 2]])
    shapes.op("aten::mm", 60, 5, dims=[[9, 9], [9, 9]])
    borrowed = borrow_signatures(capture(timing), capture(shapes))
    assert borrowed.aligned == 1
    assert [(note.code, note.count) for note in borrowed.capture.quality] == [("shapes_unaligned", 1)]


def test_ranges_that_one_pass_alone_has_do_not_keep_calls_apart() -> None:
    timing, shapes = TraceBuilder(devices=[]), TraceBuilder(devices=[])
    step(timing, "decode", 0, None)
    step(shapes, "decode", 0, [[1, 2], [2, 2]])
    # PyTorch records the call of a compiled graph as an op in one pass, and as a range in the other.
    shapes.annotation("## Call CompiledFxGraph f ##", 4, 90)
    borrowed = borrow_signatures(capture(timing), capture(shapes))
    assert borrowed.aligned == 2
    assert not borrowed.capture.quality
