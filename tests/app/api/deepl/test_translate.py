"""POST /v2/translate as DeepL's clients send it: deepl-python JSON, deepl-node a form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.engine.interface import TranslationRequest, TranslationResult
from app.errors import EngineFailed, EngineUnavailable, Overloaded
from tests.app.api.client import Client, recorded
from tests.app.api.fake_engine import FakeEngine, translator
from tests.request_builders import translation_request

KEY = {"Authorization": "DeepL-Auth-Key 279a2e9d-83b3-c416-7e2d-f721593e42a0:fx"}
BIER = {"text": ["Ich möchte ein Bier"], "source_lang": "DE", "target_lang": "EN-GB"}


def refused(client: Client, **fields: Any) -> str:
    answer = client.post("/v2/translate", json=BIER | fields)
    assert answer.status_code == 400, answer.text
    assert client.engine.calls == 0
    body = answer.json()
    assert list(body) == ["message"]
    return str(body["message"])


def test_as_deepl_python_sends_it() -> None:
    client = Client()
    body = {
        "target_lang": "EN-US",
        "text": ["Ich möchte ein Bier", "Quiero una cerveza"],
        "show_billed_characters": True,
    }
    answer = client.post("/v2/translate", json=body, headers=KEY)
    assert answer.status_code == 200
    assert answer.json() == {
        "translations": [
            {"detected_source_language": "DE", "text": "en:Ich möchte ein Bier", "billed_characters": 19},
            {"detected_source_language": "ES", "text": "en:Quiero una cerveza", "billed_characters": 18},
        ]
    }
    assert client.engine.requests == [
        translation_request("Ich möchte ein Bier", "de", "en"),
        translation_request("Quiero una cerveza", "es", "en"),
    ]
    assert client.engine.calls == 1


def test_as_deepl_node_sends_it() -> None:
    body = "target_lang=en-GB&source_lang=de&text=Ich+m%C3%B6chte&text=ein+Bier&show_billed_characters=1"
    answer = Client().post_raw("/v2/translate", body.encode(), "application/x-www-form-urlencoded;charset=utf-8")
    assert answer.json() == {
        "translations": [
            {"detected_source_language": "DE", "text": "en:Ich möchte", "billed_characters": 10},
            {"detected_source_language": "DE", "text": "en:ein Bier", "billed_characters": 8},
        ]
    }


def test_a_form_with_one_text_is_a_list_too() -> None:
    answer = Client().post("/v2/translate", data={"text": "ein\r\nBier", "target_lang": "EN", "source_lang": "DE"})
    assert [translation["text"] for translation in answer.json()["translations"]] == ["en:ein\nen:Bier"]


@pytest.mark.parametrize(
    ("source", "target", "pair"),
    [
        ("DE", "EN-GB", ("de", "en")),
        ("de", "en-us", ("de", "en")),
        ("EN", "ZH-HANS", ("en", "zh-Hans")),
        ("EN", "ZH", ("en", "zh-Hans")),
        ("ZH", "EN-US", ("zh-Hans", "en")),
        ("EN", "PT-BR", ("en", "pt-BR")),
    ],
)
def test_codes(source: str, target: str, pair: tuple[str, str]) -> None:
    pairs = [("de", "en"), ("en", "zh-Hans"), ("zh-Hans", "en"), ("en", "pt-BR")]
    client = Client(FakeEngine(loaded=[translator(*pair) for pair in pairs]))
    answer = client.post("/v2/translate", json={"text": ["a"], "source_lang": source, "target_lang": target})
    assert client.engine.requests == [translation_request("a", *pair)]
    assert answer.json()["translations"][0]["detected_source_language"] == source.upper()


def test_a_text_in_the_target_language_stays() -> None:
    client = Client()
    stays = "I would like a beer and a coffee for my friends."
    answer = client.post("/v2/translate", json={"text": [stays, "Ich möchte ein Bier"], "target_lang": "EN-GB"})
    assert [translation["text"] for translation in answer.json()["translations"]] == [stays, "en:Ich möchte ein Bier"]
    assert [translation["detected_source_language"] for translation in answer.json()["translations"]] == ["EN", "DE"]
    assert client.engine.requests == [translation_request("Ich möchte ein Bier", "de", "en")]


def test_options_without_effect_are_accepted() -> None:
    client = Client()
    options = {
        "context": "In a pub.",
        "split_sentences": "nonewlines",
        "preserve_formatting": True,
        "formality": "prefer_less",
        "tag_handling_version": "v2",
        "outline_detection": True,
        "splitting_tags": [],
        "non_splitting_tags": "",
        "model_type": "prefer_quality_optimized",
        "glossary_id": "",
        "style_id": None,
        "something_new": 5,
    }
    (translation,) = client.post("/v2/translate", json=BIER | options).json()["translations"]
    assert translation == {
        "detected_source_language": "DE",
        "text": "en:Ich möchte ein Bier",
        "billed_characters": 19,
        "model_type_used": "quality_optimized",
    }


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"formality": "more"}, '"formality" is "more", but these models have no formality; send "prefer_more" or'),
        ({"formality": "rude"}, '"formality" is "rude"; it takes "default", "more", "less", "prefer_more" or'),
        ({"splitting_tags": "par"}, "The body has splitting_tags without tag_handling; send"),
        ({"non_splitting_tags": ["par"]}, "The body has non_splitting_tags without tag_handling; send"),
        ({"ignore_tags": "x"}, 'The body has ignore_tags without tag_handling; send "tag_handling": "xml" or "html"'),
        ({"style_id": "x"}, '"style_id" names something that this server does not have; leave it out.'),
        ({"translation_memory_id": "x"}, '"translation_memory_id" names something that this server does not have'),
        ({"custom_instructions": ["rhyme"]}, '"custom_instructions" is not empty, and this server cannot honour it'),
        ({"tag_handling": "markdown"}, '"tag_handling" is "markdown"; it takes "html" or "xml".'),
        ({"tag_handling": "xml", "text": ["<a>b"]}, '"text" has a text that is not well-formed XML (mismatched tag,'),
        (
            {"tag_handling": "xml", "text": ["<?xml version='1.0'?>\n<a>b"]},
            '"text" has a text that is not well-formed XML (no',
        ),
        (
            {"tag_handling": "xml", "text": ["<!DOCTYPE a><a>&b;</a>"]},
            '"text" has a text that is not well-formed XML (un',
        ),
        ({"tag_handling_version": "v3"}, '"tag_handling_version" is "v3"; it takes "v1" or "v2".'),
        ({"split_sentences": "2"}, '"split_sentences" is "2"; it takes "0", "1" or "nonewlines".'),
        (
            {"target_lang": "FR"},
            "Value for 'target_lang' not supported. There is no model for DE → FR here. Loaded pairs: de → en, en",
        ),
        ({"target_lang": "FR", "source_lang": ""}, "Value for 'target_lang' not supported. There is no model into FR"),
        ({"source_lang": "XX"}, "Value for 'source_lang' not supported. There is no model for XX → EN-GB here."),
        ({"target_lang": " "}, '"target_lang" is empty; send at least one character that is not white space.'),
        ({"text": []}, '"text" has 0 items; it takes at least 1.'),
        ({"text": ["a", 5]}, '"text" holds 5; it takes a list of texts.'),
        ({"text": ["a" * 100_001]}, '"text" has a text of 100,001 characters; one text may have 100,000.'),
        ({"text": ["a"] * 513}, '"text" has 513 texts; one request takes 512. Send them in several.'),
        ({"source_lang": "", "glossary_id": "x"}, "The body has a glossary without source_lang; say which language"),
    ],
)
def test_impossible_request_is_refused_without_retry(fields: dict[str, Any], sentence: str) -> None:
    assert refused(Client(), **fields).startswith(sentence)


def test_a_missing_field() -> None:
    answer = Client().post("/v2/translate", json={"target_lang": "EN"})
    assert (answer.status_code, answer.json()) == (
        400,
        {"message": '"text" is missing; add it to the request, as the example at /docs does.'},
    )


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (Overloaded("Full.", retry_after_s=3), 429),
        (EngineUnavailable("Down."), 503),
        (EngineFailed("It broke."), 500),
    ],
)
def test_errors_in_deepl_s_form(failure: Exception, status: int) -> None:
    answer = Client(FakeEngine(failure=failure)).post("/v2/translate", json=BIER)
    assert (answer.status_code, answer.json()) == (status, {"message": str(failure)})


def test_a_body_that_is_too_large_is_413_and_one_of_another_kind_415() -> None:
    answer = Client(max_body_bytes=1024).post("/v2/translate", json=BIER | {"context": "a" * 1024})
    assert answer.status_code == 413
    answer = Client().post_raw("/v2/translate", b"<a/>", "text/xml")
    assert (answer.status_code, list(answer.json())) == (415, ["message"])


def test_split_sentences_and_tags_reach_the_translator() -> None:
    client = Client()
    spy = recorded(client)
    for options in ({}, {"split_sentences": 0}, {"split_sentences": "nonewlines"}, {"tag_handling": "html"}):
        client.post("/v2/translate", json=BIER | options)
    client.post("/v2/translate", json=BIER | {"tag_handling": "xml", "text": ["a <x id='1'/> &amp; b"]})
    assert [(request.split, request.format) for request in spy.requests] == [
        (True, "text"),
        (False, "text"),
        (True, "text"),
        (True, "html"),
        (True, "xml"),
    ]


def test_a_glossary_reaches_the_translator(tmp_path: Path) -> None:
    client = Client(data=tmp_path)
    spy = recorded(client)
    ids = []
    for entries in ("Bier\tale\nWirt\thost", "Bier\tbeer\nGlas\tpint"):
        stored = {"name": "Pub", "source_lang": "DE", "target_lang": "EN", "entries": entries}
        ids.append(client.post("/v2/glossaries", json=stored).json()["glossary_id"])
    assert client.post("/v2/translate", json=BIER | {"glossary_id": ids[0]}).status_code == 200
    assert client.post("/v2/translate", json=BIER | {"glossary_ids": ",".join(ids)}).status_code == 200
    assert [dict(request.glossary) for request in spy.requests] == [
        {"Bier": "ale", "Wirt": "host"},
        {"Bier": "ale", "Wirt": "host", "Glas": "pint"},
    ]
    wrong = client.post("/v2/translate", json=BIER | {"source_lang": "EN", "target_lang": "ES", "glossary_id": ids[0]})
    assert (wrong.status_code, wrong.json()) == (
        400,
        {"message": "This glossary has no dictionary for en → es; its pairs: de → en."},
    )
    unknown = client.post("/v2/translate", json=BIER | {"glossary_id": "559192ed-8e23-4b3c-b7a3-2fa1c6f5a9a2"})
    assert (unknown.status_code, unknown.json()["message"]) == (
        404,
        "You have no glossary with this id; GET /v3/glossaries lists yours.",
    )


def test_a_cut_translation_says_so() -> None:
    answer = Client(FakeEngine(length_limited=frozenset({"lang"}))).post(
        "/v2/translate", json=BIER | {"text": ["lang"]}
    )
    assert answer.json()["translations"][0]["finish_reason"] == "length"


class Shouting(FakeEngine):
    """Whatever it translates is in capitals."""

    async def translate(self, requests: Sequence[TranslationRequest]) -> list[TranslationResult]:
        return [replace(request, text=request.text[3:].upper()) for request in await super().translate(requests)]


XML = """
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE resources [<!ENTITY firma "Bier &amp; Co">]>
<!-- Alle Texte -->
<resources>
    <string name="a > b">Ein <b>Bier</b></string>
    <string
        name="c">
        Erste Zeile\r
\tZweite  Zeile,\r
    </string>

    <link/><title>Eins</title><title>&firma; hier</title>
    <raw>Bleibt
        stehen</raw>
</resources>
"""


def test_xml_document_keeps_its_prolog_lines_and_indentation() -> None:
    body = BIER | {"text": [XML], "tag_handling": "xml", "ignore_tags": "raw"}
    (result,) = Client(Shouting()).post("/v2/translate", json=body).json()["translations"]
    wanted = XML
    for text in ("Ein ", "Bier<", "Erste Zeile", "Zweite  Zeile", "Eins", "hier"):
        wanted = wanted.replace(text, text.upper())
    assert result["text"] == wanted


@pytest.mark.parametrize(
    ("text", "kept", "translated"),
    [
        ('Ein <x id="1">Bier</x>', ['<x id="1">Bier</x>'], "EIN"),
        ("Ein <y/> Glas", ["<y/>"], "GLAS"),
        ('<x translate="no">Bier</x> hier', ['<x translate="no">Bier</x>'], "HIER"),
        ('<x translate="no"/> hier <y translate="no" n="1"/>', ['<x translate="no"/>', '"no" n="1"/>'], "HIER"),
    ],
)
def test_ignored_elements_come_back_to_the_letter(text: str, kept: list[str], translated: str) -> None:
    body = BIER | {"text": [text], "tag_handling": "xml", "ignore_tags": "x,y"}
    (result,) = Client(Shouting()).post("/v2/translate", json=body).json()["translations"]
    assert all(part in result["text"] for part in kept)
    assert translated in result["text"]
    assert result["text"].count("translate=") == text.count("translate=")
    assert result["billed_characters"] == len(text)


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({}, ["Ein Bier", "und Wein"]),
        ({"non_splitting_tags": "par"}, ["Ein Bier und Wein"]),
        ({"outline_detection": "0"}, ["Ein Bier und Wein"]),
        ({"outline_detection": False, "splitting_tags": ["b"]}, ["Ein", "Bier", "und Wein"]),
        ({"splitting_tags": "b", "ignore_tags": ["b", "x"]}, ["Ein", "und Wein"]),
    ],
)
def test_tags_divide_texts_as_the_request_says(options: dict[str, object], texts: list[str]) -> None:
    source = "<par>Ein <b>Bier</b> </par><par>und Wein</par>"
    client = Client(Shouting())
    body = BIER | {"text": [source], "tag_handling": "xml"} | options
    (result,) = client.post("/v2/translate", json=body).json()["translations"]
    assert re.sub("<[^>]*>", "", result["text"]).upper() == "EIN BIER UND WEIN"
    asked = [request.text for request in client.engine.requests]
    assert asked == texts
