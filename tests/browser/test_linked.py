"""One selection rules all: a pointer on a ribbon, a cell or a head; and each view then shows what the API said."""

from __future__ import annotations

import math
import re
from typing import Any

import matplotlib
import pytest

from tests.browser.chromium import Watched
from tests.browser.test_translate import TEXT, number
from tests.serving import Server

pytestmark = pytest.mark.browser

ACTIVE = "[...document.querySelectorAll('.alignment .token.active')].map(e => e.dataset.side + e.dataset.index)"
# The colour in the middle of a cell of the map, as it was painted.
PAINTED = """([x, y]) => {
  const canvas = document.querySelector(".panel:has(#kind) .cells canvas");
  const ratio = canvas.width / canvas.getBoundingClientRect().width;
  const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, -Math.round(x * ratio), -Math.round(y * ratio));
  return [...copy.getImageData(0, 0, 1, 1).data];
}"""


def inside(served: Server, **fields: Any) -> dict[str, Any]:
    result: dict[str, Any] = served.ask("/attention", {"source": TEXT, "model": "tiny-de-en", **fields})
    return result


def centre(page: Any, grid: str, row: int, column: int) -> tuple[float, float]:
    """Where the keyboard's own frame stands when it has walked there, in the window; then the keyboard leaves."""
    cell = page.locator(f"{grid} [role=gridcell]")
    cell.focus()
    page.keyboard.press("Control+Home")
    for key, times in (("ArrowDown", row), ("ArrowRight", column)):
        for _ in range(times):
            page.keyboard.press(key)
    box = cell.bounding_box()
    page.evaluate("document.activeElement.blur()")
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_ribbon_previews_two_words_and_click_locks_them(watched: Watched, served: Server) -> None:
    page = watched.translated(TEXT)
    alignment = inside(served, include=["alignment"])["alignment"]
    caption = page.inner_text(".alignment .caption")
    heads = " ".join(f"{layer}.{head}" for layer, head in alignment["heads"])
    assert f"mean of the heads {heads} (layer.head), rows by the {alignment['convention']} token" in caption
    drawn = page.locator(".ribbon")
    links = [(int(link.get_attribute("data-from")), int(link.get_attribute("data-to"))) for link in drawn.all()]
    assert sorted(links) == sorted((source, target) for source, target, _ in alignment["links"])  # a token is a word
    source, target = links[1]
    path = page.query_selector_all(".ribbon")[1]
    x, y = path.evaluate(
        "e => { const p = e.getPointAtLength(e.getTotalLength() / 4).matrixTransform(e.getScreenCTM());"
        " return [p.x, p.y]; }"
    )
    page.mouse.move(x, y)
    watched.until(f"({ACTIVE}).length === 2")
    page.mouse.move(x + 0.5, y)  # it was drawn anew under the pointer, and is still the same
    assert page.evaluate(ACTIVE) == [f"s{source}", f"t{target}"]
    assert page.locator(".mirror .active").inner_text() == TEXT.split()[source]
    assert f"“{TEXT.split()[source]}” with weight" in page.inner_text(".panel:has(#kind) .reading")
    assert page.locator(".token.locked").count() == 0
    page.mouse.move(5, 5)
    watched.until(f"({ACTIVE}).length === 0")
    page.mouse.click(x, y)
    page.mouse.move(5, 5)
    watched.until(f"location.hash.includes('s={source}&t={target}')")
    assert page.evaluate(ACTIVE) == [f"s{source}", f"t{target}"]
    page.keyboard.press("Escape")
    assert page.locator(".token.locked").count() == 0


def test_map_cell_previews_and_locks_two_words(watched: Watched, served: Server) -> None:
    page = watched.translated(TEXT)
    x, y = centre(page, ".panel:has(#kind)", 1, 2)
    page.mouse.move(x, y)
    watched.until(f"({ACTIVE}).join() === 's2,t1'")
    assert page.locator(".mirror .active").inner_text() == "ein"
    cross = inside(served, kinds=["cross"], reduce={"heads": "mean", "layers": "mean"})["attention"]["cross"]
    reading = re.search(r"with weight ([0-9.e−]*[0-9])\.", page.inner_text(".panel:has(#kind) .reading"))
    assert reading is not None
    assert number(reading[1]) == pytest.approx(cross["weights"][0][0][1][2], abs=1e-4)
    page.mouse.move(5, 5)
    watched.until(f"({ACTIVE}).length === 0")
    page.mouse.click(x, y)
    watched.until("location.hash.includes('s=2&t=1')")
    page.mouse.click(x, y)  # again: free
    watched.until("!location.hash.includes('s=2')")


def test_head_previews_in_all_views_and_click_locks_it(watched: Watched, served: Server) -> None:
    page = watched.translated(TEXT)
    title = ".panel:has(#kind) h2"
    x, y = centre(page, ".heads", 1, 2)
    page.mouse.move(x, y)
    watched.until("document.querySelector('.panel:has(#kind) h2').textContent.includes('layer 1, head 2')")
    assert "head=" not in page.evaluate("location.hash")
    page.mouse.move(5, 5)
    watched.until("document.querySelector('.panel:has(#kind) h2').textContent.includes('mean of all heads')")
    page.mouse.click(x, y)
    page.mouse.move(5, 5)
    watched.until("location.hash.includes('layer=1&head=2')")
    assert "layer 1, head 2" in page.inner_text(title)
    page.wait_for_selector(".without .reading")
    head = {"kind": "cross", "layer": 1, "head": 2}
    result = inside(served, include=["stats"], mask_heads=[head])
    stats, without = result["stats"]["cross"][1][2], result["ablation"]["text_after"]
    facts = page.locator(".panel:has(.without) dd").all_inner_texts()
    assert facts[0] in (stats["role"], f"the {stats['role']}", f"the token {stats['role']}")
    numbers = [number(fact.split(" ")[0]) for fact in facts[1:]]
    expected = [stats["entropy_mean"], stats["entropy_norm"], stats["confidence"]]
    assert numbers == pytest.approx(expected, abs=0.005 + 1e-9)
    assert facts[1].endswith(" nats")
    shown = page.inner_text(".without .reading")
    assert shown == ("the same translation" if without == result["target"]["text"] else f"“{without}”")


@pytest.mark.parametrize("normalised", [False, True])
def test_colours_equal_cividis(watched: Watched, served: Server, normalised: bool) -> None:
    page = watched.goto(f"#translate?pair=de.en&text={TEXT.replace(' ', '+')}&layer=1&head=2&row={normalised}".lower())
    page.wait_for_selector(".inside:not(.stale) .token")
    weights = inside(served, kinds=["cross"], layers=[1], heads=[2])["attention"]["cross"]["weights"][0][0]
    cividis = matplotlib.colormaps["cividis"]
    canvas, seen = page.locator(".panel:has(#kind) .cells canvas"), set()
    for row, column in ((0, 0), (0, 3), (1, 1), (2, 2), (3, 0)):
        x, y = centre(page, ".panel:has(#kind)", row, column)
        origin = canvas.bounding_box()
        painted = page.evaluate(PAINTED, [x - origin["x"], y - origin["y"]])
        weight = weights[row][column] / (max(weights[row]) if normalised else 1)
        steps = {math.floor(255 * weight), math.ceil(255 * weight)}  # the page has 16 bits of a weight
        near = [max(abs(255 * a - b) for a, b in zip(cividis(step), painted, strict=True)) for step in steps]
        assert min(near) < 1, (row, column, weight)
        seen.add(tuple(painted))
    assert len(seen) > 1


def test_alternatives_show_the_probabilities_of_the_api(watched: Watched, served: Server) -> None:
    page = watched.translated(TEXT)
    page.click('.token[data-side="t"] >> nth=1')
    page.wait_for_selector(".alternative")
    steps = inside(served, include=["steps"], top_k=6)["steps"]
    shown = [text.rsplit(" ", 1) for text in page.locator(".alternative").all_inner_texts()]
    assert [text for text, _ in shown] == [
        candidate["text"].strip() or candidate["piece"] for candidate in steps[1]["top"]
    ]
    expected = [math.exp(candidate["logprob"]) for candidate in steps[1]["top"]]
    assert [number(share) for _, share in shown] == pytest.approx(expected, rel=0.06, abs=5.1e-4)
    reading = page.inner_text(".panel:has(.alternatives) .reading")
    assert f"rank {steps[1]['rank']};" in reading
    entropy = re.search(r"entropy ([0-9.e−]+) nats", reading)
    assert entropy is not None
    assert number(entropy[1]) == pytest.approx(steps[1]["entropy_nats"], abs=0.005 + 1e-9)
