"""Values of POST /v1/completions that clients of OpenAI and vLLM send, with the meaning that they have there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app.api.client import Client
from tests.app.api.openai.writer import Writer
from tests.request_builders import generation_request

PATH = "/v1/completions"


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({"seed": -1}, {}),
        ({"seed": -1.0}, {}),
        ({"seed": -2}, {"seed": 2**62 - 2}),
        ({"seed": -(2**63)}, {"seed": 0}),
        ({"top_p": 0}, {"temperature": 0.0}),
        ({"top_p": 0, "temperature": 0.7}, {"temperature": 0.0}),
        ({"temperature": 0.001}, {"temperature": 0.01}),
        ({"temperature": 1e-9}, {"temperature": 0.01}),
        ({"logit_bias": {"5": 0, "6": 0.0}}, {}),
        ({"logit_bias": {}}, {}),
        (
            {"max_tokens": 3.0, "n": 2.0, "seed": 7.0, "top_k": 5.0},
            {"max_new_tokens": 3, "n": 2, "seed": 7, "top_k": 5},
        ),
        ({"logprobs": 2.0}, {"logprobs": True, "top_logprobs": 2}),
        ({"no_repeat_ngram_size": 4.0, "best_of": 1.0}, {"no_repeat_ngram_size": 4}),
    ],
)
def test_value_has_the_meaning_that_it_has_elsewhere(fields: dict[str, Any], asked: dict[str, Any]) -> None:
    client = Client(Writer())
    answer = client.post(PATH, json={"prompt": "分开", **fields})
    assert answer.status_code == 200, answer.text
    options = {"max_new_tokens": 16, "temperature": 1.0, **asked}
    assert client.engine.requests == [generation_request("分开", "lyrics-zh", **options)]


def test_negative_seed_and_several_texts_stay_in_range() -> None:
    client = Client(Writer())
    answer = client.post(PATH, json={"prompt": "分开", "seed": -2, "n": 4})
    assert [choice["seed"] for choice in answer.json()["choices"]] == [2**62 - 2 + i for i in range(4)]


def test_whole_numbers_with_a_point_are_whole_everywhere() -> None:
    texts = {"q": "bier", "source": "de", "target": "en"}
    assert Client().post("/translate", json={**texts, "beam_size": 4.0, "alternatives": 1.0}).status_code == 200
    assert Client().post("/generate", json={"prompt": "雨", "max_new_tokens": 4.0}).status_code == 200
    assert Client().post("/generate", json={"prompt": "雨", "max_new_tokens": 4.5}).status_code == 422
