"""POST /detect and GET /frontend/settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.engine.interface import PoolStatus
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine, translator
from tests.app.api.keyed_client import ADMIN, USE, keys_file, with_gate


def detected(client: Client, q: Any) -> list[dict[str, Any]]:
    answer = client.post("/detect", json={"q": q})
    assert answer.status_code == 200, answer.text
    result: list[dict[str, Any]] = answer.json()
    return result


@pytest.mark.parametrize(
    ("text", "language"),
    [("Ich möchte ein Bier", "de"), ("I want a beer", "en"), ("Quiero una cerveza, por favor", "es")],
)
def test_likeliest_language_comes_first(text: str, language: str) -> None:
    results = detected(Client(), text)
    assert results[0]["language"] == language
    assert 50 < results[0]["confidence"] <= 100
    assert [result["confidence"] for result in results] == sorted(
        (result["confidence"] for result in results), reverse=True
    )


def test_several_texts_have_one_ranking() -> None:
    results = detected(Client(), ["Ich möchte ein Bier", "Quiero una cerveza, por favor"])
    assert {result["language"] for result in results[:2]} == {"de", "es"}
    assert all(result["confidence"] > 50 for result in results[:2])


def test_at_most_three_languages_are_returned() -> None:
    loaded = [translator(code, "en") for code in ("de", "es", "fr", "it", "pt", "nl")]
    results = detected(Client(FakeEngine(loaded=loaded)), ["Ich", "Quiero", "Je suis", "Io sono", "Ik ben"])
    assert len(results) == 3


@pytest.mark.parametrize("text", [" ", "😀", "123"])
def test_text_without_a_language_as_in_libretranslate(text: str) -> None:
    assert detected(Client(), text) == [{"confidence": 0.0, "language": "en"}]


@pytest.mark.parametrize("way", ["data", "params"])
def test_forms_and_query_parameters(way: str) -> None:
    answer = Client().post("/detect", **{way: {"q": "Ich möchte ein Bier", "api_key": "x"}})
    assert answer.json()[0]["language"] == "de"


@pytest.mark.parametrize("q", [5, None, {}, [1], [None], "", [], "\ud800"])
def test_wrong_types_are_refused(q: Any) -> None:
    answer = Client().post_raw("/detect", json.dumps({"q": q}).encode())
    assert (answer.status_code, answer.json()["field"]) == (400, "q")


def test_limits() -> None:
    client = Client(max_batch_texts=1, max_text_characters=3)
    assert client.post("/detect", json={"q": ["a", "b"]}).json()["error"].startswith('"q" has 2 texts')
    assert client.post("/detect", json={"q": "abcd"}).status_code == 422


def test_detection_without_models() -> None:
    answer = Client(FakeEngine(loaded=[])).post("/detect", json={"q": "ja"})
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_pair")
    loading = PoolStatus(False, {"cpu": "starting"}, 0, ())
    answer = Client(FakeEngine(loaded=[], pool_status=loading)).post("/detect", json={"q": "ja"})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")


def test_frontends_learn_every_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.documents.SUPPORTED", (".txt", ".odt"))
    assert Client(max_text_characters=77).get("/frontend/settings").json() == {
        "charLimit": 77,
        "frontendTimeout": 500,
        "apiKeys": False,
        "keyRequired": False,
        "suggestions": False,
        "filesTranslation": True,
        "supportedFilesFormat": [".txt", ".odt"],
        "beamSize": 4,
        "modelChanges": "off",
        "language": {"source": {"code": "auto", "name": "Auto Detect"}, "target": {"code": "en", "name": "English"}},
    }


def test_frontends_learn_the_beam_of_requests_that_name_none() -> None:
    assert Client(beam_size=2).get("/frontend/settings").json()["beamSize"] == 2


def test_frontends_learn_whether_their_key_may_change_models(tmp_path: Path) -> None:
    client = Client()
    with_gate(client, keys_file(tmp_path), rates="3/minute")
    answers = [
        client.get("/frontend/settings", headers={"X-Api-Key": key} if key else {})
        for key in (None, USE, ADMIN, "wrong", "wrong", "wrong", "wrong")
    ]
    assert [answer.json().get("modelChanges") for answer in answers] == ["key", "key", "allowed", *["key"] * 3, None]
    assert answers[-1].status_code == 429  # guesses are limited
    fixed = Client(model_changes=False)
    with_gate(fixed, keys_file(tmp_path))
    assert fixed.get("/frontend/settings", headers={"X-Api-Key": ADMIN}).json()["modelChanges"] == "off"


def test_frontends_learn_what_is_switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.documents.SUPPORTED", ())
    client = Client(FakeEngine(loaded=[translator("en", "zh-Hans")]))
    settings = client.get("/frontend/settings").json()
    assert (settings["suggestions"], settings["filesTranslation"]) == (False, False)
    assert settings["language"]["target"] == {"code": "zh-Hans", "name": "Chinese (simplified)"}


@pytest.mark.parametrize(
    ("loaded", "asked"),
    [
        (("zh-Hans", "en"), ("zh", "EN")),
        (("zh", "en"), ("zh-hans", "en")),
        (("zh-Hant", "en"), ("zt", "en")),
        (("en", "pt-BR"), ("en", "pb")),
        (("en", "pt-BR"), ("en", "PT-br")),
    ],
)
def test_libretranslates_names_of_languages(loaded: tuple[str, str], asked: tuple[str, str]) -> None:
    client = Client(FakeEngine(loaded=[translator(*loaded)]))
    answer = client.post("/translate", json={"q": "a", "source": asked[0], "target": asked[1]})
    assert answer.json() == {"translatedText": f"{loaded[1]}:a"}
