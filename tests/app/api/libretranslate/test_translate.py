"""POST /translate and GET /languages, as LibreTranslate's clients see them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from app.engine.interface import Notice, PoolStatus, TranslationRequest
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine, translator
from tests.app.api.test_event_stream import events
from tests.request_builders import translation_request

HALLO = {"q": "hallo", "source": "de", "target": "en"}


def translate(client: Client, **fields: Any) -> Any:
    answer = client.post("/translate", json=HALLO | fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: Client, **fields: Any) -> Any:
    answer = client.post("/translate", json=HALLO | fields)
    assert answer.status_code == 400, answer.text
    assert client.engine.calls == 0
    return answer.json()


def test_a_web_page_is_one_request_by_default() -> None:
    page = [f"absatz {number}" for number in range(300)]
    assert len(translate(Client(), q=page)["translatedText"]) == len(page)


def test_one_text_answers_with_one_text_and_nothing_else() -> None:
    client = Client()
    assert translate(client) == {"translatedText": "en:hallo"}
    assert client.engine.requests == [translation_request("hallo", "de", "en")]


def test_a_list_is_one_call_and_keeps_its_order() -> None:
    client = Client()
    assert translate(client, q=["b", "a", "b"]) == {"translatedText": ["en:b", "en:a", "en:b"]}
    assert client.engine.calls == 1


def test_a_list_of_one_stays_a_list() -> None:
    assert translate(Client(), q=["hallo"]) == {"translatedText": ["en:hallo"]}


@pytest.mark.parametrize("blank", [" ", "\n\t ", "　"])
def test_white_space_comes_back_untranslated(blank: str) -> None:
    client = Client()
    assert translate(client, q=blank) == {"translatedText": blank}
    assert client.engine.calls == 0
    assert translate(client, q=[blank, "hallo", ""]) == {"translatedText": [blank, "en:hallo", ""]}
    assert client.engine.requests == [translation_request("hallo", "de", "en")]


def test_text_without_letters_is_returned_unchanged() -> None:
    client = Client()
    assert translate(client, q="😀 12,50 €") == {"translatedText": "😀 12,50 €"}
    assert client.engine.calls == 0


def test_alternatives_only_on_request() -> None:
    client = Client()
    assert translate(client, alternatives=2)["alternatives"] == ["en:hallo (1)", "en:hallo (2)"]
    assert translate(client, q=["a", " "], alternatives=1) == {
        "translatedText": ["en:a", " "],
        "alternatives": [["en:a (1)"], []],
    }


def test_finish_reason_appears_only_when_a_translation_was_cut_or_goes_round() -> None:
    client = Client(FakeEngine(length_limited=frozenset({"lang"}), repetitive=frozenset({"immer"})))
    assert translate(client, q="immer")["finishReason"] == "repetition"
    assert translate(client, q=["kurz", "immer"])["finishReason"] == ["stop", "repetition"]
    assert "finishReason" not in translate(client, q=["kurz"])
    assert translate(client, q="lang")["finishReason"] == "length"
    assert translate(client, q=["lang", "kurz"])["finishReason"] == ["length", "stop"]


def test_notices_appear_only_where_there_is_something_to_say() -> None:
    word = Notice("unknown_words", "“Quokka” is unknown.", 4, 10)
    pivot = Notice("pivot", "Through English.", models=("tiny-de-en", "tiny-en-es"))
    client = Client(FakeEngine(notices={"Das Quokka.": (word, pivot)}))
    said = [
        {"code": "unknown_words", "message": "“Quokka” is unknown.", "start": 4, "end": 10},
        {"code": "pivot", "message": "Through English.", "models": ["tiny-de-en", "tiny-en-es"]},
    ]
    assert translate(client, q="Das Quokka.")["notices"] == said
    assert translate(client, q=["hallo", "Das Quokka."])["notices"] == [[], said]
    assert "notices" not in translate(client, q=["hallo"])
    streamed = client.post("/translate", json={"q": "Das Quokka.", "source": "de", "target": "en", "stream": True})
    assert dict(events(streamed.text))["done"]["notices"] == said
    places = [
        (notice.get("start"), notice.get("end")) for notice in translate(client, q="Hallo. Das Quokka.")["notices"]
    ]
    assert places == [(11, 17), (None, None)], "places in the whole text"
    page = translate(client, q="<p>Das Quokka.</p>", format="html")["notices"]
    assert page == [{"code": "unknown_words", "message": "“Quokka” is unknown."}, said[1]]


@pytest.mark.parametrize(("source", "target"), [("DE", "EN"), ("De", "eN"), (" de ", "en")])
def test_codes_in_any_case(source: str, target: str) -> None:
    assert translate(Client(), source=source, target=target) == {"translatedText": "en:hallo"}


def test_codes_reach_the_engine_as_the_checkpoint_spells_them() -> None:
    client = Client(FakeEngine(loaded=[translator("zh-Hans", "pt-BR")]))
    translate(client, source="ZH-hans", target="pt-br")
    assert client.engine.requests == [translation_request("hallo", "zh-Hans", "pt-BR")]


def test_auto_detects_each_text_of_a_list_on_its_own() -> None:
    client = Client()
    answer = translate(client, q=["Ich möchte ein Bier", "Quiero una cerveza"], source="AUTO")
    assert [detection["language"] for detection in answer["detectedLanguage"]] == ["de", "es"]
    assert all(90 < detection["confidence"] <= 100 for detection in answer["detectedLanguage"])
    assert [
        request.options.source_language for request in client.engine.requests if isinstance(request, TranslationRequest)
    ] == [
        "de",
        "es",
    ]


def test_auto_answers_one_text_with_one_language() -> None:
    answer = translate(Client(), q="Ich möchte ein Bier", source="auto")
    assert answer["detectedLanguage"]["language"] == "de"


def test_auto_translates_only_languages_with_a_model_for_the_target() -> None:
    answer = translate(Client(pivot=False), q="Ich möchte ein Bier", source="auto", target="es")
    assert answer["translatedText"] == "Ich möchte ein Bier"
    assert answer["detectedLanguage"]["language"] == "de"
    assert [notice["code"] for notice in answer["notices"]] == ["unsupported_language"]


def test_a_blank_text_has_a_language_without_confidence() -> None:
    assert translate(Client(), q=" ", source="auto")["detectedLanguage"] == {"confidence": 0, "language": "de"}


def test_unknown_fields_are_ignored() -> None:
    assert translate(Client(), apiKey="k", api_key=5) == {"translatedText": "en:hallo"}


def test_fields_as_a_form_with_the_line_ends_of_forms() -> None:
    client = Client()
    answer = client.post("/translate", data={**HALLO, "q": "a\r\nb", "alternatives": "1"})
    assert answer.json() == {"translatedText": "en:a\nen:b", "alternatives": ["en:a (1)\nen:b (1)"]}


def test_fields_as_query_parameters() -> None:
    assert Client().post("/translate", params=HALLO).json() == {"translatedText": "en:hallo"}


def test_a_form_says_each_field_once() -> None:
    answer = Client().post_raw("/translate", b"q=a&q=b&source=de&target=en", "application/x-www-form-urlencoded")
    assert answer.status_code == 400
    assert answer.json()["error"] == '"q" is there more than once; send it once.'


@pytest.mark.parametrize(
    ("fields", "sentence", "field"),
    [
        ({"target": "fr"}, "There is no model for de → fr here. Loaded pairs: de → en, en → es, es → en.", "target"),
        (
            {"source": "deutsch", "target": "Englisch"},
            "There is no model for deutsch → Englisch here; did you mean de → en? Loaded pairs: de → en, en → es,"
            " es → en.",
            "source",
        ),
        (
            {"target": "english"},
            "There is no model for de → english here; did you mean de → en? Loaded pairs: de → en, en → es, es → en.",
            "target",
        ),
        (
            {"source": "auto", "target": "español"},
            "There is no model into español here; did you mean es? Loaded pairs: de → en, en → es, es → en.",
            "target",
        ),
        ({"source": "fr"}, "There is no model for fr → en here. Loaded pairs: de → en, en → es, es → en.", "source"),
        (
            {"source": "auto", "target": "fr"},
            "There is no model into fr here. Loaded pairs: de → en, en → es, es → en.",
            "target",
        ),
    ],
)
def test_a_missing_pair_names_the_loaded_ones(fields: dict[str, str], sentence: str, field: str) -> None:
    answer = refused(Client(), **fields)
    assert (answer["error"], answer["code"], answer["field"]) == (sentence, "unknown_pair", field)


def test_no_pair_at_all_points_to_the_reasons() -> None:
    client = Client(FakeEngine(loaded=[]))
    assert refused(client)["error"].endswith("No translator is loaded; GET /health/ready says why.")


def test_many_pairs_are_not_all_named() -> None:
    client = Client(FakeEngine(loaded=[translator("de", f"x{index}") for index in range(25)]))
    assert refused(client, target="fr")["error"].endswith("de → x19 and 5 more (GET /languages).")


def test_while_models_load_a_missing_pair_is_not_there_yet() -> None:
    client = Client(FakeEngine(loaded=[], pool_status=PoolStatus(False, {"cpu": "starting"}, 0, ())))
    answer = client.post("/translate", json=HALLO)
    assert (answer.status_code, answer.json()["code"]) == (503, "engine_unavailable")
    assert answer.headers["Retry-After"] == "2"


@pytest.mark.parametrize(
    ("fields", "settings", "sentence"),
    [
        ({"q": ["a"] * 3}, {"max_batch_texts": 2}, '"q" has 3 texts; one request takes 2.'),
        ({"alternatives": 9}, {}, '"alternatives" is 9; this server takes at most 8.'),
    ],
)
def test_limits_name_both_numbers(fields: dict[str, Any], settings: dict[str, int], sentence: str) -> None:
    assert refused(Client(**settings), **fields)["error"].startswith(sentence)


def test_a_text_that_is_too_long_is_422_as_on_every_route_and_names_both_lengths() -> None:
    answer = Client(max_text_characters=2).post("/translate", json={"q": "abc", "source": "de", "target": "en"})
    assert (answer.status_code, answer.json()["code"]) == (422, "text_too_long")
    assert answer.json()["error"] == '"q" has a text of 3 characters; one text may have 2. Send it in parts.'


def test_languages() -> None:
    assert Client().get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["en", "es"]},
        {"code": "en", "name": "English", "targets": ["es"]},
        {"code": "es", "name": "Spanish", "targets": ["en"]},
    ]
    assert Client(pivot=False).get("/languages").json()[0] == {"code": "de", "name": "German", "targets": ["en"]}


def test_languages_hold_targets_and_no_lyricists_and_each_target_once() -> None:
    twin = dataclasses.replace(translator("de", "en"), name="big-de-en")
    languages = Client(FakeEngine(loaded=[translator("de", "en"), twin])).get("/languages").json()
    assert languages == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]


def test_empty_field_of_a_form_is_one_left_out() -> None:
    form = {"q": "<b>hallo", "source": "de", "target": "en"}
    empty = dict.fromkeys(("format", "alternatives", "beam_size", "split", "stream", "return", "model", "glossary"), "")
    assert Client().post("/translate", data=form | empty).json() == {"translatedText": "<b>en:hallo"}
    parts = {name: (None, value) for name, value in (form | empty).items()}
    assert Client().post("/translate", files=parts).json() == {"translatedText": "<b>en:hallo"}
    query = "&".join(f"{name}=" for name in empty)
    assert Client().post(f"/translate?q=a&source=de&target=en&{query}").json() == {"translatedText": "en:a"}
    assert Client().post("/translate", data=form | {"target": ""}).json()["field"] == "target"
    assert Client().post("/translate", json=form | {"alternatives": ""}).json()["field"] == "alternatives"
