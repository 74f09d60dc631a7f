"""What the API says about a translation and about a model that comes with Parlance, in words and marks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser.chromium import Watched, choose_pair

pytestmark = pytest.mark.browser

DEMO = {
    "summary": "It knows 12 German words.",
    "words": 1234,
    "patterns": 56,
    "examples": ["guten morgen welt", "der hund schläft"],
    "way_out": "For real texts: `make serve MODEL=de-en`.",
}


def answer_with(page: Any, *notices: dict[str, Any], text: str = "one two one two") -> None:
    done = json.dumps({"translatedText": text, "notices": notices, "timing": {"total_ms": 1}})
    body = f"event: done\ndata: {done}\n\n"
    page.route("**/translate", lambda route: route.fulfill(content_type="text/event-stream", body=body))


def with_demo(route: Any) -> None:
    models = route.fetch().json()
    route.fulfill(json=[{**model, "demo": DEMO if model["name"] == "tiny-de-en" else None} for model in models])


def test_word_that_the_model_cannot_read_is_marked_and_chosen(watched: Watched) -> None:
    page = watched.translated("der hund 𝔘nd bier")
    place = page.locator("[data-code=unknown_words] .place")
    assert place.all_inner_texts() == ["𝔘nd"]
    assert page.locator(".mirror .unknown").all_inner_texts() == ["𝔘nd"]
    place.click()
    selected = (
        "(field => field.value.slice(field.selectionStart, field.selectionEnd))(document.getElementById('source'))"
    )
    assert page.evaluate(selected) == "𝔘nd"
    assert page.locator(".token[data-side=s].locked").get_attribute("data-index") == "2"
    page.press("#source", "End")
    page.keyboard.type("e")  # another text: nothing of the old one stays
    assert page.locator(".notices:visible, .mirror .unknown, .locked").count() == 0
    page.click("[data-view=translate]")
    page.wait_for_selector(".mirror .unknown")


def test_unknown_words_are_no_spelling_errors_and_have_a_legend(watched: Watched) -> None:
    page = watched.translated("der hund 𝔘nd bier")
    style = "(e => (s => [s.textDecorationLine, s.outlineStyle, s.outlineColor])(getComputedStyle(e)))"
    line, outline, colour = page.evaluate(f"{style}(document.querySelector('.mirror .unknown'))")
    red = page.evaluate("getComputedStyle(document.querySelector('.problem')).color")
    assert (line, outline) == ("none", "dashed")
    assert colour != red
    legend = page.locator("#unknown-words > span.unknown")
    assert legend.evaluate(style) == [line, outline, colour]
    assert "does not know, marked so" in page.inner_text("#unknown-words")
    assert "unknown-words" in page.get_attribute("#source", "aria-describedby").split()


def test_other_notices_are_sentences_in_both_languages(watched: Watched) -> None:
    notices = [
        {"code": "repetition", "message": "This translation repeats itself.", "start": 0, "end": 8},
        {"code": "low_probability", "message": "The model is unsure.", "start": 10, "end": 14},
        {"code": "already_in_target_language", "message": "This is English already."},
        {"code": "pivot", "message": "By way of English.", "models": ["de-en", "en-fr"]},
        {"code": "later", "message": "A sentence of a later version."},
    ]
    page = watched.goto("#translate?view=translate&pair=de.en")
    answer_with(page, *notices)
    page.fill("#source", "der hund. bier")
    page.wait_for_selector(".notices li")
    assert page.locator(".notices li > span").all_inner_texts() == [notice["message"] for notice in notices]
    assert page.locator(".notices .place").all_inner_texts() == ["der hund", "bier"]
    page.click("#language")
    shown = page.locator(".notices li > span").all_inner_texts()
    assert "de-en → en-fr" in shown[3]
    assert all(any(character >= "\u4e00" for character in sentence) for sentence in shown[:4])
    assert shown[4] == f"服务器的原话： {notices[4]['message']}"


def test_translation_at_the_token_limit_is_said_to_be_cut(watched: Watched) -> None:
    page = watched.goto("#translate?view=translate&pair=de.en")
    done = json.dumps({"translatedText": "a b", "finishReason": "length"})
    body = f"event: done\ndata: {done}\n\n"
    page.route("**/translate", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    page.fill("#source", "der hund")
    page.wait_for_selector("[data-code=length]")
    assert "cut off" in page.inner_text(".notices")


def test_demo_says_what_it_knows_and_is_hidden_for_good(watched: Watched) -> None:
    watched.page.route("**/models", with_demo)
    page = watched.goto("#translate?view=translate&pair=de.en")
    page.wait_for_selector(".demo")
    banner = page.inner_text(".demo")
    for part in ("This model comes with Parlance. It knows 12 German words.", "make serve MODEL=de-en"):
        assert str(part) in banner
    assert page.inner_text(".demo code") == "make serve MODEL=de-en"
    assert page.locator(".example").all_inner_texts()[:2] == DEMO["examples"]
    page.click(".example >> nth=0")
    page.wait_for_selector(".demo .try")
    page.click(".demo .try >> nth=1")
    watched.until("document.getElementById('source').value === 'der hund schläft'")
    choose_pair(page, "en.es")
    page.wait_for_selector(".demo", state="hidden")
    choose_pair(page, "de.en")
    page.click("text=Hide")
    assert "12 German words" not in page.inner_text(".demo")
    page.reload()
    page.wait_for_selector(".demo")
    assert "12 German words" not in page.inner_text(".demo")
    page.click("text=What does it know?")
    assert "12 German words" in page.inner_text(".demo")
    page.click("nav [data-room=models]")
    page.click(".model .demo .try >> nth=0")
    page.wait_for_selector("[data-room=translate][aria-current=page]")
    assert page.input_value("#source") == "guten morgen welt"
