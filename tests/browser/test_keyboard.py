"""Everything without a pointer: the grids are walked with arrow keys and say where one is."""

from __future__ import annotations

import pytest

from tests.browser.chromium import Watched
from tests.serving import Server

pytestmark = pytest.mark.browser

TEXT = "der hund schläft"


def test_map_is_navigated_locked_and_released(watched: Watched, served: Server) -> None:
    page = watched.translated(TEXT)
    columns = ["der", "hund", "schläft", "</s>"]
    cell = page.locator(".panel:has(#kind) [role=gridcell]")
    grid = page.locator(".panel:has(#kind) [role=grid]")
    assert int(grid.get_attribute("aria-colcount")) == len(columns)
    rows = int(grid.get_attribute("aria-rowcount"))
    cell.focus()
    weights = served.ask("/attention", {"source": TEXT, "model": "tiny-de-en", "kinds": ["cross"]})
    cross = weights["attention"]["cross"]["weights"]
    mean = sum(cross[layer][head][0][1] for layer in range(2) for head in range(4)) / 8
    page.keyboard.press("ArrowRight")
    assert cell.get_attribute("aria-colindex") == "2"
    label = cell.get_attribute("aria-label")
    assert "attends to “hund” with weight " in label
    weight = label.split("weight ")[1].rstrip(".").replace("−", "-")
    assert float(weight) == pytest.approx(mean, abs=1e-4)
    watched.until("document.getElementById('live').textContent.includes('hund')")
    page.keyboard.press("End")
    assert cell.get_attribute("aria-colindex") == str(len(columns))
    page.keyboard.press("Control+End")
    assert (cell.get_attribute("aria-colindex"), grid.locator("[role=row]").get_attribute("aria-rowindex")) == (
        str(len(columns)),
        str(rows),
    )
    page.keyboard.press("ArrowDown")  # the edge holds
    assert grid.locator("[role=row]").get_attribute("aria-rowindex") == str(rows)
    page.keyboard.press("Control+Home")
    page.keyboard.press("Enter")
    watched.until("location.hash.includes('s=0')")
    assert page.locator(".token.locked").count() == 2
    page.keyboard.press("Escape")
    watched.until("!location.hash.includes('s=0')")
    assert page.locator(".token.locked").count() == 0


def test_head_is_chosen_in_the_grid(watched: Watched) -> None:
    page = watched.translated(TEXT)
    cell = page.locator(".heads [role=gridcell]")
    assert page.locator(".heads [role=grid]").get_attribute("aria-rowcount") == "2"
    assert page.locator(".heads [role=grid]").get_attribute("aria-colcount") == "5"  # four heads and their mean
    cell.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", " "):
        page.keyboard.press(key)
    watched.until("location.hash.includes('layer=1&head=2')")
    page.keyboard.press("Tab")
    assert "layer 1, head 2" in page.inner_text(".panel:has(#kind) h2")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    watched.until("!location.hash.includes('head=')")


def test_tab_reaches_every_control_in_order(watched: Watched) -> None:
    page = watched.translated(TEXT)
    page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges()")
    page.locator("#skip").focus()
    seen = []
    for _ in range(90):
        page.keyboard.press("Tab")
        result = page.evaluate(
            "(e => e.id || e.getAttribute('role') || e.dataset.side || e.tagName)(document.activeElement)"
        )
        if result == "BODY":
            break
        if not seen or seen[-1] != result:
            seen.append(result)
    order = [seen.index(part) for part in ("theme", "from", "to", "source", "s", "t", "kind", "row")]
    assert order == sorted(order)
    assert seen.count("gridcell") == 2


def test_skip_link_leads_to_the_content(watched: Watched) -> None:
    page = watched.goto("#models")
    page.wait_for_selector(".model")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "room"
    assert page.locator("[data-room=models][aria-current=page]").count() == 1
