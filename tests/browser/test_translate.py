"""The Translate room: typed text is translated, and every view shows the same selection."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.chromium import Watched, choose_pair, pair_of
from tests.serving import Server

pytestmark = pytest.mark.browser

TEXT = "ich möchte ein bier"


def fields(described: dict[str, Any], name: str) -> dict[str, Any]:
    result: dict[str, Any] = described["components"]["schemas"][name]["properties"]
    return result


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def needs(there: bool, what: str) -> None:
    if not there:
        pytest.fail(f"this server does not say in /openapi.json that it has {what}, and the page would leave it out")


def test_first_paint_requests_only_the_page(watched: Watched) -> None:
    page = watched.goto()
    page.wait_for_selector(".example")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted > 0
    paths = {path for path, _ in watched.sent_requests}
    assert {path for path in paths if not path.startswith("/assets/")} == {
        "/",
        "/models",
        "/languages",
        "/openapi.json",
        "/frontend/settings",
    }
    assert [each.inner_text() for each in page.query_selector_all(".example")] == [
        "Ich möchte ein Bier.",
        "Der Hund sieht die roten Äpfel.",
        "Wo ist der Bahnhof?",
    ]


def test_example_needs_one_stream_and_one_attention_request(watched: Watched, served: Server) -> None:
    page = watched.goto()
    page.wait_for_selector(".example")
    example = page.inner_text(".example >> nth=0")
    page.click(".example >> nth=0")
    page.wait_for_selector(".token")
    answer = served.ask("/translate", {"q": example, "source": "de", "target": "en"})
    assert page.inner_text("#target").strip() == answer["translatedText"].strip()
    requests = [(path, body) for path, body in watched.sent_requests if path in ("/translate", "/attention")]
    assert [path for path, _ in requests] == ["/translate", "/attention"]
    assert (requests[0][1]["q"], requests[0][1]["stream"]) == (example, True)
    assert requests[1][1]["source"] == example


def test_typing_sends_one_request_after_a_pause(watched: Watched) -> None:
    page = watched.goto()
    page.wait_for_selector(".example")
    page.evaluate(
        """() => {
          const field = document.getElementById('source');
          for (const text of ['d', 'der', 'der h', 'der hund']) {
            field.value = text;
            field.dispatchEvent(new Event('input'));
          }
        }"""
    )
    page.wait_for_selector(".token")
    assert [body["q"] for path, body in watched.sent_requests if path == "/translate"] == ["der hund"]


def test_outdated_request_is_aborted(watched: Watched) -> None:
    page = watched.goto()
    page.wait_for_selector(".example")
    held: list[Any] = []
    page.route("**/translate", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/translate"):
        page.fill("#source", "der hund")
    with page.expect_event("requestfailed") as given_up:
        page.fill("#source", TEXT)
    assert given_up.value.post_data_json["q"] == "der hund"
    assert "ERR_ABORTED" in given_up.value.failure
    page.wait_for_selector(".token")
    assert page.locator(".token[data-side=s]").first.inner_text() == "ich"
    assert page.locator(".problem:not(:empty)").count() == 0


def test_hover_previews_click_locks_and_escape_releases(watched: Watched) -> None:
    page = watched.translated(TEXT)
    page.hover('.token[data-side="s"] >> nth=1')
    page.wait_for_selector('.token[data-side="s"][data-index="1"].active')
    assert page.locator(".mirror .active").inner_text() == "möchte"
    assert page.locator(".token.locked").count() == 0
    page.click('.token[data-side="s"] >> nth=2')
    page.hover(".panel h2 >> nth=0")
    assert page.locator(".mirror .locked").inner_text() == "ein"
    watched.until("location.hash.includes('s=2')")
    page.keyboard.press("Escape")
    watched.until("!location.hash.includes('s=')")
    assert page.locator(".locked").count() == 0


def test_link_restores_text_head_and_selection(watched: Watched) -> None:
    page = watched.goto("#translate?pair=de.en&text=der+hund&layer=1&head=2&s=1&t=0&row=true")
    page.wait_for_selector(".token.locked")
    assert page.input_value("#source") == "der hund"
    assert page.is_checked("#row")
    assert page.locator('.token[data-side="s"].locked').get_attribute("data-index") == "1"
    assert page.locator('.token[data-side="t"].locked').get_attribute("data-index") == "0"
    assert "layer 1, head 2" in page.inner_text(".panel:has(#kind) h2")
    assert "weight ÷ largest of its row" in page.inner_text(".panel:has(#kind) .legend")


def test_map_shows_the_weights_of_the_api(watched: Watched, served: Server) -> None:
    page = watched.translated(TEXT)
    page.goto(f"{served.base}/#translate?pair=de.en&text=ich+m%C3%B6chte+ein+bier&layer=1&head=2&s=1&t=0")
    page.reload()
    page.wait_for_selector(".token.locked")
    sentence = re.search(r"with weight ([0-9.e−]*[0-9])\.", page.inner_text(".panel:has(#kind) .reading"))
    body = {"source": TEXT, "model": "tiny-de-en", "kinds": ["cross"], "layers": [1], "heads": [2]}
    weights = served.ask("/attention", body)["attention"]["cross"]["weights"]
    assert sentence is not None
    assert number(sentence[1]) == pytest.approx(weights[0][0][0][1], abs=1e-4)


def test_every_kind_of_attention_can_be_seen(watched: Watched) -> None:
    page = watched.translated(TEXT)
    for kind, rows in (("encoder", "ich"), ("decoder", "<s>")):
        page.select_option("#kind", kind)
        page.click(".panel:has(#kind) summary")
        # until the maps of this kind arrive, the table holds the previous kind
        expect(page.locator(".panel:has(#kind) tbody th").first).to_have_text(rows)
        page.click(".panel:has(#kind) summary")


def test_api_refusal_is_shown_beside_its_field(watched: Watched) -> None:
    watched.refused.add(422)
    page = watched.goto()
    page.wait_for_selector(".example")
    page.fill("#source", "ich möchte ein bier " * 20)
    problem = page.locator(".pane .problem")
    problem.wait_for()
    assert "81 tokens" in problem.inner_text() or "takes 32" in problem.inner_text()
    problem.locator("button").click()
    page.wait_for_selector(".token")
    assert page.input_value("#source").startswith("ich möchte ein bier")
    assert len(page.input_value("#source")) < 20 * 20


def test_beam_says_what_the_server_takes_by_default(watched: Watched, served: Server) -> None:
    page = watched.translated(TEXT)
    usual = served.ask("/frontend/settings")["beamSize"]
    names = page.locator("#beam option").all_inner_texts()
    assert names == [f"{usual} (server default)", "1 (greedy)", "2", "4", "8"]


def test_unknown_pair_is_shown_beside_the_languages(watched: Watched) -> None:
    watched.refused.add(400)
    page = watched.goto("#translate?pair=de.fr&text=der+hund")
    problem = page.locator(".top .problem:not(:empty)")
    problem.wait_for()
    assert problem.inner_text().startswith("There is no model for de → fr here. Loaded pairs: de → en")
    assert pair_of(page) == "de.fr"
    choose_pair(page, "de.en")
    page.wait_for_selector(".token")
    assert page.locator(".problem:not(:empty)").count() == 0


def test_refusal_stays_when_the_api_description_comes_after_it(watched: Watched) -> None:
    held: list[Any] = []
    watched.page.route("**/openapi.json", lambda route: held.append(route))
    watched.refused |= {404}
    page = watched.goto("#translate?pair=de.en&model=nobody&text=der+hund")
    problem = page.locator(".top .problem:not(:empty)")
    problem.wait_for()
    with page.expect_response("**/openapi.json"):
        held[0].continue_()
    page.click("#theme")  # drawn again after the description has come
    assert "nobody" in problem.inner_text()


def test_unreachable_server_shows_a_sentence(watched: Watched) -> None:
    page = watched.translated(TEXT)
    page.route("**/translate", lambda route: route.abort())
    page.fill("#source", "der hund")
    page.wait_for_selector(".pane .problem:not(:empty)")
    assert page.inner_text(".pane .problem").startswith("The server does not answer.")
    assert watched.errors and all("net::ERR_FAILED" in error for error in watched.errors)
    watched.errors.clear()


def test_head_is_ablated(watched: Watched, served: Server, described: dict[str, Any]) -> None:
    needs("mask_heads" in fields(described, "AttentionRequest"), "ablation")
    page = watched.translated(TEXT)
    page.goto(f"{served.base}/#translate?pair=de.en&text=ich+m%C3%B6chte+ein+bier&layer=1&head=2")
    page.reload()
    page.wait_for_selector(".without .reading")
    choice = {"kind": "cross", "layer": 1, "head": 2}
    result = served.ask("/attention", {"source": TEXT, "model": "tiny-de-en", "mask_heads": [choice]})["ablation"]
    change = result["logprob_sum_after"] - result["logprob_sum_before"]
    sentence = re.search(r"changes by ([+−0-9.e]+) nats", page.inner_text(".without"))
    assert sentence is not None
    assert number(sentence[1]) == pytest.approx(change, abs=0.006)


def test_forced_alternative_is_continued(watched: Watched, described: dict[str, Any]) -> None:
    needs({"top_k", "prefix"} <= set(fields(described, "AttentionRequest")), "alternatives that can be forced")
    page = watched.translated(TEXT)
    page.click('.token[data-side="t"] >> nth=0')
    alternative = page.locator(".alternative:not([disabled])").first
    word = alternative.inner_text().split(" ")[0]
    alternative.click()
    watched.until("location.hash.includes('forced=')")
    page.wait_for_selector(".inside:not(.stale) .token")
    assert page.inner_text("#target").startswith(word)
    page.click("text=Let it choose")
    watched.until("!location.hash.includes('forced=')")


def test_attention_row_shows_its_softmax_and_weights(watched: Watched, described: dict[str, Any]) -> None:
    needs("qk" in fields(described, "AttentionRequest"), "worked rows")
    page = watched.goto("#translate?pair=de.en&text=ich+m%C3%B6chte+ein+bier&layer=1&head=2&s=1&t=0")
    page.wait_for_selector("th:has-text('softmax')")
    row = page.locator("tr:has(th:text-is('softmax')) td").all_inner_texts()
    assert sum(number(each) for each in row) == pytest.approx(1, abs=1e-3)
    reading = re.search(r"with weight ([0-9.e−]*[0-9])\.", page.inner_text(".panel:has(#kind) .reading"))
    assert reading is not None
    assert number(reading[1]) == pytest.approx(number(row[1]), abs=2e-4)


def test_source_words_are_left_out(watched: Watched, served: Server, described: dict[str, Any]) -> None:
    needs("/score" in described["paths"], "scores of given translations")
    page = watched.translated(TEXT)
    page.click("text=Leave out each word")
    watched.until(
        "document.querySelectorAll('.bars li').length === 4 && !document.querySelector('.bars').innerText.includes('…')"
    )
    target = page.inner_text("#target")
    scores = [
        served.ask("/score", {"source": source, "target": target, "model": "tiny-de-en"})["logprob"]
        for source in (TEXT, "möchte ein bier")
    ]
    shown = number(page.inner_text(".bars li >> nth=0").split("\n")[-1])
    assert shown == pytest.approx(scores[1] - scores[0], abs=0.006)
