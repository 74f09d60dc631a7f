"""Texts that are in the target language already, or in one that no model reads, come back as they are in every
protocol."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine, translator
from tests.app.api.test_event_stream import events
from tests.request_builders import translation_request

FRENCH = "Je voudrais une bière, s'il vous plaît."
GERMAN = "Ich möchte heute ein Bier trinken."
ENGLISH = "This paragraph was English from the beginning."
PAGE = [GERMAN, ENGLISH, "hello", "danke", FRENCH, "Привет"]
TRANSLATED = [f"en:{GERMAN}", ENGLISH, "hello", "en:danke", FRENCH, "Привет"]
LANGUAGES = ["de", "en", "en", "de", "fr", "ru"]


def client() -> Client:
    return Client(FakeEngine(loaded=[translator("de", "en")]))


def translate(**fields: Any) -> Any:
    answer = client().post("/translate", json={"source": "auto", "target": "en", **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def codes(answer: Any) -> list[list[str]]:
    return [[notice["code"] for notice in notices] for notices in answer["notices"]]


def test_a_mixed_page_comes_back_whole_and_says_why() -> None:
    answer = translate(q=PAGE)
    assert answer["translatedText"] == TRANSLATED
    assert [detected["language"] for detected in answer["detectedLanguage"]] == LANGUAGES
    already, unsupported = "already_in_target_language", "unsupported_language"
    assert codes(answer) == [[], [already], [already], [], [unsupported], [unsupported]]
    assert answer["notices"][1][0]["message"] == "This text is in English already; it is returned as it is."
    assert answer["notices"][4][0]["message"] == (
        "This text seems to be in French, which no model here translates into English; it is returned as it is. Name"
        " its language if it is in German."
    )


@pytest.mark.parametrize(
    ("sources", "named"),
    [
        (["de", "nl"], "Dutch or German"),
        (["de", "nl", "fr", "it", "es", "pl"], "Dutch, French, German, Italian, Polish or another one"),
    ],
)
def test_languages_to_name_are_listed(sources: list[str], named: str) -> None:
    engine = FakeEngine(loaded=[translator(source, "en") for source in sources])
    answer = Client(engine).post("/translate", json={"q": "Привет", "source": "auto", "target": "en"}).json()
    assert answer["notices"][0]["message"].endswith(f" Name its language if it is in {named}.")


@pytest.mark.parametrize("word", ["hello", "Hello!", "Thank you", "good morning", "beer", "house", "HELLO WORLD"])
def test_english_words_stay(word: str) -> None:
    assert translate(q=word)["translatedText"] == word


@pytest.mark.parametrize("word", ["hallo", "danke", "Guten Morgen!", "bier", "Haus", "Moin", "WO IST DER BAHNHOF"])
def test_german_words_are_translated(word: str) -> None:
    answer = translate(q=word)
    translation = f"EN:{word}" if word.isupper() else f"en:{word}"  # a text in capitals stays one
    assert (answer["translatedText"], answer["detectedLanguage"]["language"]) == (translation, "de")
    assert "notices" not in answer


@pytest.mark.parametrize(
    ("word", "language"),
    [("hola", "es"), ("merci beaucoup", "fr"), ("grazie", "it"), ("你好", "zh"), ("спасибо", "ru")],
)
def test_greetings_of_other_languages_are_named(word: str, language: str) -> None:
    answer = translate(q=word)
    assert (answer["translatedText"], answer["detectedLanguage"]["language"]) == (word, language)


def test_addresses_and_markup_do_not_count_as_english() -> None:
    text = "siehe https://example.com/the/house/of/the/rising/sun und {the_name_of_the_user}"
    assert translate(q=text)["detectedLanguage"]["language"] == "de"
    page = '<div class="the house of the rising sun"><p>Ein Haus &amp; ein Hund</p></div>'
    assert translate(q=page, format="html")["detectedLanguage"]["language"] == "de"


def test_an_english_page_stays_as_it_is() -> None:
    page = "<p>This is <b>my</b> house &amp; my dog.</p>\n<!-- x -->"
    assert translate(q=page, format="html")["translatedText"] == page


def test_a_stream_of_an_unchanged_text() -> None:
    sent = {"q": ENGLISH, "source": "auto", "target": "en", "stream": True}
    streamed = events(client().post("/translate", json=sent).text)
    done = dict(streamed)["done"]
    assert done["translatedText"] == ENGLISH
    assert done["notices"][0]["code"] == "already_in_target_language"


def test_a_named_source_is_believed() -> None:
    assert translate(q=ENGLISH, source="de") == {"translatedText": f"en:{ENGLISH}"}


@pytest.mark.parametrize(("source", "target"), [("de", "de"), ("en", "en"), ("DE", "de"), ("de-AT", "de")])
def test_a_language_into_itself(source: str, target: str) -> None:
    answer = translate(q=["hallo", " "], source=source, target=target)
    assert answer["translatedText"] == ["hallo", " "]
    assert codes(answer) == [["already_in_target_language"]] * 2


@pytest.mark.parametrize(("source", "target"), [("fr", "fr"), ("zh-Hans", "zh-Hant")])
def test_a_language_that_is_not_loaded_is_refused(source: str, target: str) -> None:
    answer = client().post("/translate", json={"q": "x", "source": source, "target": target})
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_pair")


def test_deepl() -> None:
    answer = client().post("/v2/translate", json={"text": PAGE, "target_lang": "EN-GB"}).json()["translations"]
    assert [each["text"] for each in answer] == TRANSLATED
    assert [each["detected_source_language"] for each in answer] == [code.upper() for code in LANGUAGES]
    itself = client().post("/v2/translate", json={"text": ["hallo"], "source_lang": "DE", "target_lang": "DE"}).json()
    assert itself["translations"][0]["text"] == "hallo"


def test_google() -> None:
    path = "/language/translate/v2"
    answer = client().post(path, json={"q": PAGE, "target": "en", "format": "text"}).json()["data"]["translations"]
    assert [each["translatedText"] for each in answer] == TRANSLATED
    assert [each["detectedSourceLanguage"] for each in answer] == LANGUAGES
    itself = client().post(path, json={"q": ["hallo"], "source": "de", "target": "de"}).json()
    assert itself["data"]["translations"] == [{"translatedText": "hallo"}]
    found = client().post(f"{path}/detect", json={"q": ["hola", "Guten Morgen"]}).json()["data"]["detections"]
    assert [each[0]["language"] for each in found] == ["es", "de"]


def test_extensions() -> None:
    pages = client()
    body = {"source_lang": "auto", "target_lang": "en", "text_list": PAGE}
    answer = pages.post("/imme", json=body).json()["translations"]
    assert [each["text"] for each in answer] == TRANSLATED
    assert [each["detected_source_lang"] for each in answer] == LANGUAGES
    assert pages.engine.requests == [translation_request(text, "de", "en") for text in (GERMAN, "danke")]
    assert client().post("/kiss", json={"text": "hallo", "from": "de", "to": "de"}).json()["text"] == "hallo"


def test_detect_names_a_language_without_a_model() -> None:
    found = client().post("/detect", json={"q": FRENCH}).json()
    assert found[0]["language"] == "fr"
    assert found[0]["confidence"] > 90
    assert client().post("/detect", json={"q": "hola"}).json()[0]["language"] == "es"


def test_sentences_in_another_language_than_the_text_stay() -> None:
    text = f"{GERMAN} Das Wetter ist heute gut.\n> {ENGLISH}\n{FRENCH}"
    answer = translate(q=text)
    assert answer["translatedText"] == f"en:{GERMAN} en:Das Wetter ist heute gut.\n> {ENGLISH}\n{FRENCH}"
    assert answer["detectedLanguage"]["language"] == "de"
    left = [(notice["code"], text[notice["start"] : notice["end"]]) for notice in answer["notices"]]
    assert left == [("already_in_target_language", ENGLISH), ("unsupported_language", FRENCH)]


def test_passages_in_another_language_than_the_page_stay() -> None:
    page = f"<p>{GERMAN}</p><p>{ENGLISH}</p><p>Das Wetter ist heute gut.</p><p>{FRENCH}</p><p>The New York Times</p>"
    answer = translate(q=page, format="html")
    assert answer["translatedText"] == (
        f"<p>en:{GERMAN}</p><p>{ENGLISH}</p><p>en:Das Wetter ist heute gut.</p><p>{FRENCH}</p><p>The New York Times</p>"
    )
    named = translate(q=page, format="html", source="de")  # the language is not in question
    assert named["translatedText"].count("en:") == 5
