"""The page by keyboard alone, and what a screen reader is told."""

from collections.abc import Callable
from typing import Any

import pytest

from tracekit.report import Result

Make = Callable[..., Result]


TICKS = "[...document.querySelectorAll('#chart-timeline .role-axis-label text')].map((node) => node.textContent).sort().join()"


def ticks(page: Any) -> str:
    """The labels of the timeline's axis."""
    return str(page.evaluate(TICKS))


def tab_to(page: Any, what: str) -> None:
    """Press Tab until the element that matches has the focus."""
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("(what) => document.activeElement.matches(what)", what):
            return
    pytest.fail(f"Tab never reaches {what}")


@pytest.mark.browser
def test_everything_can_be_reached_and_done_with_the_keyboard(
    opened: Callable[[Result], Any], big_result: Make
) -> None:
    page = opened(big_result())
    tab_to(page, ".skip")
    tab_to(page, "#theme")
    theme = page.evaluate("document.documentElement.dataset.theme")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") != theme
    tab_to(page, "[data-move=in]")
    page.locator("#chart-timeline svg.marks").wait_for()
    whole = ticks(page)
    seen = [whole]
    for move in ("in", "right", "left", "out"):
        page.focus(f"[data-move={move}]")
        page.keyboard.press("Enter")
        page.wait_for_function(f"(before) => {TICKS} !== before", arg=seen[-1])
        seen.append(ticks(page))
    # Later and earlier again: what was seen before.
    assert seen[1] == seen[3]
    page.focus("[data-move=all]")
    page.keyboard.press("Enter")
    page.wait_for_function(f"(whole) => {TICKS} === whole", arg=whole)
    tab_to(page, "#step")
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    assert "Step 3" in page.inner_text("#step-detail")
    tab_to(page, "#search")
    page.keyboard.type("rms_norm")
    page.locator("#kernel-count", has_text="3 of ").wait_for()
    tab_to(page, "th[data-key=name] button")
    page.keyboard.press("Space")
    assert page.get_attribute("th[data-key=name]", "aria-sort") == "ascending"
    tab_to(page, "tr[data-id] .expand")
    page.keyboard.press("Enter")
    assert page.locator("tr.detail").count() == 1
    grids = page.locator("tr.detail table tbody tr td:first-child").all_inner_texts()
    assert set(grids) <= {"132,1,1", "264,1,1", "396,1,1", "528,1,1"}
    assert grids
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"


@pytest.mark.browser
def test_landmarks_names_and_live_regions_are_there(
    opened: Callable[[Result], Any], big_result: Make
) -> None:
    page = opened(big_result())
    for role in ("banner", "navigation", "main", "contentinfo", "search"):
        assert page.get_by_role(role).count() == 1, role
    tables = page.locator("table")
    assert page.locator("table > caption").count() == tables.count()
    assert page.locator("thead th:not([scope=col])").count() == 0
    assert page.locator("#kernel-table tbody tr[data-id] > th[scope=row]").count() > 0
    assert page.get_by_role("status").inner_text().endswith("of the kernel time.")
    # Each chart has its sentence as its description.
    described = page.evaluate(
        "[...document.querySelectorAll('[data-chart]')].map((node) => document.getElementById(node.getAttribute('aria-describedby'))?.textContent.length ?? 0)"
    )
    assert min(described) > 20
    named = page.evaluate(
        "[...document.querySelectorAll('button, input, select')].map((node) => (node.ariaLabel || node.textContent || node.labels?.[0]?.textContent || '').trim())"
    )
    assert "" not in named


@pytest.mark.browser
def test_nothing_moves_for_who_asked_for_no_motion(opened: Callable[[Result], Any], big_result: Make) -> None:
    page = opened(big_result())
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    assert page.evaluate("document.getAnimations().length") == 0
