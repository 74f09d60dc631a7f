"""Texts of several languages: sentences in the target language stay, the others are translated, each by its own pair,
whichever are in the majority."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from app.engine.interface import TranslationRequest, TranslationResult
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine, translator
from tests.app.api.test_event_stream import events
from tests.request_builders import translation_request

ENGLISH = [
    "Hello, my name is Anna and I have two cats.",
    "The meeting on Monday starts at nine o'clock.",
    "My brother is looking for a new apartment.",
    "Please send me the papers before the weekend.",
    "We had dinner in a small restaurant near the harbour.",
    "Nobody knew where the keys were.",
    "The children are playing in the garden.",
    "Could you help me with this suitcase?",
    "It has been raining since yesterday.",
    "She reads the newspaper every morning.",
    "Our train leaves in twenty minutes!",
    "There is still some soup in the kitchen.",
    "I would like to pay with my card.",
    "The bridge was closed for three months.",
    "Who wants to come with us to the lake?",
    "They have lived in this street for years.",
    "He forgot his umbrella at the office.",
    "This bread tastes better than the other one.",
    "Turn left behind the church.",
    "I am tired and want to go home.",
]
GERMAN = [
    "Ich heiße Peter und wohne in Berlin.",
    "Die Sitzung am Montag beginnt um neun Uhr.",
    "Mein Bruder sucht eine neue Wohnung.",
    "Bitte schicken Sie mir die Unterlagen vor dem Wochenende.",
    "Wir haben in einem kleinen Lokal am Hafen gegessen.",
    "Niemand wusste, wo die Schlüssel waren.",
    "Die Kinder spielen im Garten.",
    "Können Sie mir mit diesem Koffer helfen?",
    "Seit gestern regnet es ununterbrochen.",
    "Sie liest jeden Morgen die Zeitung.",
    "Unser Zug fährt in zwanzig Minuten!",
    "In der Küche gibt es noch etwas Suppe.",
    "Ich möchte gern mit Karte zahlen.",
    "Die Brücke war drei Monate lang gesperrt.",
    "Wer möchte mit uns an den See fahren?",
    "Sie wohnen seit Jahren in dieser Straße.",
    "Er hat seinen Schirm im Büro vergessen.",
    "Dieses Brot schmeckt besser als das andere.",
    "Biegen Sie hinter der Kirche links ab.",
    "Ich bin müde und will nach Hause gehen.",
]
FRENCH = [
    "Je m'appelle Marie et j'habite à Lyon.",
    "La réunion de lundi commence à neuf heures.",
    "Mon frère cherche un nouvel appartement.",
    "Envoyez-moi les papiers avant le week-end.",
    "Nous avons dîné dans un petit restaurant près du port.",
    "Personne ne savait où étaient les clés.",
    "Les enfants jouent dans le jardin.",
    "Pouvez-vous m'aider avec cette valise ?",
    "Il pleut depuis hier sans arrêt.",
    "Elle lit le journal tous les matins.",
    "Notre train part dans vingt minutes !",
    "Il reste encore de la soupe dans la cuisine.",
    "Je voudrais payer avec ma carte.",
    "Le pont était fermé pendant trois mois.",
    "Qui veut venir avec nous au bord du lac ?",
    "Ils habitent dans cette rue depuis des années.",
    "Il a oublié son parapluie au bureau.",
    "Ce pain est meilleur que l'autre.",
    "Tournez à gauche derrière l'église.",
    "Je suis fatigué et je veux rentrer à la maison.",
]
RUSSIAN = "Я живу в маленьком городе у моря."
EACH = range(len(ENGLISH))
NAMES = ["Anna.", "Peter Müller.", "Berlin!", "Dr. Weber.", "New York.", "Mehmet.", "ABBA.", "IBM.", "Lyon.", "Rex!"]


class PhraseEngine(FakeEngine):
    """Translates the French sentences into the English ones, and these into the German ones."""

    def _translation(self, request: TranslationRequest) -> TranslationResult:
        table = dict(zip([*FRENCH, *ENGLISH], [*ENGLISH, *GERMAN], strict=True))
        translation = super()._translation(request)
        return replace(translation, text=table.get(request.text, translation.text))


def following(number: int, sentences: list[str], count: int = 1) -> str:
    return " ".join(sentences[(number + step) % len(sentences)] for step in range(1, count + 1))


def client(*pairs: tuple[str, str]) -> Client:
    return Client(FakeEngine(loaded=[translator(*pair) for pair in pairs or [("de", "en")]]))


def translate(pages: Client, **fields: Any) -> Any:
    answer = pages.post("/translate", json={"source": "auto", "target": "en", **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_sentence_in_the_minority_is_translated() -> None:
    pages = client()
    for number in EACH:
        before, german, after = ENGLISH[number], GERMAN[number], following(number, ENGLISH, 3)
        answer = translate(pages, q=f"{before} {german} {after}")
        assert answer["translatedText"] == f"{before} en:{german} {after}"
        assert answer["detectedLanguage"]["language"] == "de"
        assert {notice["code"] for notice in answer["notices"]} == {"already_in_target_language"}


def test_a_sentence_at_the_end_of_a_long_text_is_translated() -> None:
    text = " ".join(ENGLISH * 60)
    assert translate(client(), q=f"{text} {GERMAN[0]}")["translatedText"] == f"{text} en:{GERMAN[0]}"


def test_a_sentence_in_the_target_language_stays_within_many_of_another() -> None:
    pages = client()
    for number in EACH:
        before, after = GERMAN[number], following(number, GERMAN, 3)
        answer = translate(pages, q=f"{before} {ENGLISH[number]}\n{after}", alternatives=1, beam_size=4)
        translated = " ".join(f"en:{sentence}" for sentence in (GERMAN * 2)[number + 1 : number + 4])
        assert answer["translatedText"] == f"en:{before} {ENGLISH[number]}\n{translated}"
        (notice,) = answer["notices"]
        assert (notice["start"], notice["end"]) == (len(before) + 1, len(before) + 1 + len(ENGLISH[number]))


def test_each_source_language_has_its_own_pair() -> None:
    pages = client(("de", "en"), ("fr", "en"), ("en", "fr"))
    for number in EACH:
        texts = FRENCH[number], ENGLISH[number], GERMAN[number]
        pages.engine.requests.clear()
        answer = translate(pages, q=" ".join(texts))
        assert answer["translatedText"] == f"en:{texts[0]} {texts[1]} en:{texts[2]}"
        expected = [translation_request(texts[0], "fr", "en"), translation_request(texts[2], "de", "en")]
        assert pages.engine.requests == expected
        main = "fr" if len(texts[0]) >= len(texts[2]) else "de"
        assert answer["detectedLanguage"]["language"] == main


def test_names_and_single_words_go_with_the_sentences_around_them() -> None:
    pages = client()
    for name in NAMES:
        for number in (0, 1):
            within = translate(pages, q=f"{GERMAN[number]} {name} {GERMAN[2]}")["translatedText"]
            assert within.startswith(f"en:{GERMAN[number]} en:") and within.endswith(f" en:{GERMAN[2]}"), within
            text = f"{ENGLISH[number]} {name} {ENGLISH[2]}\n{GERMAN[number]}"
            answer = translate(pages, q=text)["translatedText"]
            assert answer == text.replace(GERMAN[number], f"en:{GERMAN[number]}")


@pytest.mark.parametrize("hello", ["Hello!", "Good morning!", "Thank you.", "Please.", "Goodbye."])
def test_greetings_show_their_language(hello: str) -> None:
    pages = client()
    for german in GERMAN[:5]:
        assert translate(pages, q=f"{hello} {german}")["translatedText"] == f"{hello} en:{german}"


@pytest.mark.parametrize("hello", ["Guten Morgen!", "Danke.", "Vielen Dank!", "Bis bald.", "Grüß Gott!"])
def test_greetings_within_another_language_are_translated(hello: str) -> None:
    pages = client()
    for english in ENGLISH[:5]:
        text = translate(pages, q=f"{hello} {english}\n{GERMAN[0]}")["translatedText"]
        assert text == f"en:{hello} {english}\nen:{GERMAN[0]}"


def test_a_greeting_of_two_languages_goes_with_its_neighbour() -> None:
    pages = client(("de", "en"), ("nl", "en"))
    for german in GERMAN:
        translate(pages, q=f"Hallo! {german}")
    assert {request.options.source_language for request in pages.engine.requests} == {"de"}


@pytest.mark.parametrize(("opening", "closing"), [("„", "“"), ('"', '"'), ("“", "”"), ("(", ")")])
def test_a_quotation_is_a_sentence_of_its_own(opening: str, closing: str) -> None:
    pages = client()
    for number in EACH:
        quotation = f"{opening}{ENGLISH[number]}{closing}"
        answer = translate(pages, q=f"{GERMAN[number]}\n\n{quotation}\n\n{following(number, GERMAN)}")
        assert answer["translatedText"].split("\n\n")[1] == quotation


def test_a_language_without_a_model_stays_and_is_named() -> None:
    for number in EACH:
        text = f"{RUSSIAN} {RUSSIAN} {RUSSIAN}\n{GERMAN[number]}"
        answer = translate(client(), q=text)
        assert answer["translatedText"] == f"{RUSSIAN} {RUSSIAN} {RUSSIAN}\nen:{GERMAN[number]}"
        assert {notice["code"] for notice in answer["notices"]} == {"unsupported_language"}


def test_a_named_source_is_not_doubted() -> None:
    for number in EACH:
        answer = translate(client(), q=f"{ENGLISH[number]} {GERMAN[number]}", source="de")
        assert answer == {"translatedText": f"en:{ENGLISH[number]} en:{GERMAN[number]}"}


def test_passages_of_a_page_have_languages_of_their_own() -> None:
    pages = client(("de", "en"), ("fr", "en"))
    for number in EACH:
        page = "<p>{}</p>\n<p>{} <b>Anna</b></p><p>{} {}</p>"
        english, german, french = ENGLISH[number], GERMAN[number], FRENCH[number]
        answer = translate(pages, q=page.format(english, german, english, french), format="html")
        text = answer["translatedText"]
        assert text.startswith(f"<p>{english}</p>\n<p>en:{german} ")
        assert text.endswith(f"<p>{english} en:{french}</p>")
        assert "<b>Anna</b>" in text


def test_documents_are_translated_by_sentence() -> None:
    pages = client()
    for number in range(0, len(ENGLISH), 4):
        text = f"{' '.join(ENGLISH)}\n{GERMAN[number]}\n{ENGLISH[number]}\n"
        file = {"file": ("notes.txt", io.BytesIO(text.encode()), "text/plain")}
        answer = pages.post("/translate_file", data={"source": "auto", "target": "en"}, files=file)
        url = answer.json()["translatedFileUrl"]
        assert pages.get(url.removeprefix("http://parlance")).text == text.replace(
            GERMAN[number], f"en:{GERMAN[number]}"
        )


def test_streams_show_the_sentences_in_order() -> None:
    pages = client(("de", "en"), ("fr", "en"))
    for number in EACH:
        texts = ENGLISH[number], GERMAN[number], following(number, ENGLISH), FRENCH[number], "Anna"
        sent = {"q": "\n".join(texts), "source": "auto", "target": "en", "stream": True}
        streamed = events(pages.post("/translate", json=sent).text)
        shown = "".join(data["text"] for name, data in streamed if name == "token")
        done = dict(streamed)["done"]
        plain = translate(pages, q=sent["q"])
        assert shown == done["translatedText"] == plain["translatedText"]
        assert done["notices"] == plain["notices"]
        assert shown.startswith(f"{texts[0]}\nen:{texts[1]}\n{texts[2]}\nen:{texts[3]}\n")


def test_details_are_those_of_the_translated_sentences() -> None:
    for number in EACH:
        wanted = ["alignment", "scores", "tokens"]
        answer = translate(client(), q=f"{ENGLISH[number]} {GERMAN[number]}", **{"return": wanted})
        assert len(answer["scores"]) == 1
        assert "".join(token["text"] for token in answer["tokens"]) == answer["translatedText"]
        assert all(word["source_start"] > len(ENGLISH[number]) for word in answer["alignment"])


def test_a_model_that_is_named_translates_its_own_pairs_alone() -> None:
    pages = client(("de", "en"), ("fr", "en"))
    german, french = " ".join(GERMAN[:2]), FRENCH[0]
    answer = translate(pages, q=f"{german} {french}", model="tiny-de-en")
    assert answer["translatedText"] == f"en:{GERMAN[0]} en:{GERMAN[1]} {french}"
    (notice,) = answer["notices"]
    assert (notice["code"], notice["start"]) == ("unsupported_language", len(german) + 1)


def test_two_models_in_turn_leave_the_target_language() -> None:
    pages = Client(PhraseEngine([translator("fr", "en"), translator("en", "de")]))
    for number in EACH:
        french = f"{FRENCH[number]} {following(number, FRENCH)}"
        text = f"{french}\n{GERMAN[number]}\n{ENGLISH[number]}"
        answer = translate(pages, q=text, target="de")
        translated = f"{GERMAN[number]} {following(number, GERMAN)}"
        assert answer["translatedText"] == f"{translated}\n{GERMAN[number]}\n{GERMAN[number]}"
        assert answer["detectedLanguage"]["language"] == "fr"
        assert [notice["code"] for notice in answer["notices"]] == ["pivot", "already_in_target_language"]


def test_a_minority_that_needs_two_models_is_translated() -> None:
    pages = Client(PhraseEngine([translator("fr", "en"), translator("en", "de")]))
    for number in EACH:
        text = f"{ENGLISH[number]} {following(number, ENGLISH)}\n{FRENCH[number]}\n{GERMAN[number]}"
        translated = f"{GERMAN[number]} {following(number, GERMAN)}\n{GERMAN[number]}\n{GERMAN[number]}"
        answer = translate(pages, q=text, target="de")
        assert answer["translatedText"] == translated
        assert answer["detectedLanguage"]["language"] == "en"
        assert [notice["code"] for notice in answer["notices"]] == ["pivot", "already_in_target_language"]
        page = translate(pages, q=f"<p>{text}</p>".replace("\n", "</p><p>"), target="de", format="html")
        assert page["translatedText"] == f"<p>{translated}</p>".replace("\n", "</p><p>")
        heading = translate(pages, q=f"<h1>Anna</h1><p>{text}</p>", target="de", format="html")["translatedText"]
        assert heading.startswith("<h1>de:Anna</h1>"), "the second model alone has read it"
        streamed = events(
            pages.post("/translate", json={"q": text, "source": "auto", "target": "de", "stream": True}).text
        )
        assert dict(streamed)["done"]["translatedText"] == translated
        detailed = translate(pages, q=text, target="de", **{"return": ["scores"]})
        assert detailed["translatedText"] == translated.replace(f"\n{GERMAN[number]}", f"\n{FRENCH[number]}", 1)


def test_languages_of_one_model_and_of_two_are_translated_together() -> None:
    pages = Client(PhraseEngine([translator("fr", "en"), translator("en", "de"), translator("es", "de")]))
    spanish = "Mi hermano vive en una casa pequeña."
    for number in EACH:
        french = f"{FRENCH[number]} {following(number, FRENCH)}"
        answer = translate(pages, q=f"{french}\n{spanish}", target="de")
        assert answer["translatedText"] == f"{GERMAN[number]} {following(number, GERMAN)}\nde:{spanish}"
        assert [notice["code"] for notice in answer["notices"]] == ["pivot"]


@pytest.mark.parametrize("path", ["/v2/translate", "/language/translate/v2"])
def test_other_protocols(path: str) -> None:
    text = f"{ENGLISH[0]} {GERMAN[0]}"
    body = {"text": [text], "target_lang": "EN"} if path == "/v2/translate" else {"q": [text], "target": "en"}
    answer = client().post(path, json=body)
    assert f"{ENGLISH[0]} en:{GERMAN[0]}" in answer.text
    assert '"DE"' in answer.text or '"de"' in answer.text
