"""Immersive Translate, Kiss Translator, Selection Translator, DeepLX: the requests that they send, to the letter."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import Overloaded
from tests.app.api.client import Client, recorded
from tests.app.api.fake_engine import FakeEngine, translator
from tests.request_builders import translation_request

CHROME = {
    "Accept": "*/*",
    "Content-Type": "application/json",
    "Origin": "chrome-extension://bpoadfkcbjbfhfodiogcnhhhpibjhbnh",
    "Sec-Fetch-Mode": "cors",
}
PAGE = [f"Absatz {number} ist nicht lang." for number in range(300)]


def posted(client: Client, path: str, **options: Any) -> Any:
    answer = client.post(path, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_immersive_translate() -> None:
    client = Client()
    body = '{"source_lang":"auto","target_lang":"en","text_list":["Ich möchte ein Bier","Quiero una cerveza"]}'
    answer = posted(client, "/imme?token=0123456789abcdef", content=body.encode(), headers=CHROME)
    assert answer == {
        "translations": [
            {"detected_source_lang": "de", "text": "en:Ich möchte ein Bier"},
            {"detected_source_lang": "es", "text": "en:Quiero una cerveza"},
        ]
    }
    assert client.engine.calls == 1


def test_immersive_translate_with_chinese_codes() -> None:
    client = Client(FakeEngine(loaded=[translator("zh-Hans", "en"), translator("en", "zh-Hans")]))
    body = {"source_lang": "zh-CN", "target_lang": "en", "text_list": ["你好"]}
    assert posted(client, "/imme", json=body) == {
        "translations": [{"detected_source_lang": "zh-CN", "text": "en:你好"}]
    }
    back = {"source_lang": "en", "target_lang": "zh-CN", "text_list": ["Hello"]}
    assert posted(client, "/imme", json=back)["translations"] == [
        {"detected_source_lang": "en", "text": "zh-Hans:Hello"}
    ]
    other = client.post("/imme", json=back | {"target_lang": "zh-TW"})
    assert (other.status_code, other.json()["code"]) == (400, "unknown_pair")


def test_a_page_is_one_request_and_one_call() -> None:
    client = Client()
    answer = posted(client, "/imme", json={"source_lang": "de", "target_lang": "en", "text_list": PAGE})
    assert [translation["text"] for translation in answer["translations"]] == [f"en:{text}" for text in PAGE]
    assert client.engine.requests == [translation_request(text, "de", "en") for text in PAGE]


def test_paragraphs_in_the_target_language_stay() -> None:
    client = Client()
    texts = ["Ich möchte heute ein Bier trinken.", "This paragraph was English from the beginning."]
    answer = posted(client, "/imme", json={"source_lang": "auto", "target_lang": "en", "text_list": texts})
    assert answer["translations"] == [
        {"detected_source_lang": "de", "text": f"en:{texts[0]}"},
        {"detected_source_lang": "en", "text": texts[1]},
    ]
    assert client.engine.requests == [translation_request(texts[0], "de", "en")]


def test_kiss_translator_text_by_text() -> None:
    headers = CHROME | {"Authorization": "Bearer secret"}
    for source in ("", "auto", "-", "de"):
        body = {"text": "Ich möchte ein Bier", "from": source, "to": "en"}
        answer = posted(Client(), "/kiss", json=body, headers=headers)
        assert answer == {"text": "en:Ich möchte ein Bier", "src": "de"}


def test_kiss_translator_where_it_aggregates() -> None:
    body = {"texts": ["Ich möchte ein Bier", "ein Glas"], "from": "de", "to": "en"}
    assert posted(Client(), "/kiss", json=body, headers=CHROME | {"KEY": "secret"}) == {
        "translations": [{"text": "en:Ich möchte ein Bier", "src": "de"}, {"text": "en:ein Glas", "src": "de"}]
    }


def test_selection_translator() -> None:
    body = '{"name":"Parlance","text":"Ich möchte ein Bier\\n\\nein Glas","destination":["英语","德语"],"source":""}'
    assert posted(Client(), "/hcfy", content=body.encode(), headers=CHROME) == {
        "text": "Ich möchte ein Bier\n\nein Glas",
        "from": "德语",
        "to": "英语",
        "result": ["en:Ich möchte ein Bier", "", "en:ein Glas"],
    }


@pytest.mark.parametrize("source", [None, "英语"])
def test_selection_translator_takes_the_second_language_for_a_text_in_the_first(source: str | None) -> None:
    body = {"name": "x", "text": "I would like a beer", "destination": ["英语", "西班牙语"], "source": source}
    assert posted(Client(), "/hcfy", json=body) == {
        "text": "I would like a beer",
        "from": "英语",
        "to": "西班牙语",
        "result": ["es:I would like a beer"],
    }


def test_selection_translator_in_chinese() -> None:
    client = Client(FakeEngine(loaded=[translator("zh", "en"), translator("en", "zh")]))
    body = {"name": "x", "text": "你好，划词翻译", "destination": ["中文(简体)", "英语"]}
    answer = posted(client, "/hcfy", json=body)
    assert (answer["from"], answer["to"], answer["result"]) == ("中文(简体)", "英语", ["en:你好，划词翻译"])


def test_deeplx() -> None:
    body = {"text": "Ich möchte ein Bier", "source_lang": "auto", "target_lang": "EN"}
    answer = posted(Client(), "/deeplx?token=secret", json=body, headers=CHROME)
    assert 10**9 <= answer.pop("id") < 10**10
    assert answer == {
        "code": 200,
        "data": "en:Ich möchte ein Bier",
        "alternatives": [],
        "source_lang": "DE",
        "target_lang": "EN",
        "method": "Free",
    }


def test_deepl_as_a_full_address() -> None:
    body = {"text": ["Ich möchte ein Bier"], "target_lang": "EN", "source_lang": "DE", "tag_handling": "html"}
    assert posted(Client(), "/deepl", json=body, headers=CHROME)["translations"] == [
        {"detected_source_language": "DE", "text": "en:Ich möchte ein Bier", "billed_characters": 19}
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ich <b1>möchte</b1> ein Bier", "html"),
        ("Ich möchte <b0></b0> ein Bier", "html"),
        ("ein <i2/> Bier", "html"),
        ('ein <a id="1" href=x>Bier\nhier</a>', "html"),
        ("<b1>a <b2>b</b2></b1>", "html"),
        ("Ich {0} möchte {{1}} ein Bier", "text"),
        ("if a < b and b > c", "text"),
        ("ein <b> allein", "text"),
        ("5 < 6 & 7 > 2", "text"),
        ("&lt;b&gt;", "text"),
    ],
)
def test_texts_with_placeholders_that_are_tags_go_as_html(text: str, expected: str) -> None:
    client = Client()
    spy = recorded(client)
    posted(client, "/imme", json={"source_lang": "de", "target_lang": "en", "text_list": [text]})
    assert [request.format for request in spy.requests] == [expected]


BODIES: dict[str, dict[str, Any]] = {
    "/imme": {"source_lang": "de", "target_lang": "fr", "text_list": ["a"]},
    "/kiss": {"from": "de", "to": "fr", "text": "a"},
    "/hcfy": {"name": "x", "text": "a", "source": "德语", "destination": ["法语"]},
    "/deeplx": {"text": "a", "source_lang": "DE", "target_lang": "FR"},
}


@pytest.mark.parametrize("path", BODIES)
def test_errors(path: str) -> None:
    answer = Client().post(path, json=BODIES[path])
    error = answer.json()
    assert answer.status_code == 400
    if path == "/deeplx":
        message = "There is no model for DE → FR here. Loaded pairs: de → en, en → es, es → en."
        assert error == {"code": 400, "message": message}
    else:
        assert error["error"] == "There is no model for de → fr here. Loaded pairs: de → en, en → es, es → en."
        assert error["code"] == "unknown_pair"
    full = Client(FakeEngine(full=Overloaded("Try again in 3 seconds.", retry_after_s=3))).post(path, json=BODIES[path])
    assert (full.status_code, full.headers["retry-after"]) == (429, "3")


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/imme", {"target_lang": "en", "text_list": "a", "source_lang": 5}, '"source_lang" is 5; it takes a text.'),
        ("/imme", {"target_lang": "en", "text_list": [None]}, '"text_list" holds null; it takes a list of texts.'),
        ("/imme", {"text_list": ["a"]}, '"target_lang" is missing; add it to the request, as the example at /docs'),
        ("/kiss", {"to": "en"}, "The body takes text or texts, one of the two; send one text, or a list of texts."),
        ("/kiss", {"to": "en", "texts": {}}, '"texts" is an object; it takes a list of texts.'),
        ("/hcfy", {"text": "a", "destination": []}, '"destination" has 0 items; it takes at least 1.'),
        ("/hcfy", {"text": "a\n" * 600, "destination": ["英语"]}, '"text" has 601 texts; one request takes 512.'),
        ("/deeplx", {"text": "a", "target_lang": ""}, '"target_lang" is empty; send at least one character'),
    ],
)
def test_invalid_fields(path: str, body: dict[str, Any], sentence: str) -> None:
    client = Client()
    answer = client.post(path, json=body)
    assert answer.status_code == 400
    assert (answer.json().get("error") or answer.json()["message"]).startswith(sentence)
    assert client.engine.calls == 0


def test_nothing_to_translate() -> None:
    assert posted(Client(), "/imme", json={"target_lang": "en", "text_list": []}) == {"translations": []}


def test_an_extension_may_be_allowed_to_call() -> None:
    client = Client(cors_origins="chrome-extension://bpoadfkcbjbfhfodiogcnhhhpibjhbnh, moz-extension://6b9-a")
    preflight = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    answer = client.request("OPTIONS", "/imme", headers={"Origin": CHROME["Origin"], **preflight})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, CHROME["Origin"])
    key = client.request(
        "OPTIONS",
        "/kiss",
        headers={"Origin": "moz-extension://6b9-a", **preflight, "Access-Control-Request-Headers": "KEY"},
    )
    assert key.status_code == 200
    other = client.request("OPTIONS", "/imme", headers={"Origin": "chrome-extension://other", **preflight})
    assert other.status_code == 400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<b1>Bier & Wein</b1>", "<b1>en:Bier & Wein</b1>"),
        ("<b1>Bier &amp; Wein</b1>", "<b1>en:Bier &amp; Wein</b1>"),
        ("Bier & Wein &lt;hier&gt;", "en:Bier & Wein &lt;hier&gt;"),
    ],
)
def test_an_ampersand_is_written_as_the_client_writes_it(text: str, expected: str) -> None:
    answer = posted(Client(), "/imme", json={"source_lang": "de", "target_lang": "en", "text_list": [text]})
    assert sorted(answer["translations"][0]["text"]) == sorted(expected)
