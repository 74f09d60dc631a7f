"""A look that names no model is at the translator of the languages of its texts, as POST /translate chooses it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app.api.client import Client
from tests.app.api.fake_engine import LYRICIST, FakeEngine, translator

GERMAN, ENGLISH, SPANISH = "Ich möchte ein Bier trinken", "I would like a beer", "Me gustaría una cerveza"
PAIRS = [("de", "en"), ("en", "es"), ("en", "de"), ("es", "en")]


@pytest.fixture(scope="module")
def client() -> Client:
    return Client(FakeEngine(loaded=[*(translator(*pair) for pair in PAIRS), LYRICIST]))


@pytest.mark.parametrize("path", ["/attention", "/walkthrough", "/score"])
@pytest.mark.parametrize(
    ("fields", "model"),
    [
        ({"source": GERMAN}, "tiny-de-en"),
        ({"source": SPANISH}, "tiny-es-en"),
        ({"source": ENGLISH}, "tiny-en-es"),
        ({"source": ENGLISH, "target_language": "de"}, "tiny-en-de"),
        ({"source": ENGLISH, "target_language": "de-AT"}, "tiny-en-de"),
        ({"source": ENGLISH, "target": GERMAN}, "tiny-en-de"),
        ({"source": ENGLISH, "target": SPANISH}, "tiny-en-es"),
        ({"source": GERMAN, "model": "tiny-en-es"}, "tiny-en-es"),
        ({"source": "12"}, "tiny-de-en"),
    ],
)
def test_the_translator_is_that_of_the_texts(client: Client, path: str, fields: dict[str, Any], model: str) -> None:
    if path == "/score":
        fields = {"target": ENGLISH if model.endswith("en") else GERMAN if model.endswith("de") else SPANISH, **fields}
    answer = client.post(path, json=fields)
    assert (answer.status_code, answer.json().get("model")) == (200, model)


def test_a_language_without_a_model_is_refused_by_its_field(client: Client) -> None:
    answer = client.post("/attention", json={"source": GERMAN, "target_language": "fr"})
    assert (answer.status_code, answer.json()["field"]) == (400, "target_language")
    assert answer.json()["error"].startswith("There is no model into fr here. Loaded pairs: de → en, en → es")


def test_ids_of_tokens_have_no_language(client: Client) -> None:
    client.post("/attention", json={"source_ids": [5, 6]})
    assert client.engine.requests[-1].model is None  # type: ignore[attr-defined]


def test_the_only_translator_is_taken_without_detection() -> None:
    client = Client(FakeEngine(loaded=[translator("de", "en")]))
    client.app.state.services.detector.detect = None  # it would fail
    try:
        assert client.post("/attention", json={"source": ENGLISH}).json()["model"] == "tiny-de-en"
    finally:
        del client.app.state.services.detector.detect
