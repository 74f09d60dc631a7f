"""The languages of a text: every pair that is translated, detection, and a text in another language than the chosen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.chromium import Watched, choose_pair, pair_of
from tests.serving import Server

pytestmark = pytest.mark.browser

GERMAN = "Ich möchte heute Abend mit meinem Hund ein Bier trinken."
ENGLISH = "The dog would like to drink a beer with me tonight."


def sent(watched: Watched, path: str) -> list[Any]:
    return [body for at, body in watched.sent_requests if at == path]


def alone(watched: Watched, pair: str) -> Any:
    page = watched.goto(f"#translate?view=translate&pair={pair}")
    page.wait_for_selector(".start")
    return page


def test_detection_is_first_and_every_pair_of_languages_can_be_chosen(watched: Watched, served: Server) -> None:
    page = alone(watched, "de.en")
    sources = page.locator("#from option")
    assert sources.first.inner_text() == "Detect language"
    languages = {each["code"]: each["targets"] for each in served.ask("/languages") if each["targets"]}
    assert set(sources.evaluate_all("options => options.map(each => each.value)")) == {"auto", *languages}
    assert "es" in languages["de"]  # by two models
    for code, targets in {**languages, "auto": [*{code for each in languages.values() for code in each}]}.items():
        page.select_option("#from", code)
        offered = page.locator("#to option").evaluate_all("options => options.map(each => each.value)")
        assert sorted(offered) == sorted(targets)
    choose_pair(page, "de.es")
    watched.until("location.hash.includes('pair=de.es')")
    page.reload()
    page.wait_for_selector("#from")
    watched.until("document.getElementById('to').value === 'es'")
    assert pair_of(page) == "de.es"


def test_detected_language_is_named_and_goes_through_two_models(watched: Watched, served: Server) -> None:
    page = alone(watched, "auto.es")
    page.fill("#source", GERMAN)
    page.wait_for_selector("#from option:text-is('Detect language (German)')", state="attached")
    answer = served.ask("/translate", {"q": GERMAN, "source": "auto", "target": "es"})
    assert page.text_content("#target") == answer["translatedText"]
    assert [body["source"] for body in sent(watched, "/translate")] == ["auto"]
    assert page.is_visible(".notices [data-code=pivot]")
    page.click("[data-view=inside]")  # which no single model has
    page.wait_for_selector(".note:has-text('German → Spanish takes two models')")
    assert sent(watched, "/attention") == []
    choose_pair(page, "auto.en")
    page.wait_for_selector(".inside .token")
    assert sent(watched, "/attention")[0]["model"] == "tiny-de-en"
    page.click("nav [data-room=walkthrough]")
    page.wait_for_selector(".card h2")


def test_long_text_is_detected_once(watched: Watched) -> None:
    page = alone(watched, "auto.en")
    page.fill("#source", f"{GERMAN}\n" * 30)
    page.wait_for_selector("#copy:visible")
    assert len(sent(watched, "/detect")) == 1
    assert {body["source"] for body in sent(watched, "/translate")} == {"de"}


def test_other_language_than_the_chosen_is_said_and_changed_by_a_click(watched: Watched) -> None:
    page = alone(watched, "en.es")
    page.fill("#source", GERMAN)
    said = page.locator(".notices [data-code=suspected]")
    said.wait_for()
    assert said.inner_text().startswith("This looks like German, not English.")
    page.click("#language")
    assert "这看起来是德语，不是英语。" in said.inner_text()
    said.locator("button").click()
    assert pair_of(page) == "de.es"
    said.wait_for(state="detached")
    page.wait_for_selector(".notices [data-code=pivot]")
    assert sent(watched, "/translate")[-1]["source"] == "de"


def test_text_in_the_target_language_is_said_without_a_model_for_the_way_back(watched: Watched) -> None:
    page = alone(watched, "de.en")
    page.fill("#source", ENGLISH)
    page.wait_for_selector(".notices [data-code=suspected]")
    said = page.inner_text(".notices [data-code=suspected]")
    assert said == "This looks like English, not German. No model for English → German is loaded here."


def test_who_types_on_at_the_end_of_a_text_has_its_beginning_detected_once(watched: Watched) -> None:
    page = alone(watched, "en.es")
    first = f"{(GERMAN * 4)[:199]}😀 {GERMAN}"  # half of which would be no text
    for text in (first, first + GERMAN):
        with page.expect_response("**/translate"):
            page.fill("#source", text)
        page.wait_for_selector("[data-code=suspected]")
    assert [len(body["q"]) for body in sent(watched, "/detect")] == [200]


@pytest.mark.parametrize(
    ("text", "detections"),
    [
        ("Bier", None),
        ("The end", None),
        ("Anna, Ben 2024", None),
        (GERMAN, [{"language": "de", "confidence": 99.0}]),
        (GERMAN, [{"language": "de-AT", "confidence": 99.0}]),
        (GERMAN, [{"language": "nl", "confidence": 61.0}, {"language": "de", "confidence": 38.0}]),
        (GERMAN, None),
    ],
)
def test_short_or_doubtful_text_is_not_suspected(watched: Watched, text: str, detections: Any) -> None:
    page = alone(watched, "de.en")
    if detections:
        page.route("**/detect", lambda route: route.fulfill(json=detections))
    page.fill("#source", text)
    page.wait_for_selector("#copy:visible")
    page.wait_for_load_state("networkidle")
    assert len(sent(watched, "/detect")) == (text == GERMAN)
    assert page.locator("[data-code=suspected]").count() == 0
