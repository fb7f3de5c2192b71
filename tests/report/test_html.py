"""The page: one file, no network, hostile names stay text, and what a reader does with it works."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tracekit.report import CaptureUsed, Result
from tracekit.report.html import render_html
from tracekit.report.html.method import defaults
from tracekit.report.html.roofline import MAX_MARKS, roofline_figures
from tracekit.tables.ceilings import Ceilings, Roof

Make = Callable[..., Result]
BREAKOUT = "</script><img src=x onerror=document.title='owned'>"
SECTIONS = ("verdict", "findings", "timeline", "roofline", "losses", "kernels", "trend", "ranks", "method")
MOST_BYTES = 2_500_000


def embedded(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1]) if found else None


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def tags(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Tags()
    parser.feed(page)
    return parser.seen


@pytest.mark.parametrize(
    "row",
    [
        {"dur_ns": 0, "flops": 1e6, "dram_bytes": 1e3},
        {"dur_ns": 9, "flops": 1e6, "dram_bytes": 0.0},
        {"dur_ns": 0, "flops": 0.0, "dram_bytes": 1e3},
    ],
    ids=["no-time", "no-bytes", "no-time-no-flops"],
)
def test_kernels_without_a_rate_or_an_intensity_are_drawn_nowhere(
    make_result: Make, row: dict[str, Any]
) -> None:
    result = make_result([{"name": "k", "ts_ns": 0, "flops_source": "shape", "peak": "bf16", **row}])
    assert list(roofline_figures(result)) == []
    assert "<html" in render_html(result)


def test_what_has_no_place_takes_no_room_from_what_has_one(make_result: Make) -> None:
    told = {"flops_source": "shape", "peak": "bf16", "flops": 1e9}
    rows = [
        {"name": f"k{at}", "ts_ns": 100 * at, "dur_ns": 100, "dram_bytes": 0.0, **told}
        for at in range(MAX_MARKS)
    ]
    last = {"name": "placed", "ts_ns": 100 * MAX_MARKS, "dur_ns": 9, "dram_bytes": 1e3, **told}
    (figure,) = roofline_figures(make_result([*rows, last]))
    assert "placed" in json.dumps(figure.spec)


def test_every_section_stands_in_its_order_and_nothing_is_fetched(big_result: Make) -> None:
    page = render_html(big_result())
    seen = tags(page)
    assert [attrs["id"] for tag, attrs in seen if tag == "section"] == list(SECTIONS)
    links = [attrs.get(name) for _, attrs in seen for name in ("src", "href") if name in attrs]
    assert [link for link in links if not str(link).startswith(("#", "data:"))] == []
    policy = next(
        attrs["content"] for tag, attrs in seen if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in str(policy)
    assert "unsafe-eval" not in str(policy)


def test_the_header_names_the_captures_and_the_folder_of_a_collected_run(make_result: Make) -> None:
    captures = (
        CaptureUsed("/data/run 7/timing.trace.json.gz", "timing", "-"),
        CaptureUsed("/data/ncu.csv", "counters", "-"),
    )
    page = render_html(make_result([], captures=captures))
    header = page[page.index("<header>") : page.index("<nav")]
    assert re.findall("<code>(.*?)</code>", header) == ["run 7/timing.trace.json.gz", "ncu.csv"]


def test_a_mark_of_no_time_far_off_does_not_squeeze_the_roofline(make_result: Make) -> None:
    work = {"flops_source": "shape", "peak": "bf16", "dram_bytes": 1e6}
    rows = [
        {"name": "mm", "ts_ns": 0, "dur_ns": 1_000_000, "flops": 1e9, **work},
        {"name": "tiny", "ts_ns": 1_000_000, "dur_ns": 1000, "flops": 1, **work},
    ]
    figure = next(roofline_figures(make_result(rows)))
    points = next(layer for layer in figure.spec["layer"] if layer["mark"]["type"] == "point")
    assert [mark["name"] for mark in points["data"]["values"]] == ["mm"]
    assert figure.reading.endswith("1 group of the least time is not drawn.")


def test_every_default_in_force_is_said_with_its_value() -> None:
    said = dict(defaults(Ceilings(peaks={"bf16": Roof(spec=1e15, reach=0.7)}, dram=Roof(measured=1e12))))
    assert said["bound by a roof"].startswith("from 80.0 % of it, likely from 60.0 %; below 30.0 % latency")
    # A measured roof is reached by what measured it.
    assert said["achievable roof"] == "share of the data sheet's that good kernels reach: bf16 70.0 % (usual)"
    assert said["an op's own cost on a CPU"] == "10.0 us, where it was not measured"
    assert "time of an empty kernel or op" in dict(defaults(Ceilings(launch_floor_ns=2000.0)))


def test_a_name_cannot_leave_the_place_it_is_written_to(make_result: Make) -> None:
    rows = [
        {"name": name, "ts_ns": at, "dur_ns": 10, "family": BREAKOUT}
        for at, name in enumerate((BREAKOUT, "<!--<script>"))
    ]
    quality = [{"code": BREAKOUT, "count": 1, "message": BREAKOUT}]
    page = render_html(make_result(rows, quality=quality))
    assert "img" not in {tag for tag, _ in tags(page)}
    assert [row["name"] for row in embedded(page)["kernels"]["rows"]] == [BREAKOUT, "<!--<script>"]


def test_an_empty_result_is_a_page_that_says_so(make_result: Make) -> None:
    page = render_html(make_result([]))
    assert "nothing to report" in page
    assert embedded(page)["charts"] == {}


def test_a_mark_keeps_its_own_kernel(make_result: Make) -> None:
    work = {"flops_source": "shape", "peak": "bf16"}
    figures = roofline_figures(
        make_result([
            {"name": "fill", "ts_ns": 0, "dur_ns": 4000, "flops": 0, "dram_bytes": 1e6, "bottleneck": "copy", **work},
            {"name": "mm", "ts_ns": 4000, "dur_ns": 1000, "flops": 4e8, "dram_bytes": 1e6, "bottleneck": "compute", **work},
            {"name": "gather", "ts_ns": 5000, "dur_ns": 500, "flops": 0, "dram_bytes": 1e6, "bottleneck": "dram", **work},
            {"name": "mystery", "ts_ns": 6000, "dur_ns": 9000},
        ])
    )  # fmt: skip
    marks = {
        figure.key: [
            (mark["name"], mark["class"], round(mark["x"]), mark["bandwidth"])
            for layer in figure.spec["layer"]
            if layer["mark"]["type"] == "point"
            for mark in layer["data"]["values"]
        ]
        for figure in figures
    }
    assert marks == {
        "roofline": [("mm", "compute", 400, 1e12)],
        "strip": [("fill", "copy", 0, 2.5e11), ("gather", "dram", 0, 2e12)],
    }


def drawn(page: Any) -> int:
    """Scroll to each chart and wait until it is drawn; the number of charts."""
    charts = page.locator("[data-chart]")
    for at in range(charts.count()):
        charts.nth(at).scroll_into_view_if_needed()
        charts.nth(at).locator("svg.marks").wait_for()
    return int(charts.count())


def first_cells(page: Any) -> list[str]:
    rows = page.locator("#kernel-table tbody tr[data-id]").all_inner_texts()
    return [row.split("\t")[0].strip() for row in rows]


@pytest.mark.browser
def test_the_charts_draw_in_both_themes_under_the_policy(
    opened: Callable[[Result], Any], big_result: Make
) -> None:
    page = opened(big_result())
    assert drawn(page) >= 8
    assert page.locator("[data-chart] svg").count() == page.locator("[data-chart]").count()
    theme = page.evaluate("document.documentElement.dataset.theme")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") != theme
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.browser
def test_search_filters_and_sorting_work(opened: Callable[[Result], Any], make_result: Make) -> None:
    page = opened(
        make_result([
            {"name": "alpha gemm", "ts_ns": 0, "dur_ns": 100, "phase": "decode", "family": "gemm", "bottleneck": "dram"},
            {"name": "beta norm", "ts_ns": 100, "dur_ns": 300, "phase": "prefill", "family": "norm", "bottleneck": "compute"},
            {"name": "gamma gemm", "ts_ns": 400, "dur_ns": 200, "phase": "prefill", "family": "gemm", "flops": 2e6, "dram_bytes": 4},
        ])
    )  # fmt: skip
    assert first_cells(page) == ["beta norm", "gamma gemm", "alpha gemm"]
    page.click("th[data-key=name] button")
    assert first_cells(page) == ["alpha gemm", "beta norm", "gamma gemm"]
    page.click("th[data-key=flops] button")
    assert first_cells(page)[0] == "gamma gemm"
    page.select_option("#filter-phase", "prefill")
    assert first_cells(page) == ["gamma gemm", "beta norm"]
    page.fill("#search", "gemm")
    page.locator("#kernel-count", has_text="1 of 3 groups").wait_for()
    assert first_cells(page) == ["gamma gemm"]
    page.fill("#search", "")
    page.locator("#kernel-count", has_text="2 of 3 groups").wait_for()
    page.select_option("#filter-phase", "")
    page.select_option("#filter-class", "dram")
    assert first_cells(page) == ["alpha gemm"]
    page.focus("tr[data-id] .expand")
    page.keyboard.press("Enter")
    assert "confidence 0.50" in page.inner_text("tr.detail")
    assert page.get_attribute("tr[data-id] .expand", "aria-expanded") == "true"


@pytest.mark.browser
def test_hostile_names_stay_text_in_the_browser(opened: Callable[[Result], Any], make_result: Make) -> None:
    work = {"flops": 1e6, "dram_bytes": 1e6, "peak": "bf16", "flops_source": "shape", "phase": "decode"}
    names = (BREAKOUT, "x" * 5000, "<b>bold</b>{{ 7 * 7 }}")
    page = opened(
        make_result(
            [
                {"name": name, "ts_ns": 100 * at, "dur_ns": 100, "op": BREAKOUT, **work}
                for at, name in enumerate(names)
            ],
            [{"phase": "decode", "ts_ns": 0, "dur_ns": 300, "annotation": BREAKOUT}],
        )
    )
    drawn(page)
    assert page.title() != "owned"
    assert page.locator("img, #kernel-table b").count() == 0
    for button in page.locator("tr[data-id] .expand").all():
        button.click()
    shown = page.locator("tr.detail dd:first-of-type code").all_inner_texts()
    assert {text.strip() for text in shown} == set(names)
    page.fill("#step", "0")
    page.press("#step", "Enter")
    assert BREAKOUT in page.inner_text("#step-detail")


@pytest.mark.browser
def test_a_mark_leads_to_its_kernel_and_a_bar_to_its_step(
    opened: Callable[[Result], Any], big_result: Make
) -> None:
    page = opened(big_result())
    drawn(page)
    page.locator("#chart-roofline .mark-symbol.role-mark path").last.click(force=True)
    assert page.input_value("#search")
    assert len(first_cells(page)) >= 1
    page.locator("#chart-timeline .mark-rect.role-mark path").first.click(force=True)
    assert "Step 0" in page.inner_text("#step-detail")


@pytest.mark.browser
def test_copying_gives_markdown_and_csv(opened: Callable[[Result], Any], make_result: Make) -> None:
    page = opened(make_result([{"name": "=cmd|'x'!A1", "ts_ns": 0, "dur_ns": 100}]))
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.click("#copy-csv")
    assert page.evaluate("window.copied").splitlines()[1].startswith('"\'=cmd|\'x\'!A1","unknown"')
    page.click("#copy-markdown")
    assert page.evaluate("window.copied").splitlines()[2].startswith("| =cmd\\|'x'!A1 | unknown |")


@pytest.mark.browser
def test_a_hundred_thousand_kernels_open_in_three_seconds(
    opened: Callable[[Result], Any], big_result: Make, tmp_path: Path
) -> None:
    names = [
        (f"void cutlass::Kernel2<tile_{at}_of_a_name_as_long_as_they_come_{'x' * 80}>", "gemm", "bf16")
        for at in range(1500)
    ]
    page = opened(big_result(steps=20, count=5000, names=names))
    assert (tmp_path / "report.html").stat().st_size < MOST_BYTES
    # Upper bounds: the browser is asked after it has said that it is ready.
    assert page.evaluate("performance.now()") < 3000
    took = page.evaluate("""() => {
        const start = performance.now();
        document.querySelector("th[data-key=name] button").click();
        document.querySelector("#kernel-table").getBoundingClientRect();
        return performance.now() - start;
    }""")
    assert took < 500
    assert page.get_attribute("th[data-key=name]", "aria-sort") == "ascending"


@pytest.mark.browser
def test_paper_shows_every_chart_and_all_that_is_folded(
    opened: Callable[[Result], Any], big_result: Make
) -> None:
    one = big_result(steps=1).findings[0]
    found = [replace(one, title=f"finding {number}") for number in range(12)]
    page = opened(big_result(findings=found))
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(
        "[...document.querySelectorAll('[data-chart]')].every((node) => node.querySelector('svg.marks'))"
    )
    assert page.get_by_text("finding 11").is_visible()
    # Nothing is wider than A4 between its margins, at 96 dots an inch.
    page.set_viewport_size({"width": 703, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") <= 703
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.get_by_text("finding 11").is_visible()
