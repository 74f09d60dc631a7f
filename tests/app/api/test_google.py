"""Google's Translation API v2, as its clients call it: JSON, forms, queries."""

from __future__ import annotations

import pytest

from app.errors import Overloaded
from tests.app.api.client import Client, recorded
from tests.app.api.fake_engine import FakeEngine, translator

PATHS = ["/language/translate/v2", "/google/language/translate/v2"]
ANSWER = {
    "data": {
        "translations": [
            {"translatedText": "en:Ich möchte ein Bier", "detectedSourceLanguage": "de"},
            {"translatedText": "en:Quiero una cerveza", "detectedSourceLanguage": "es"},
        ]
    }
}
CLOUD = {  # as google-cloud-translate sends it
    "target": "en",
    "q": ["Ich möchte ein Bier", "Quiero una cerveza"],
    "cid": [],
    "format": None,
    "source": None,
    "model": None,
}
TEXTS = ["Ich möchte ein Bier", "Quiero una cerveza"]


@pytest.mark.parametrize("path", PATHS)
def test_every_request_format(path: str) -> None:
    client = Client()
    for answer in (
        client.post(path, params={"prettyPrint": "false"}, json=CLOUD),
        client.post(f"{path}?key=secret", data={"target": "en", "q": TEXTS}),
        client.post(path, params={"target": "en", "q": TEXTS, "key": "secret"}),
        client.get(path, params={"target": "en", "q": TEXTS, "key": "secret", "prettyprint": "false"}),
    ):
        assert (answer.status_code, answer.json()) == (200, ANSWER)


@pytest.mark.parametrize("path", PATHS)
def test_refusals_before_the_body_is_parsed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the route's own family, and before anything is computed."""
    client = Client(max_body_bytes=1024)
    answer = client.post(path, json={"target": "en", "q": "x" * 2000})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, 413)

    def refuse(engine: FakeEngine) -> None:
        raise Overloaded("Too many requests right now.", retry_after_s=1, reason="overloaded_requests")

    monkeypatch.setattr(FakeEngine, "check_room", refuse)
    assert client.post(f"{path}/detect", json={"q": "bier"}).status_code == 429


def test_one_text_with_its_source() -> None:
    answer = Client().post(PATHS[0], json={"target": "en-US", "source": "de", "q": "Bier", "model": "nmt"})
    assert answer.json() == {"data": {"translations": [{"translatedText": "en:Bier"}]}}


def test_html_is_the_default() -> None:
    client = Client()
    spy = recorded(client)
    for fields in ({}, {"format": "html"}, {"format": "text"}):
        client.post(PATHS[0], json={"target": "en", "source": "de", "q": "<b>a</b>", **fields})
    assert [request.format for request in spy.requests] == ["html", "html", "text"]


def test_chinese_as_google_spells_it() -> None:
    client = Client(FakeEngine(loaded=[translator("zh-Hans", "en"), translator("en", "zh-Hans")]))
    answer = client.post(PATHS[0], json={"target": "zh-CN", "source": "en", "q": "Hello", "format": "text"})
    assert answer.json() == {"data": {"translations": [{"translatedText": "zh-Hans:Hello"}]}}
    answer = client.post(PATHS[0], json={"target": "en", "q": "你好，世界", "format": "text"})
    assert answer.json()["data"]["translations"][0]["detectedSourceLanguage"] == "zh-CN"


@pytest.mark.parametrize("path", PATHS)
def test_languages_and_detection(path: str) -> None:
    client = Client()
    assert client.get(f"{path}/languages").json() == {
        "data": {"languages": [{"language": "de"}, {"language": "en"}, {"language": "es"}]}
    }
    assert client.get(f"{path}/languages?target=en").json()["data"]["languages"][0] == {
        "language": "de",
        "name": "German",
    }
    answer = client.post(f"{path}/detect", json={"q": ["Ich möchte ein Bier", "12"]}).json()
    (sure,), (unsure,) = answer["data"]["detections"]
    assert (sure["language"], sure["isReliable"]) == ("de", False)
    assert sure["confidence"] > 0.9
    assert unsure["confidence"] == 0
    queried = client.get(f"{path}/detect", params={"q": ["Ich möchte ein Bier", "12"], "key": "secret"})
    assert queried.json() == answer
    assert client.get(f"{path}/detect").status_code == 400


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"target": "fr"}, "There is no model into fr here. Loaded pairs: de → en, en → es, es → en."),
        ({"target": "en", "format": "xml"}, '"format" is "xml"; it takes "html" or "text".'),
        ({}, '"target" is missing; add it to the request, as the example at /docs does.'),
    ],
)
@pytest.mark.parametrize("path", PATHS)
def test_errors_in_google_s_form(path: str, fields: dict[str, str], message: str) -> None:
    for answer in (Client().post(path, json={"q": "a", **fields}), Client().get(path, params={"q": "a", **fields})):
        assert answer.status_code == 400
        assert answer.json() == {
            "error": {
                "code": 400,
                "message": message,
                "errors": [{"message": message, "domain": "global", "reason": "invalid"}],
                "status": "INVALID_ARGUMENT",
            }
        }


def test_detection_without_any_model() -> None:
    answer = Client(FakeEngine(loaded=[])).post(f"{PATHS[0]}/detect", json={"q": ["a"]})
    assert answer.json() == {"data": {"detections": [[]]}}
