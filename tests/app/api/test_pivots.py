"""Pairs without a model of their own, in every protocol. The engine has de → en, en → es and es → en."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from app.errors import EngineUnavailable
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine, translator
from tests.app.api.keyed_client import OTHER, keys_file, with_gate

GERMAN = {"q": "ein Hund", "source": "de", "target": "es"}
PIVOT = {
    "code": "pivot",
    "message": "Translated through English, by tiny-de-en and then tiny-en-es: no model here translates it directly.",
    "models": ["tiny-de-en", "tiny-en-es"],
}


def translate(client: Client, **fields: Any) -> Any:
    return client.post("/translate", json=GERMAN | fields)


def test_the_answer_names_the_models() -> None:
    assert translate(Client()).json() == {"translatedText": "es:en:ein Hund", "notices": [PIVOT]}
    assert "notices" not in translate(Client(), target="en").json()


def test_each_text_of_a_list_has_its_own_way() -> None:
    texts = ["Ich möchte heute Abend ein Bier trinken", "I would like to drink a beer tonight"]
    answer = translate(Client(), q=texts, source="auto").json()
    assert [found["language"] for found in answer["detectedLanguage"]] == ["de", "en"]
    assert answer["translatedText"] == [f"es:en:{texts[0]}", f"es:{texts[1]}"]
    assert answer["notices"] == [[PIVOT], []]


def test_codes_in_other_spellings_find_the_way() -> None:
    assert translate(Client(), source="DE-at", target="ES-mx").json()["translatedText"] == "es:en:ein Hund"


def test_a_stream_ends_with_the_models() -> None:
    answer = translate(Client(), stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert f'"models":["{PIVOT["models"][0]}","{PIVOT["models"][1]}"]' in answer.text.split("event: done")[1]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"return": ["tokens"]}, '"return" asks for "tokens", which relate a text to one model\'s reading of it'),
        ({"glossary": {"Hund": "perro"}}, "A glossary is for pairs that one model translates, and de → es goes"),
        ({"model": "tiny-de-en"}, '"model" names one translator, and de → es goes through English here'),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_two_models_cannot_answer_is_400(fields: dict[str, Any], sentence: str, stream: bool) -> None:
    client = Client()
    answer = translate(client, stream=stream, **fields)
    assert (answer.status_code, answer.json()["error"].startswith(sentence)) == (400, True), answer.text
    assert client.engine.requests == []


def test_an_unreachable_language_and_a_server_without_pivots() -> None:
    sentence = "There is no model for es → de here. Loaded pairs: de → en, en → es, es → en."
    answer = translate(Client(), source="es", target="de")
    assert (answer.status_code, answer.json()["error"]) == (400, sentence)
    answer = translate(Client(pivot=False))
    assert (answer.status_code, answer.json()["error"]) == (400, sentence.replace("es → de", "de → es"))


def test_other_protocols_take_the_same_way() -> None:
    client = Client()

    def post(path: str, **fields: Any) -> Any:
        return client.post(path, json=fields).json()

    deepl = post("/v2/translate", text=["ein Hund"], source_lang="DE", target_lang="ES")
    assert deepl["translations"][0]["text"] == "es:en:ein Hund"
    google = post("/language/translate/v2", q=["ein Hund"], source="de", target="es", format="text")
    assert google["data"]["translations"][0]["translatedText"] == "es:en:ein Hund"
    page = post("/imme", source_lang="de", target_lang="es", text_list=["ein Hund"])
    assert page["translations"][0]["text"] == "es:en:ein Hund"
    assert post("/kiss", **{"from": "de", "to": "es", "text": "ein Hund"})["text"] == "es:en:ein Hund"


def test_both_models_count_towards_a_quota(tmp_path: Path) -> None:
    client = Client()
    with_gate(client, keys_file(tmp_path, quota="20/day"))

    def ask(**fields: Any) -> httpx.Response:
        return client.post("/translate", json=GERMAN | fields, headers={"Authorization": f"Bearer {OTHER}"})

    assert ask().status_code == 200  # 8 characters, twice
    refused = ask(q="Hunde")
    assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
    client.engine.failure = EngineUnavailable("down")
    assert ask(q="du").status_code == 503
    client.engine.failure = None
    assert ask(q="vier", target="en").status_code == 200  # what failed was given back: 16 of 20 were used
    assert ask(q="d", target="en").status_code == 429


def test_deepl_bills_both_models() -> None:
    body = {"text": ["ein Hund", "zwei"], "source_lang": "DE", "target_lang": "ES", "show_billed_characters": True}
    client = Client()
    answer = client.post("/v2/translate", json=body).json()
    assert [each["billed_characters"] for each in answer["translations"]] == [16, 8]
    assert client.get("/v2/usage").json()["character_count"] == 24


def test_a_file_takes_the_same_way() -> None:
    client = Client()
    answer = client.post(
        "/translate_file", files={"file": ("a.txt", b"ein Hund\n")}, data={"source": "de", "target": "es"}
    )
    url = answer.json()["translatedFileUrl"]
    assert client.get(url.removeprefix("http://parlance")).text == "es:en:ein Hund\n"


def test_a_third_language_that_is_not_english() -> None:
    client = Client(FakeEngine([translator("de", "nl"), translator("nl", "ja")]))
    answer = translate(client, target="ja").json()
    assert answer["translatedText"] == "ja:nl:ein Hund"
    assert answer["notices"][0]["message"].startswith("Translated through Dutch, by tiny-de-nl and then tiny-nl-ja")
