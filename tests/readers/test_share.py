"""A file read by two processes gives what one alone reads from it."""

import gzip
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tracebuilder import TraceBuilder

from tracekit.pipeline import Options, analyze
from tracekit.readers import read_all
from tracekit.readers.kineto import helper as helpers
from tracekit.readers.kineto.document import Document
from tracekit.readers.kineto.gather import Gathered, Ranks
from tracekit.readers.kineto.helper import Helper, helper_for, started_ahead
from tracekit.readers.kineto.merge import merge
from tracekit.readers.kineto.share import gather
from tracekit.readers.kineto.turns import OutOfStepError, Turns, number_batches
from tracekit.readers.source import open_stream
from tracekit.tables import Capture
from tracekit.tables.wanted import WantedFrames

SMALL = 4096
BLOCK = 1000
MAIN = "from tracekit.readers import source; source.BLOCK = {}; from tracekit.readers.kineto import document; document.BATCH = {}; {}"
TABLES = ("device_events", "runtime_calls", "ops", "signatures", "annotations", "frames")
NO_FRAMES = WantedFrames((), 0)


def busy_trace(steps: int = 60, seed: int = 7) -> TraceBuilder:
    """Names, threads, grids and signatures that come up in no order, and starts that go backwards."""
    chance = np.random.default_rng(seed)
    trace = TraceBuilder()
    for step in range(steps):
        at = (steps - step) * 1000 if step % 7 == 0 else step * 1000
        trace.annotation(f"step {step % 9}", at, 900, tid=int(chance.integers(3)))
        for number in range(chance.integers(1, 6)):
            dims = [[int(chance.integers(1, 9)), 64]] if chance.random() < 0.7 else None
            trace.op(f"aten::op{chance.integers(20)}", at + number, 1, tid=int(chance.integers(4)), dims=dims)
            trace.kernel(f"kernel{chance.integers(30)}", at + number * 10, int(chance.integers(9)))
        trace.frame(f"model.py({step}): forward", at, 800)
    return trace


def same(one: list[Capture], other: list[Capture]) -> None:
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        for name in TABLES:
            pd.testing.assert_frame_equal(getattr(left, name), getattr(right, name))
        assert left.threads == right.threads
        assert left.info.event_counts == right.info.event_counts
        assert left.quality == right.quality


def in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.readers.kineto.document.BATCH", SMALL)
    monkeypatch.setattr("tracekit.readers.source.BLOCK", BLOCK)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes every file worth a second process, which then runs the given program."""

    def set_up(program: str = "from tracekit.readers.kineto.share import main; main()") -> None:
        in_small_batches(monkeypatch)
        monkeypatch.setattr(helpers, "WORTHWHILE", 0)
        monkeypatch.setattr(helpers, "_MAIN", MAIN.format(BLOCK, SMALL, program))
        monkeypatch.setattr(helpers, "_cores", lambda: 2)

    return set_up


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_bytes(busy_trace().text())
    return path


class Fixed(Turns):
    """Turns that are dealt beforehand."""

    def __init__(self, whose: Callable[[int], bool], *, last: bool) -> None:
        self.last = last
        self.whose = whose

    def mine(self, batch: int) -> bool:
        return self.whose(batch)


def gathered(path: Path, turns: Turns | None) -> Ranks:
    stream = open_stream(str(path))
    document = Document(stream, turns)
    document.open()
    try:
        return gather(document, lambda name: name.endswith("forward"))
    finally:
        stream.close()


def rows(found: Gathered) -> dict[str, object]:
    """Everything that was gathered, in plain lists."""
    out: dict[str, object] = {"counts": found.counts}
    for name in ("threads", "signatures", "grids", "blocks"):
        out[name] = list(getattr(found, name).codes)
    for name in ("device", "runtime", "ops", "annotations", "frames"):
        spans = getattr(found, name)
        out[name] = list(spans.names.codes)
        out |= {f"{name}.{column}": spans.parts.column(column).tolist() for column in spans.parts.pieces}
    return out


@pytest.mark.parametrize("seed", range(6))
def test_what_two_gathered_is_put_together_in_the_order_of_the_file(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_batches(monkeypatch)
    path = tmp_path / "trace.json"
    path.write_bytes(busy_trace(seed=seed).text())
    dealt = np.random.default_rng(seed).random(1000) < 0.5
    alone = gathered(path, None)[""]
    own = gathered(path, Fixed(lambda batch: dealt[batch], last=True))[""]
    other = gathered(path, Fixed(lambda batch: not dealt[batch], last=False))[""]
    assert len(own.device.parts) < len(alone.device.parts)
    merge(own, other)
    assert rows(own) == rows(alone)


@pytest.mark.parametrize("packed", [False, True])
def test_a_second_process_reads_its_share(
    shared: Callable[[], None], trace_file: Path, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if packed:
        trace_file.write_bytes(gzip.compress(trace_file.read_bytes()))
    wanted = WantedFrames((re.compile(r"\(\d*3\): forward"),), 99)
    alone = read_all(str(trace_file), keep_frame=wanted)
    shared()
    shares = []
    tell, result = Helper.tell, Helper.result

    def tell_and_wait(self: Helper, keep_frame: Callable[[str], bool]) -> None:
        tell(self, keep_frame)
        time.sleep(2)

    def result_seen(self: Helper) -> Ranks:
        shares.append(result(self))
        return shares[-1]

    monkeypatch.setattr(Helper, "tell", tell_and_wait)
    monkeypatch.setattr(Helper, "result", result_seen)
    same(read_all(str(trace_file), keep_frame=wanted), alone)
    assert len(shares[0][""].device.parts) > 0
    assert 0 < len(alone[0].frames) < 60


def begins_and_ends(text: bytes) -> bytes:
    pair = b'{"ph": "B", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5}, {"ph": "E", "pid": 1, "tid": 1, "ts": 9}, '
    return text.replace(b'"traceEvents": [', b'"traceEvents": [' + pair)


DIFFICULT: dict[str, Callable[[bytes], bytes]] = {
    "a quote in a name": lambda text: text.replace(b'"kernel7"', b'"ker"nel7"'),
    "cut short": lambda text: text[: len(text) * 2 // 3],
    "begins and ends": begins_and_ends,
    "a long tail": lambda text: text[:-1] + b', "notes": [' + b'{"a": 1}, ' * 3000 + b"{}]}",
    "separators in a name": lambda text: text.replace(b'"kernel7"', b'"k}, {7"'),
    "merged ranks": lambda text: text.replace(b'"pid": 100', b'"pid": "[TP01] 100"'),
}


@pytest.mark.parametrize("change", DIFFICULT.values(), ids=DIFFICULT)
def test_what_one_alone_must_read_is_read_so(
    change: Callable[[bytes], bytes],
    shared: Callable[[], None],
    trace_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_small_batches(monkeypatch)
    trace_file.write_bytes(change(trace_file.read_bytes()))
    alone = read_all(str(trace_file), keep_frame=NO_FRAMES)
    shared()
    same(read_all(str(trace_file), keep_frame=NO_FRAMES), alone)


@pytest.mark.parametrize("program", ["raise SystemExit(1)", "print('noise')", "import no_such_module"])
def test_a_second_process_that_fails_costs_nothing_but_time(
    program: str, shared: Callable[[str], None], trace_file: Path
) -> None:
    alone = read_all(str(trace_file), keep_frame=NO_FRAMES)
    shared(program)
    same(read_all(str(trace_file), keep_frame=NO_FRAMES), alone)


def test_frames_that_cannot_be_described_to_another_process_are_judged_by_one(
    shared: Callable[[], None], trace_file: Path
) -> None:
    shared()
    (capture,) = read_all(str(trace_file), keep_frame=lambda name: name.endswith("(3): forward"))
    assert list(capture.frames["name"]) == ["model.py(3): forward"]


def test_turns_deal_every_batch_to_one() -> None:
    pipe = number_batches()
    one, other = Turns(pipe, last=True), Turns(pipe, last=False)
    assert [(one.mine(batch), other.mine(batch)) for batch in range(6)] == [(True, False), (False, True)] * 3


def test_more_batches_than_numbers_are_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.readers.kineto.turns.MOST", 2)
    turns = Turns(number_batches(), last=True)
    assert turns.mine(0)
    assert turns.mine(1)
    with pytest.raises(OutOfStepError):
        turns.mine(2)


def test_a_helper_is_for_large_files_of_their_own_and_machines_with_a_core_to_spare(
    trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helpers, "_cores", lambda: 1)
    assert helper_for(trace_file, 1 << 40, gzipped=False) is None
    monkeypatch.setattr(helpers, "_cores", lambda: 2)
    assert helper_for(trace_file, 1 << 20, gzipped=False) is None
    assert helper_for(None, 1 << 40, gzipped=False) is None
    with monkeypatch.context() as inside:
        inside.setattr("sys.executable", "/usr/bin/uwsgi")
        assert helper_for(trace_file, 1 << 40, gzipped=False) is None
    large = helper_for(trace_file, 1 << 22, gzipped=True)
    assert large is not None
    large.close()
    assert large.gave_up


def test_a_second_process_imports_nothing_from_the_folder_of_the_traces(
    shared: Callable[[], None], trace_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gc.py").write_text("")
    (tmp_path / "numpy.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    shared()
    with started_ahead([str(trace_file)]):
        read_all(str(trace_file), keep_frame=NO_FRAMES)
    assert not (tmp_path / "ran").exists()


def test_a_trace_is_read_ahead_and_let_go_where_nobody_asks(
    shared: Callable[[str], None], trace_file: Path, tmp_path: Path
) -> None:
    shared("import time; time.sleep(60)")
    other = tmp_path / "notes.json"
    other.write_text('{"notes": []}')
    with started_ahead(["-", str(tmp_path / "none"), str(tmp_path), str(other), str(trace_file)]):
        (helper,) = helpers._ahead.values()
        assert not helper.gave_up
    assert not helpers._ahead
    assert helper.gave_up


def test_a_helper_that_was_started_ahead_is_the_one_used(
    shared: Callable[[], None], trace_file: Path
) -> None:
    shared()
    with started_ahead([str(trace_file)]):
        (started,) = helpers._ahead.values()
        assert helper_for(trace_file, 1, gzipped=False) is started
        assert not helpers._ahead
    started.close()


def test_a_helper_is_let_go_where_the_capture_is_kept(
    shared: Callable[[], None], trace_file: Path, tmp_path: Path
) -> None:
    shared()
    options = Options(cache=tmp_path / "kept")
    first = analyze([str(trace_file)], options)
    with started_ahead([str(trace_file)]):
        (helper,) = helpers._ahead.values()
        again = analyze([str(trace_file)], options)
        assert helper.gave_up
    assert len(again.kernels) == len(first.kernels) > 0
