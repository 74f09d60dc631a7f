"""GET and POST /v2/languages, /v2/usage."""

from __future__ import annotations

import pytest

from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine, translator

SOURCES = [
    {"language": "DE", "name": "German"},
    {"language": "EN", "name": "English"},
    {"language": "ES", "name": "Spanish"},
]
TARGETS = [
    {"language": "EN-GB", "name": "English (British)", "supports_formality": False},
    {"language": "EN-US", "name": "English (American)", "supports_formality": False},
    {"language": "ES", "name": "Spanish", "supports_formality": False},
]
FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_languages() -> None:
    client = Client()
    for answer in (
        client.get("/v2/languages"),
        client.post("/v2/languages"),
        client.get("/v2/languages?type=source"),
        client.request("GET", "/v2/languages", headers=FORM),  # deepl-python's request for source languages
    ):
        assert answer.json() == SOURCES
    for answer in (
        client.get("/v2/languages?type=target"),  # as deepl-node
        client.request("GET", "/v2/languages", content=b"type=target", headers=FORM),  # as deepl-python
        client.post("/v2/languages", content=b"type=target", headers=FORM),
        client.post("/v2/languages", json={"type": "target"}),
    ):
        assert answer.json() == TARGETS


@pytest.mark.parametrize(
    ("pairs", "sources", "targets"),
    [
        ([("zh-Hans", "pt-BR")], ["ZH"], ["PT-BR"]),
        ([("en", "zh"), ("en", "pt")], ["EN"], ["PT-BR", "PT-PT", "ZH", "ZH-HANS"]),
        ([("de", "zh-Hant"), ("no", "no")], ["DE", "NB"], ["NB", "ZH-HANT"]),
    ],
)
def test_codes_as_deepl_spells_them(pairs: list[tuple[str, str]], sources: list[str], targets: list[str]) -> None:
    client = Client(FakeEngine(loaded=[translator(*pair) for pair in pairs]))
    assert [each["language"] for each in client.get("/v2/languages").json()] == sources
    assert [each["language"] for each in client.get("/v2/languages?type=target").json()] == targets


def test_unknown_type_is_refused() -> None:
    answer = Client().get("/v2/languages?type=both")
    assert (answer.status_code, answer.json()) == (400, {"message": '"type" is "both"; it takes "source" or "target".'})


def test_usage_counts_characters_and_has_no_limit_without_a_quota() -> None:
    client = Client()
    assert client.get("/v2/usage").json() == {"character_count": 0, "character_limit": 1_000_000_000_000}
    client.post("/v2/translate", json={"text": ["für", "ab"], "source_lang": "DE", "target_lang": "EN"})
    client.post("/v2/translate", json={"text": ["abc"], "source_lang": "DE", "target_lang": "FR"})
    assert client.post("/v2/usage").json() == {"character_count": 5, "character_limit": 1_000_000_000_000}


def test_pairs_of_glossaries() -> None:
    assert Client().get("/v2/glossary-language-pairs").json() == {
        "supported_languages": [
            {"source_lang": "de", "target_lang": "en"},
            {"source_lang": "en", "target_lang": "es"},
            {"source_lang": "es", "target_lang": "en"},
        ]
    }
