"""POST /attention."""

from __future__ import annotations

from typing import Any

import pytest

from app.api.schemas.attention import AttentionAnswer
from app.engine.jobs import AttentionJob
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine

BIER = {"id": 17, "piece": "▁bier", "text": "bier", "start": 0, "end": 4, "special": False}
END = {"id": 3, "piece": "</s>", "text": "", "start": None, "end": None, "special": True}
START = END | {"id": 2, "piece": "<s>"}
BEER = BIER | {"id": 5, "piece": "▁beer", "text": "beer"}


def test_the_whole_answer() -> None:
    client = Client()
    answer = client.post("/attention", json={"source": "bier", "kinds": ["cross"]})
    assert answer.status_code == 200
    assert answer.json() == {
        "model": "tiny-de-en",
        "source": {"text": "bier", "tokens": [BIER, END]},
        "target": {"text": "beer", "forced": False, "input_tokens": [START, BEER], "output_tokens": [BEER, END]},
        "attention": {
            "cross": {
                "axes": ["layer", "head", "query", "key"],
                "layers": [0],
                "heads": [0],
                "shape": [1, 1, 2, 2],
                "weights": [[[[0.75, 0.25], [0.5, 0.5]]]],
            }
        },
    }
    # The endpoint does not validate what it sends, so that large answers are fast; this does.
    AttentionAnswer.model_validate_json(answer.content, strict=True)


def test_the_answer_is_compact_utf8() -> None:
    content = Client().post("/attention", json={"source": "bier"}).content
    assert b": " not in content
    assert "▁bier".encode() in content


def test_defaults_ask_for_everything() -> None:
    client = Client()
    answer = client.post("/attention", json={"source": "bier"})
    assert list(answer.json()["attention"]) == ["encoder", "decoder", "cross"]
    assert client.engine.jobs == [AttentionJob(source="bier")]


def test_every_field_reaches_the_engine() -> None:
    client = Client()
    fields = {"source": "bier", "target": "ale", "kinds": ["cross", "cross"], "layers": [0, -1], "heads": [3]}
    answer = client.post("/attention", json=fields | {"model": "tiny-de-en"})
    assert answer.json()["target"]["forced"] is True
    assert client.engine.jobs == [AttentionJob("bier", "ale", "tiny-de-en", ("cross",), (0, -1), (3,))]


def test_all_may_be_said() -> None:
    client = Client()
    client.post("/attention", json={"source": "bier", "layers": "all", "heads": "all"})
    assert client.engine.jobs == [AttentionJob(source="bier")]


def test_an_answer_beyond_the_limit_says_how_to_shrink_it() -> None:
    engine = FakeEngine(weights=[[[[0.5] * 10] * 10] * 2] * 3)
    answer = Client(engine, max_attention_values=1000).post("/attention", json={"source": "bier"})
    assert answer.status_code == 422
    assert answer.json()["error"] == (
        'This answer would hold 1,800 weights; one answer holds 1,000. Ask for fewer "kinds", "layers" or "heads".'
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"source": " "}, '"source" is empty; send at least one character that is not white space.'),
        ({"target": ""}, '"target" is empty; leave it out to see the model\'s own translation.'),
        ({"kinds": []}, '"kinds" is empty; it takes a list of "encoder", "decoder" and "cross".'),
        ({"kinds": "cross"}, '"kinds" is "cross"; it takes a list of "encoder", "decoder" and "cross".'),
        ({"kinds": [["cross"]]}, '"kinds" holds a list; it takes a list of "encoder", "decoder" and "cross".'),
        ({"layers": []}, '"layers" has 0 numbers; it takes 1 to 256.'),
        ({"heads": [0] * 257}, '"heads" has 257 numbers; it takes 1 to 256.'),
        (
            {"layers": [True]},
            '"layers" holds true; it takes "all" or a list of whole numbers, such as [0, 1] or [-1] for the last.',
        ),
        (
            {"layers": 10**1000},
            '"layers" is a very large number; it takes "all" or a list of whole numbers, such as [0, 1] or [-1]'
            " for the last.",
        ),
    ],
)
def test_refusals(fields: dict[str, Any], sentence: str) -> None:
    client = Client()
    answer = client.post("/attention", json={"source": "bier"} | fields)
    assert (answer.status_code, answer.json()["error"]) == (422, sentence)
    assert client.engine.calls == 0
