"""Long texts in parts, files, and what one does with a translation: copy it, swap the languages, hear it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.documents.readers import READERS
from tests.browser.chromium import Watched, choose_pair, pair_of
from tests.serving import Server

pytestmark = pytest.mark.browser

LINES = ["der hund schläft", "", "  ich möchte ein bier", "wir sehen das haus", "guten morgen welt"] * 24
LONG = "\n".join(f"{line} {at}" if line else "" for at, line in enumerate(LINES))
CHANGED = LONG.replace("bier 7\n", "hund\n")
DROP = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  for (const type of ["dragover", "drop"]) {
    document.querySelector(".translating").dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true }));
  }
}"""
DRAGGED = """() => {
  const data = new DataTransfer();
  data.items.add(new File(["x"], "x.txt"));
  const event = new DragEvent("dragover", { dataTransfer: data, bubbles: true });
  document.querySelector(".translating").dispatchEvent(event);
}"""
VOICES = """
const voice = (name, lang, localService) => ({ name, lang, localService, default: false, voiceURI: name });
const said = [];
const synthesis = {
  getVoices: () => [voice("Anna", "de-DE", true), voice("Far", "en-US", false), voice("Alba", "en_GB", true),
    voice("Bob", "en-US", true)],
  speak: (utterance) => said.push(utterance),
  cancel: () => { said.length = 0; },
};
Object.defineProperty(window, "speechSynthesis", { value: synthesis });
window.SpeechSynthesisUtterance = class extends EventTarget {
  constructor(text) { super(); this.text = text; }
};
window.said = said;
"""
GO_ON = """() => {
  const button = document.querySelector(".parts button");
  button.focus();
  button.click();
  const visible = (selector) => document.querySelector(selector).checkVisibility();
  return [document.activeElement === button, visible(".parts"), visible("#copy")];
}"""


def alone(watched: Watched) -> Any:
    page = watched.goto("#translate?view=translate&pair=de.en")
    page.wait_for_selector("#choose:visible")
    return page


def sent(watched: Watched) -> list[str]:
    bodies = [body for path, body in watched.sent_requests if path == "/translate"]
    return [line for body in bodies for line in body["q"]]


def test_long_text_is_whole_and_a_change_sends_its_line_alone(watched: Watched, served: Server) -> None:
    page = alone(watched)
    page.fill("#source", LONG)
    page.wait_for_selector("#copy:visible")
    expected = served.ask("/translate", {"q": LONG, "source": "de", "target": "en"})["translatedText"]
    assert page.text_content("#target") == expected
    assert sorted(sent(watched)) == sorted(line.strip() for line in LONG.split("\n") if line.strip())
    assert page.inner_text("#count") == f"{len(LONG):,} / 100,000 characters, sent in parts"
    watched.sent_requests.clear()
    with page.expect_response("**/translate"):
        page.fill("#source", CHANGED)
    page.wait_for_selector("#copy:visible")
    assert sent(watched) == ["ich möchte ein hund"]
    watched.until("history.state?.text.length > 1000")  # too long for a link, and there after a reload
    assert "text=" not in page.evaluate("location.hash")
    page.reload()
    page.wait_for_selector("#copy:visible")
    assert page.input_value("#source") == CHANGED


@pytest.mark.parametrize("view", ["translate", "inside"])
def test_source_and_translation_scroll_together(watched: Watched, view: str) -> None:
    page = watched.goto(f"#translate?view={view}&pair=de.en")
    body = json.dumps({"translatedText": "a line\n" * 150, "timing": {"total_ms": 1}})
    answer = {"content_type": "text/event-stream", "body": f"event: done\ndata: {body}\n\n"}
    page.route("**/translate", lambda route: route.fulfill(**answer))
    page.route("**/attention", lambda route: route.abort())
    page.fill("#source", "ein\n" * 80)
    watched.until("document.getElementById('target').textContent.length > 100")
    share = "(id => (e => e.scrollTop / (e.scrollHeight - e.clientHeight))(document.getElementById(id)))('{}')"
    for lead, follower, place in (("source", "target", 0.5), ("target", "source", 1), ("source", "target", 0.2)):
        page.evaluate(
            "([id, place]) => { const e = document.getElementById(id);"
            " e.scrollTop = place * (e.scrollHeight - e.clientHeight); }",
            [lead, place],
        )
        watched.until(f"Math.abs({share.format(follower)} - {place}) < 0.03")
        assert page.evaluate(share.format(lead)) == pytest.approx(place, abs=0.03)  # and is not drawn back
    watched.errors.clear()  # of the attention that was not to be had


def test_file_is_not_offered_where_the_server_takes_none(watched: Watched) -> None:
    none = {"filesTranslation": False, "supportedFilesFormat": []}
    watched.page.route("**/frontend/settings", lambda route: route.fulfill(json={**route.fetch().json(), **none}))
    page = watched.goto("#translate?view=translate&pair=de.en")
    page.wait_for_load_state("networkidle")
    assert not page.is_visible("#choose")
    page.evaluate(DRAGGED)
    assert not page.is_visible(".veil")


def test_long_text_says_where_it_stopped_and_goes_on(watched: Watched, served: Server) -> None:
    page = alone(watched)
    failing = True

    def route(route: Any) -> None:
        if failing and "guten morgen welt 44" in route.request.post_data_json["q"]:
            route.fulfill(status=500, json={"error": "The device process ended; try again.", "code": "x"})
        else:
            route.continue_()

    page.route("**/translate", route)
    watched.refused.add(500)
    page.fill("#source", LONG)
    page.wait_for_selector(".pane .problem:not(:empty)")
    assert page.inner_text(".pane .problem") == "The device process ended; try again."
    assert page.inner_text(".parts .caption").startswith("Stopped at ")
    value = page.locator(".parts progress").evaluate("bar => bar.value")
    assert 0 < value < 1
    failing = False
    assert page.evaluate(GO_ON) == [True, True, False]
    page.wait_for_selector("#copy:visible")
    watched.until("!document.querySelector('.parts').checkVisibility()")
    expected = served.ask("/translate", {"q": LONG, "source": "de", "target": "en"})["translatedText"]
    assert page.text_content("#target") == expected
    assert len(sent(watched)) < 2 * len([line for line in LINES if line])


def test_dropped_file_is_saved_under_its_own_name(watched: Watched, served: Server) -> None:
    page = alone(watched)
    assert page.inner_text("#types") == " ".join(READERS)
    page.evaluate(DROP, ["a letter.txt", "der hund schläft\n\nich möchte ein bier\n"])
    page.wait_for_selector(".uploads a.action")
    with page.expect_download() as download:
        page.click(".uploads a.action")
    assert download.value.suggested_filename == "a letter.en.txt"
    one, two = served.ask(
        "/translate", {"q": ["der hund schläft", "ich möchte ein bier"], "source": "de", "target": "en"}
    )["translatedText"]
    assert download.value.path().read_text() == f"{one}\n\n{two}\n"
    page.evaluate(DROP, ["photo.jpg", "x"])
    assert ".docx" in page.inner_text(".uploads li >> nth=1")
    watched.refused.add(400)
    page.evaluate(DROP, ["broken.docx", "x"])
    page.wait_for_selector(".uploads li:nth-child(3) .problem")
    for _ in range(3):
        page.click(".uploads button >> nth=0")
    assert page.locator(".uploads li").count() == 0


DROP_MANY = """(names) => {
  const data = new DataTransfer();
  names.forEach((name) => data.items.add(new File([`der hund ${name}`], name)));
  document.querySelector(".translating").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }));
}"""
MISSED = """() => {
  const data = new DataTransfer();
  data.items.add(new File(["x"], "x.txt"));
  return ["dragover", "drop"].map((type) => !document.getElementById("rooms").dispatchEvent(
    new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true })));
}"""


def test_many_files_take_turns_in_the_languages_of_their_drop(watched: Watched) -> None:
    held: list[Any] = []
    page = alone(watched)
    page.route("**/translate_file", lambda route: held.append(route))
    page.evaluate(DROP_MANY, ["1.txt", "2.txt", "x.jpg", "3.txt", "4.txt", "5.txt"])
    choose_pair(page, "en.es")
    page.wait_for_timeout(500)
    assert len(held) == 3
    states = page.locator(".uploads li").all_inner_texts()
    assert [("Translating" in state, "Waiting" in state) for state in states] == [
        (True, False), (True, False), (False, False), (True, False), (False, True), (False, True)
    ]  # fmt: skip
    assert page.locator(".uploads [role=alert]:has-text('x.jpg: Files of this type')").count() == 1  # read aloud
    page.locator(".uploads button >> nth=4").click()  # the fourth file is taken back
    for route in held[:]:
        route.continue_()
    page.unroute("**/translate_file")
    shown = "[...document.querySelectorAll('.uploads a.action')].filter(link => link.checkVisibility())"
    watched.until(f"{shown}.length === 4")
    saved = page.locator(".uploads a.action:visible").all_inner_texts()
    assert saved == [f"Save {at}.en.txt" for at in (1, 2, 3, 5)]


def test_file_that_misses_the_room_does_not_replace_the_page(watched: Watched) -> None:
    page = alone(watched)
    assert page.evaluate(MISSED) == [True, True]
    page.click("nav [data-room=lyrics]")
    assert page.evaluate(MISSED) == [True, True]


def test_translation_is_copied_and_the_languages_are_swapped(watched: Watched) -> None:
    pairs = [{"source": "de", "target": "en"}, {"source": "en", "target": "de"}]

    def both_ways(route: Any) -> None:
        route.fulfill(json=[{**model, "language_pairs": pairs} for model in route.fetch().json()[:1]])

    page = alone(watched)
    assert page.is_disabled("#swap")
    assert page.get_attribute("#swap", "title") == "No model for English → German is loaded here."
    page.route("**/models", both_ways)
    languages = [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]
    page.route("**/languages", lambda route: route.fulfill(json=languages))
    page.reload()
    page.wait_for_selector("#swap:not([disabled])")
    page.fill("#source", "der hund")
    page.wait_for_selector("#copy:visible")
    translation = page.inner_text("#target")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#copy")
    page.wait_for_selector("#copy:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == translation
    watched.refused.add(400)
    page.click("#swap")
    assert (pair_of(page), page.input_value("#source")) == ("en.de", translation)


def test_translation_is_spoken_by_a_voice_of_this_device(chromium: Any, served: Server) -> None:
    with Watched.opened(chromium, served.base, kept={}) as watched:
        watched.page.add_init_script(VOICES)
        page = alone(watched)
        assert not page.is_visible("#listen")
        page.fill("#source", "der hund")
        page.wait_for_selector("#listen:visible")
        assert page.locator("#voice option").all_inner_texts() == ["Alba", "Bob"]  # English ones that send nothing away
        page.select_option("#voice", "Bob")
        page.click("#listen")
        said = page.evaluate("said.map(each => [each.text, each.voice.name, each.lang])")
        assert said == [[page.inner_text("#target"), "Bob", "en-US"]]
        assert page.inner_text("#listen") == "Stop"
        page.evaluate("said[0].dispatchEvent(new Event('end'))")
        assert page.inner_text("#listen") == "Listen"
        page.click("#listen")
        page.fill("#source", "bier")  # another text ends the reading
        watched.until("said.length === 0")
        choose_pair(page, "en.es")
        page.wait_for_selector("#copy:visible")
        assert not page.is_visible("#listen")  # no Spanish voice
        page.reload()
        choose_pair(page, "de.en")
        page.wait_for_selector("#listen:visible")
        assert page.input_value("#voice") == "Bob"
        watched.clean()
