"""What all rooms share: their addresses, two languages, two themes, narrow screens, little movement."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.chromium import Watched, pair_of
from tests.browser.test_translate import needs
from tests.serving import Server

pytestmark = pytest.mark.browser

ROOMS = ["translate", "lyrics", "walkthrough", "models"]


def test_rooms_are_entries_of_the_browser_history(watched: Watched) -> None:
    page = watched.translated("der hund")
    for room in ROOMS[1:]:
        page.click(f"nav [data-room={room}]")
        page.wait_for_selector(f"[data-room={room}][aria-current=page]")
    page.go_back()
    page.go_back()
    page.wait_for_selector("[data-room=lyrics][aria-current=page]")
    page.go_back()
    page.wait_for_selector(".token")
    assert page.input_value("#source") == "der hund"


def test_every_room_is_translated_and_remembers_the_language(watched: Watched) -> None:
    page = watched.translated("der hund")
    page.click("#language")
    for room in ROOMS:
        page.click(f"nav [data-room={room}]")
        page.wait_for_selector(f"[data-room={room}][aria-current=page]")
        assert any("\u4e00" <= character <= "\u9fff" for character in page.inner_text("main"))
    assert page.get_attribute("html", "lang") == "zh-Hans"
    page.reload()
    page.wait_for_selector("#rooms a")
    assert page.inner_text("[data-room=translate]") == "翻译"


def test_theme_switch_says_what_it_switches(watched: Watched) -> None:
    page = watched.goto()
    names = []
    for _ in range(4):
        names.append(page.inner_text("#theme"))
        page.click("#theme")
    assert names == ["Theme: system", "Theme: light", "Theme: dark", "Theme: system"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_theme_follows_the_system_until_it_is_chosen(chromium: Any, served: Server, scheme: str) -> None:
    with Watched.opened(chromium, served.base, color_scheme=scheme) as watched:
        page = watched.goto()
        ground = "getComputedStyle(document.body).backgroundColor"
        first = page.evaluate(ground)
        assert (first == "rgb(255, 255, 255)") == (scheme == "light")
        page.click("#theme")  # light
        assert page.evaluate(ground) == "rgb(255, 255, 255)"
        page.click("#theme")  # dark
        assert page.evaluate(ground) == "rgb(20, 23, 27)"
        drawn = "import(document.querySelector('script[src]').src.replace('page.js', 'shell/dom.js'))"
        assert page.evaluate(f"{drawn}.then((dom) => dom.ink('--accent'))") == "rgb(120, 180, 240)"  # what canvases use
        page.reload()
        page.wait_for_selector("#rooms a")
        assert page.evaluate(ground) == "rgb(20, 23, 27)"
        watched.clean()


@pytest.mark.parametrize("width", [320, 480])
def test_phone_scrolls_vertically_only(chromium: Any, served: Server, width: int) -> None:
    with Watched.opened(chromium, served.base, viewport={"width": width, "height": 800}) as watched:
        page = watched.translated("ich möchte ein bier der hund schläft wir sehen das haus guten morgen welt")
        for room in ROOMS:
            page.click(f"nav [data-room={room}]")
            page.wait_for_selector(f"[data-room={room}][aria-current=page]")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, room
        watched.clean()


def test_reduced_motion_disables_animations(chromium: Any, served: Server) -> None:
    moving = "[...document.querySelectorAll('.token')].map(e => getComputedStyle(e).transitionDuration)[0]"
    for choice, expected in (("reduce", "0s"), ("no-preference", "0.1s")):
        with Watched.opened(chromium, served.base, reduced_motion=choice) as watched:
            page = watched.translated("der hund")
            assert page.evaluate(moving).split(",")[0] == expected


def test_listed_models_equal_the_api(watched: Watched, served: Server) -> None:
    page = watched.goto("#models")
    page.wait_for_selector(".model")
    assert page.locator(".model h2").all_inner_texts() == [model["name"] for model in served.ask("/models")]
    first = page.inner_text(".model >> nth=0")
    assert "German → English" in first
    assert "cpu" in first
    page.click(".model summary >> nth=0")
    assert "12.3" in page.inner_text(".model >> nth=0")


def test_forward_pass_is_stepped_through(watched: Watched, described: dict[str, Any]) -> None:
    page = watched.goto("#walkthrough?pair=de.en&text=der+hund")
    if "/walkthrough" not in described["paths"]:
        page.wait_for_selector("text=This server does not walk through its models.")
    needs("/walkthrough" in described["paths"], "a walkthrough")
    page.wait_for_selector(".card")
    first = page.inner_text(".card h2")
    page.focus(".card")
    page.keyboard.press("ArrowRight")
    watched.until("location.hash.includes('card=1')")
    assert page.inner_text(".card h2") != first
    assert page.locator(".step[aria-selected=true]").inner_text() == page.inner_text(".card h2")
    assert page.inner_text(".formula")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".card h2") == first


def test_pair_that_somebody_types_into_the_address_is_one_of_those_served(watched: Watched) -> None:
    page = watched.goto("#walkthrough?pair=de-en&text=der+hund")
    page.wait_for_selector(".card")
    assert "undefined" not in page.inner_text(".choice")
    assert "." in pair_of(page)


def test_edited_step_is_shown_without_a_formula(watched: Watched, described: dict[str, Any]) -> None:
    needs("/walkthrough" in described["paths"], "a walkthrough")

    def edited(route: Any) -> None:
        answer = route.fetch().json()
        answer["edits"] = ["FeedForward.forward was edited", *(f"encoder.{n} has a hook" for n in range(4))]
        answer["steps"][0] |= {"formula": None, "why": None, "edited": True}
        route.fulfill(json=answer)

    watched.page.route("**/walkthrough", edited)
    page = watched.goto("#walkthrough?pair=de.en&text=der+hund")
    page.wait_for_selector(".card")
    note = page.inner_text(".edits")
    assert "FeedForward.forward was edited; encoder.0 has a hook; encoder.1 has a hook; … (+2)" in note
    assert page.locator(".card .formula").count() == 0
    assert "This step was edited" in page.inner_text(".card")
    page.focus(".card")
    page.keyboard.press("ArrowRight")
    watched.until("location.hash.includes('card=1')")
    assert page.inner_text(".card .formula")
    assert "This step was edited" not in page.inner_text(".card")


def test_unedited_network_has_no_note_of_edits(watched: Watched, described: dict[str, Any]) -> None:
    needs("/walkthrough" in described["paths"], "a walkthrough")
    page = watched.goto("#walkthrough?pair=de.en&text=der+hund")
    page.wait_for_selector(".card")
    assert page.inner_text(".edits") == ""
    assert page.is_hidden(".edits")
