"""A browser that has never been here: a translation alone, what the page is, and a tour of the attention view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.chromium import Watched, pair_of
from tests.serving import Server

pytestmark = pytest.mark.browser

TEXT = "ich möchte ein bier"
STEPS = ["Two texts", "Which word", "Every weight", "The heads", "What else"]


@pytest.fixture
def visitor(chromium: Any, served: Server) -> Iterator[Watched]:
    with Watched.opened(chromium, served.base, kept={}, viewport={"width": 1120, "height": 800}) as page:
        yield page
        page.clean()


def paths(watched: Watched) -> list[str]:
    return [path for path, _ in watched.sent_requests if path in ("/translate", "/attention")]


def test_translation_alone_until_the_inside_is_chosen(visitor: Watched, served: Server) -> None:
    page = visitor.goto()
    page.wait_for_selector(".example")
    page.fill("#source", TEXT)
    page.wait_for_selector("#copy:visible")
    expected = served.ask("/translate", {"q": TEXT, "source": "de", "target": "en"})["translatedText"]
    assert page.inner_text("#target") == expected
    assert paths(visitor) == ["/translate"]
    for hidden in (".inside", "#beam", "[data-export=png]", "#tour", ".tour", ".start"):
        assert not page.is_visible(hidden), hidden
    page.click("[data-view=inside]")
    page.wait_for_selector(".inside .token")
    assert paths(visitor) == ["/translate", "/attention"]
    visitor.until("location.hash.includes('view=inside')")
    page.goto(f"{visitor.base}/")  # the choice is kept, and an address has its own
    page.wait_for_selector("[data-view=inside][aria-pressed=true]")
    page.goto(f"{visitor.base}/#translate?view=translate&text=bier")
    page.wait_for_selector("[data-view=translate][aria-pressed=true]")


def test_link_to_a_selection_shows_the_inside(visitor: Watched) -> None:
    page = visitor.goto("#translate?pair=de.en&text=der+hund&s=1&t=0")
    page.wait_for_selector(".token.locked")
    assert page.get_attribute("[data-view=inside]", "aria-pressed") == "true"


def test_empty_page_leads_into_every_room(visitor: Watched) -> None:
    def with_examples(route: Any) -> None:
        models = route.fetch().json()
        demo = {"summary": "It has read songs.", "words": 3, "patterns": 1, "examples": ["分开", "不分"], "way_out": ""}
        route.fulfill(json=[{**model, "demo": demo if model["kind"] == "lyrics" else None} for model in models])

    visitor.page.route("**/models", with_examples)
    page = visitor.goto()
    page.wait_for_selector("[data-door=models] button")
    assert "nowhere else" in page.inner_text(".start")
    doors = page.locator(".door").evaluate_all("doors => doors.map(door => door.dataset.door)")
    assert doors == ["translate", "inside", "lyrics", "walkthrough", "models"]
    page.click("[data-door=translate] .try")  # of the other pair
    visitor.until("location.hash.includes('pair=en.es')")
    page.wait_for_selector("#copy:visible")
    assert not page.is_visible(".start")
    page.click("#clear")
    page.click("[data-door=lyrics] .try >> nth=0")
    page.wait_for_selector("[data-room=lyrics][aria-current=page]")
    assert page.input_value("#prompt") == "分开"
    page.click("main .example >> nth=1")  # the room's own, which writes at once
    page.wait_for_selector("#lyrics .character")
    page.click("nav [data-room=translate]")
    page.click("[data-door=walkthrough] .try")
    page.wait_for_selector(".card h2")


def test_tour_opens_once_walks_by_keys_and_can_be_taken_again(visitor: Watched) -> None:
    page = visitor.goto(f"#translate?view=inside&pair=de.en&text={TEXT.replace(' ', '+')}")
    page.wait_for_selector(".tour h2")
    seen = []
    for at in range(len(STEPS)):
        seen.append((page.inner_text(".tour h2"), page.locator(".toured").get_attribute("class")))
        page.keyboard.press("ArrowRight" if at < 3 else "ArrowLeft" if at == 3 else "Escape")
        if at == 3:  # one back, and two on
            page.keyboard.press("ArrowRight")
            page.keyboard.press("ArrowRight")
    assert [title.split(" · ")[1] for title, _ in seen] == [f"{at} / 5" for at in range(1, 6)]
    assert all(title.startswith(step) for (title, _), step in zip(seen, STEPS, strict=True))
    panels = ("panes", "alignment", "map", "heads", "choices")
    assert all(panel in str(shown).split() for panel, (_, shown) in zip(panels, seen, strict=True))
    assert not page.is_visible(".tour")
    assert page.locator(".active, .toured").count() == 0
    page.reload()
    page.wait_for_selector(".inside .token")
    assert not page.is_visible(".tour")
    page.click("#tour")
    page.click("[data-tour=skip]")
    assert page.evaluate("document.activeElement.id") == "tour"


def test_tour_leaves_the_caret_to_the_text(visitor: Watched) -> None:
    page = visitor.goto("#translate?view=inside&pair=de.en")
    page.fill("#source", "der hund")
    page.wait_for_selector(".tour h2")
    assert page.evaluate("document.activeElement.id") == "source"
    assert page.locator(".token.active").count() >= 1  # a step previews what it speaks of
    for _ in range(4):  # past the buttons of both texts
        page.keyboard.press("Tab")
        if reached := page.evaluate("Boolean(document.activeElement.closest('.tour'))"):
            break
    assert reached
    page.focus("#source")
    page.keyboard.press("Escape")
    assert not page.is_visible(".tour")
    assert page.evaluate("document.activeElement.id") == "source"


def test_address_without_languages_keeps_those_that_are_shown(visitor: Watched, served: Server) -> None:
    page = visitor.goto("#translate?view=translate&pair=en.es&text=the+dog")
    page.wait_for_selector("#copy:visible")
    page.evaluate("location.hash = '#translate?view=inside&text=the+house'")
    page.wait_for_selector(".inside .token")
    assert pair_of(page) == "en.es"
    page.evaluate("location.hash = '#walkthrough?text=the+dog'")
    page.wait_for_selector(".card h2")
    assert pair_of(page) == "en.es"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_is_narrow_and_readable(chromium: Any, served: Server, scheme: str) -> None:
    size = {"width": 360, "height": 720}
    with Watched.opened(chromium, served.base, kept={}, viewport=size, color_scheme=scheme) as watched:
        page = watched.goto()
        page.wait_for_selector("[data-door=models] button")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.evaluate(LEAST_CONTRAST) >= 4.5
        page.click("[data-door=inside] .try")
        page.wait_for_selector(".tour h2")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        box = page.locator(".tour").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360
        assert page.evaluate(LEAST_CONTRAST) >= 4.5
        watched.clean()


# The least contrast (WCAG 2.2, 1.4.3) of a text of the page that is shown and can be used.
LEAST_CONTRAST = """() => {
  const parse = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const texts = [...document.querySelectorAll("body *")].filter((element) => element.checkVisibility()
    && !element.closest(":disabled, .mirror, canvas, svg, .stale")
    && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return Math.min(...texts.map((element) => {
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  }));
}"""
