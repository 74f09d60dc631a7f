"""POST /score."""

from __future__ import annotations

import math
from typing import Any

import pytest

from app.engine.interface import ScoreQuery, ScoreResult, TokenExpectation
from tests.app.api.client import Client
from tests.app.api.fake_engine import BEER, FakeEngine

GIVEN = {"logprob": None, "rank": None, "entropy": None, "top": None}


def test_the_whole_answer_of_a_translator() -> None:
    answer = Client().post("/score", json={"source": "bier", "target": "beer"})
    assert answer.status_code == 200
    came = {"logprob": -0.25, "rank": 1, "entropy": 1.5}
    assert answer.json() == {
        "model": "tiny-de-en",
        "text": "beer",
        "distribution": "decoding",
        "tokens": [
            {
                "id": 5,
                "piece": "▁beer",
                "text": "beer",
                "start": 0,
                "end": 4,
                "special": False,
                "word": 0,
                **came,
                "top": [{"id": 21, "piece": "开", "text": "开", "logprob": -0.25}],
            },
            {
                "id": 3,
                "piece": "</s>",
                "text": "",
                "start": None,
                "end": None,
                "special": True,
                "word": None,
                "logprob": -0.75,
                "rank": 2,
                "entropy": 1.0,
                "top": [],
            },
        ],
        "logprob": -1.0,
        "counted": {"tokens": 2, "characters": 4},
        "perplexity": round(math.exp(0.5), 4),
        "nats_per_token": 0.5,
        "bits_per_token": 0.7213,
        "nats_per_character": 0.25,
        "bits_per_character": 0.3607,
    }


def test_the_first_character_of_a_lyricist_is_given() -> None:
    answer = Client().post("/score", json={"text": "分开", "distribution": "network"})
    result = answer.json()
    assert {name: result["tokens"][0][name] for name in GIVEN} == GIVEN
    assert result["counted"] == {"tokens": 1, "characters": 1}
    assert (result["distribution"], result["bits_per_character"]) == ("network", 0.3607)


def test_every_field_reaches_the_engine() -> None:
    client = Client()
    client.post("/score", json={"source": "bier", "target": "ale", "model": "tiny-de-en", "top_k": 10})
    client.post("/score", json={"text": " ", "distribution": "network"})
    assert client.engine.requests == [
        ScoreQuery("ale", "bier", "tiny-de-en", 10, by_rules=True),
        ScoreQuery(" ", by_rules=False),
    ]


def test_an_improbable_text_without_characters_has_numbers_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def score(self: FakeEngine, request: ScoreQuery) -> ScoreResult:
        return ScoreResult("tiny-de-en", "b", (BEER,), (TokenExpectation(-1e4, 9, 0.0, ()),), -1e4, 1, 0)

    monkeypatch.setattr(FakeEngine, "score", score)
    result = Client().post("/score", json={"source": "a", "target": "b"}).json()
    assert (result["nats_per_character"], result["bits_per_character"]) == (None, None)
    assert result["perplexity"] == pytest.approx(math.exp(700))


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        (
            {},
            "text",
            'There is nothing to score; send a "source" and its "target" to a translator, or a "text" to a lyricist.',
        ),
        ({"source": "a"}, "target", '"target" is missing; send the translation that is to be scored.'),
        (
            {"target": "a"},
            "source",
            '"source" is missing; send what "target" translates, or send a lyricist its "text" alone.',
        ),
        (
            {"text": "分开", "target": "a"},
            "text",
            '"text" stands alone, for a lyricist; leave it out, or leave out "source" and "target".',
        ),
        ({"text": ""}, "text", '"text" is empty; give at least two characters.'),
        (
            {"source": "a", "target": " \n"},
            "target",
            '"target" is empty; send at least one character that is not white space.',
        ),
        ({"text": "a" * 11}, "text", '"text" has a text of 11 characters; one text may have 10. Send it in parts.'),
        (
            {"source": "a", "target": "a" * 11},
            "target",
            '"target" has a text of 11 characters; one text may have 10. Send it in parts.',
        ),
        (
            {"text": "分开", "distribution": "raw"},
            "distribution",
            '"distribution" is "raw"; it takes "decoding" or "network".',
        ),
    ],
)
def test_refusals(fields: dict[str, Any], field: str, sentence: str) -> None:
    client = Client(max_text_characters=10)
    answer = client.post("/score", json=fields)
    body = answer.json()
    assert (answer.status_code, body["field"], body["error"]) == (422, field, sentence)
    assert client.engine.calls == 0
