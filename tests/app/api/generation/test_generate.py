"""POST /generate."""

from __future__ import annotations

from typing import Any

import pytest

from models.decoding.options import ROW_PARAMETERS, RowParameter
from tests.app.api.client import Client
from tests.request_builders import generation_request


def test_defaults() -> None:
    client = Client()
    answer = client.post("/generate", json={"prompt": "分开"})
    assert answer.status_code == 200
    assert answer.json() == {"text": "后0", "finish_reason": "length", "seed": 1234, "model": "lyrics-zh"}
    assert client.engine.requests == [generation_request(prompt="分开")]


def test_every_field_reaches_the_engine() -> None:
    client = Client()
    fields = {
        "prompt": "分开",
        "model": "lyrics-zh",
        "max_new_tokens": 7,
        "temperature": 0,
        "top_k": 40,
        "top_p": 0.9,
        "seed": 2**63 - 2,
        "n": 2,
        "stop": ["\n", "。"],
        "presence_penalty": 1,
        "frequency_penalty": -1,
        "repetition_penalty": 1.25,
        "no_repeat_ngram_size": 4,
    }
    answer = client.post("/generate", json=fields)
    assert answer.json() == {
        "text": "后0",
        "finish_reason": "length",
        "seed": 2**63 - 2,
        "model": "lyrics-zh",
        "alternatives": [{"text": "后1", "finish_reason": "length", "seed": 2**63 - 1}],
    }
    assert client.engine.requests == [generation_request(**fields | {"stop": ("\n", "。")})]


@pytest.mark.parametrize("path", ["/generate", "/v1/completions"])
@pytest.mark.parametrize(
    "row", [row for row in ROW_PARAMETERS.values() if row.kind != "other"], ids=lambda row: row.name
)
def test_every_option_of_sampling_reaches_the_engine(path: str, row: RowParameter) -> None:
    least, most = row.served or (row.least, row.most)
    value = (least + most) / 2 if most == row.neutral else most
    client = Client()
    assert client.post(path, json={"prompt": "a", row.name: value}).status_code == 200
    assert getattr(client.engine.requests[0].decoding, row.name) == value
    beyond = client.post(path, json={"prompt": "a", row.name: most + 1})
    assert beyond.status_code in (400, 422) and row.name in beyond.text


def test_stop_may_be_one_text() -> None:
    client = Client()
    client.post("/generate", json={"prompt": "a", "stop": "\n"})
    assert client.engine.requests == [generation_request(prompt="a", stop=("\n",))]


def test_white_space_may_be_a_prompt() -> None:
    assert Client().post("/generate", json={"prompt": "\n"}).status_code == 200


def test_the_default_length_gives_way_to_a_lower_limit() -> None:
    client = Client(max_new_tokens=50)
    client.post("/generate", json={"prompt": "a"})
    assert client.engine.requests == [generation_request(prompt="a", max_new_tokens=50)]


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        ({"prompt": ""}, "prompt", '"prompt" is empty; begin the text with at least one character.'),
        ({"max_new_tokens": 1025}, "max_new_tokens", '"max_new_tokens" is 1,025; this server takes at most 1,024.'),
        ({"max_new_tokens": 0}, "max_new_tokens", '"max_new_tokens" is 0; it takes 1 or more.'),
        ({"n": 17}, "n", '"n" is 17; this server takes at most 16.'),
        ({"n": 10**1000}, "n", '"n" is a very large number; this server takes at most 16.'),
        ({"n": True}, "n", '"n" is true; it takes a whole number.'),
        ({"n": 1.5}, "n", '"n" is 1.5; it takes a whole number.'),
        ({"temperature": -0.5}, "temperature", '"temperature" is -0.5; it takes 0 or more.'),
        ({"temperature": 11}, "temperature", '"temperature" is 11; it takes at most 10.'),
        ({"temperature": 1e-9}, "temperature", '"temperature" is 1e-09; it takes 0 (greedy) or 0.01 to 10.'),
        ({"temperature": "warm"}, "temperature", '"temperature" is "warm"; it takes a number.'),
        ({"top_p": 0}, "top_p", '"top_p" is 0; it takes a number above 0.'),
        ({"top_p": 1.01}, "top_p", '"top_p" is 1.01; it takes at most 1.'),
        ({"top_k": -1}, "top_k", '"top_k" is -1; it takes 0 or more.'),
        ({"seed": -1}, "seed", '"seed" is -1; it takes 0 or more.'),
        ({"seed": 2**63}, "seed", '"seed" is 9,223,372,036,854,775,808; it takes at most 9,223,372,036,854,775,807.'),
        (
            {"seed": 2**63 - 1, "n": 2},
            "n",
            '"n" is 2: seed + n - 1 may be at most 9223372036854775807, so lower one of them.',
        ),
        ({"stop": ""}, "stop", '"stop" holds a text that is empty or too long; each takes 1 to 256 characters.'),
        ({"stop": ["a"] * 17}, "stop", '"stop" has 17 texts; it takes at most 16.'),
        ({"stop": [1]}, "stop", '"stop" holds 1; it takes a text or a list of texts.'),
        ({"model": 5}, "model", '"model" is 5; it takes a text.'),
        (
            {"model": "a" * 90_000},
            "model",
            '"model" has 90,000 characters; names of models (GET /models) have 1 to 200.',
        ),
    ],
)
def test_refusals_name_the_field_and_the_limit(fields: dict[str, Any], field: str, sentence: str) -> None:
    client = Client()
    answer = client.post("/generate", json={"prompt": "a"} | fields)
    assert answer.status_code == 422
    assert (answer.json()["error"], answer.json()["field"]) == (sentence, field)
    assert client.engine.calls == 0


def test_a_long_prompt_is_text_too_long() -> None:
    answer = Client(max_text_characters=3).post("/generate", json={"prompt": "abcd"})
    assert (answer.status_code, answer.json()["code"]) == (422, "text_too_long")


def test_an_unknown_model_is_404() -> None:
    answer = Client().post("/generate", json={"prompt": "a", "model": "nobody"})
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (404, "unknown_model", "model")
