"""The Chinese page is Chinese in all of its rooms: no English words but names, data and terms of the field."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.browser.chromium import SETTLED, Watched
from tests.serving import Server

pytestmark = pytest.mark.browser

# What is shown, and what is read aloud or shown on hovering.
TEXTS = """(data) => {
  const found = [document.title];
  for (const element of document.querySelectorAll("header, header *, main, main *, #live, dialog, dialog *, .skip")) {
    if (element.closest(data) || !(element.checkVisibility() || element.closest("option, #live, .skip"))) continue;
    for (const name of ["title", "aria-label", "placeholder", "alt"]) found.push(element.getAttribute(name));
    for (const node of element.childNodes) if (node.nodeType === 3) found.push(node.data);
  }
  return found.filter((text) => text?.trim());
}"""
# Texts of people and models, tokens, numbers' names, commands, formulas, and the API's sentence after a Chinese one.
DATA = (
    "#source, #target, .mirror, .token, .word, .place, .example, .try, .examples button, #lyrics, .model h2, #model,"
    " #writer, thead th, tbody th, .focus-grid, code, .bars, .meter, .types, .unknown, #types, q[lang=en],"
    " .training text, .name"
)
NAMES = {
    *(
        "Parlance",
        "API",
        "English",
        "PNG",
        "SVG",
        "CSV",
        "JSON",
        "GET",
        "Hugging",
        "Face",
        "Helsinki-NLP",
        "opus-mt-de-en",
    ),
    *("de-en", "PyTorch", "GRU", "gru", "LSTM", "Elman", "transformer", "recurrent", "cpu", "fp", "int", "softmax"),
    *(
        "logits",
        "tanh",
        "BLEU",
        "bleu",
        "top-k",
        "top",
        "Esc",
        "tiny-de-en",
        "tiny-en-es",
        "tiny-tutorial",
        "tiny-lyrics",
    ),
    *("tiny-en-x-tutorial", "nrefs", "case", "mixed", "tok", "eff", "smooth", "exp", "version", "models"),
    *("LayerNorm", "RMSNorm", "PE", "sum", "relu", "gelu", "silu"),  # in formulas
}
WORD = re.compile(r"[A-Za-z][A-Za-z-]+")
QUOTED = re.compile(r"“[^”]*”|\.[a-z]{2,4}\b")  # tokens within a sentence, and the endings of files


def english_words(page: Any, data: str = DATA) -> set[str]:
    texts: list[str] = page.evaluate(TEXTS, data)
    return {word for text in texts for word in WORD.findall(QUOTED.sub("", text))} - NAMES


@pytest.fixture
def chinese(chromium: Any, served: Server) -> Any:
    with Watched.opened(chromium, served.base, kept={**SETTLED, "language": "zh"}) as watched:
        yield watched
        watched.clean()


def test_the_search_finds_english(watched: Watched) -> None:
    page = watched.goto("#translate?view=translate&pair=de.en")
    page.wait_for_selector(".start")
    assert {"Translate", "Source", "Type", "Theme", "No", "Rooms", "German", "Skip"} <= english_words(page)


def test_translate_is_chinese(chinese: Watched) -> None:
    page = chinese.goto("#translate?view=translate&pair=de.en")
    page.wait_for_selector(".start")
    page.wait_for_load_state("networkidle")
    assert english_words(page) == set()
    page.fill("#source", "ich möchte 𝔘nd bier mit dem hund")
    page.wait_for_selector(".notices li")
    page.click("[data-view=inside]")
    page.wait_for_selector(".inside .token")
    page.click('.token[data-side="s"] >> nth=1')
    page.click('.token[data-side="t"] >> nth=0')
    page.locator(".heads [role=gridcell]").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".without .reading")
    page.wait_for_selector("th:has-text('softmax')")
    page.click("text=逐词去掉")
    page.wait_for_selector(".bars li")
    for kind in ("encoder", "decoder", "rollout", "cross"):
        page.select_option("#kind", kind)
        assert english_words(page) == set(), kind


def test_tour_and_detection_are_chinese(chinese: Watched) -> None:
    page = chinese.goto("#translate?view=inside&pair=auto.en")
    page.fill("#source", "ich möchte ein bier der hund schläft")
    page.wait_for_selector(".inside .token")
    page.click("#tour")
    for _ in range(5):
        assert english_words(page) == set()
        page.keyboard.press("ArrowRight")


def test_lyrics_are_chinese(chinese: Watched) -> None:
    page = chinese.goto("#lyrics?length=12&seed=7")
    page.wait_for_selector("#writer option", state="attached")
    assert english_words(page) == set()
    page.fill("#prompt", "分开")
    page.click("#write:not([disabled])")
    page.wait_for_selector(".strip figure")
    page.hover(".character >> nth=3")
    assert english_words(page) == set()


def test_every_card_of_the_walkthrough_is_chinese(chinese: Watched) -> None:
    page = chinese.goto("#walkthrough?pair=de.en&text=der+hund&wLayer=1")
    page.wait_for_selector(".card h2")
    for side in ("encoder", "decoder"):
        with page.expect_response("**/walkthrough"):
            page.select_option("#side", side)
        page.wait_for_load_state("networkidle")
        for at in range(page.locator(".step").count()):
            page.locator(".step").nth(at).click()
            assert english_words(page) == set(), at


def test_models_are_chinese(chinese: Watched) -> None:
    def more(route: Any) -> None:
        first, second, *others = route.fetch().json()
        reason = "kernels in C, int8: it is exactly the network that our kernels compute; no vocabulary shortlist: an"
        first["precision_reason"] = f"{reason} output matrix of 1,216 × 128 gains nothing from a shortlist"
        demo = {"summary": "It has read it.", "words": 12, "patterns": 3, "examples": ["hallo"]}
        first["demo"] = {**demo, "way_out": "For real use: make serve MODEL=de-en"}
        second["precision_reason"] = "PyTorch, fp32: a clause of some later version"
        second["language_pairs"] = first["language_pairs"]
        scores = {"validation (greedy)": {"bleu": 1.5, "nats_per_token": 2.5, "sentences": 3, "signature": "nrefs:1"}}
        second["scores"] = {**scores, "training text, last epoch": {"nats_per_character": 1.5}}
        route.fulfill(json=[first, second, *others])

    def settings(route: Any) -> None:
        route.fulfill(json={**route.fetch().json(), "modelChanges": "allowed"})

    chinese.page.route("**/models", more)
    chinese.page.route("**/frontend/settings", settings)
    page = chinese.goto("#models")
    page.wait_for_selector(".training svg")
    page.wait_for_selector("button:visible >> text=/^导入$/")
    for summary in page.locator(".model summary").all():
        summary.click()
    assert english_words(page) == set()
    quoted = page.locator("main q[lang=en]").all_inner_texts()
    assert "PyTorch, fp32: a clause of some later version" in quoted
    assert not any("kernels in C" in text or "has read" in text for text in quoted)


def test_refusal_is_explained_in_chinese_before_the_servers_own_sentence(chinese: Watched) -> None:
    chinese.refused.update({400, 422})
    page = chinese.goto("#translate?pair=de.fr&text=der+hund")
    problem = page.locator(".top .problem:not(:empty)")
    problem.wait_for()
    assert problem.inner_text().startswith("这里没有翻译这两种语言的模型。")
    assert problem.locator("q[lang=en]").inner_text().startswith("There is no model for de → fr here.")
    assert english_words(page) == set()
    page.click("#language")
    assert problem.inner_text().startswith("There is no model for de → fr here.")
    page.click("#language")
    page.goto(f"{chinese.base}/#translate?pair=de.en&text={'ich+m%C3%B6chte+ein+bier+' * 20}")
    problem = page.locator(".pane .problem:not(:empty)")
    problem.wait_for()
    assert problem.inner_text().startswith("文字太长")
    assert problem.locator("button").inner_text().startswith("只留下")


def test_key_dialog_is_chinese(chinese: Watched) -> None:
    chinese.refused.add(401)
    refusal = {"status": 401, "json": {"error": "This server needs an API key.", "code": "key_missing"}}
    chinese.page.route("**/models", lambda route: route.fulfill(**refusal))
    page = chinese.goto()
    page.wait_for_selector("dialog")
    assert english_words(page) == set()
