"""Refused requests of /v1/completions, with errors in OpenAI's format."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from app import errors
from app.api.errors import ErrorAnswer
from app.api.openai.schemas import OpenAIErrorAnswer
from tests.app.api.client import Client
from tests.app.api.openai.writer import Writer

PATH = "/v1/completions"
KINDS = "it takes a text, a list of texts, a list of token ids, or a list of such lists."


@pytest.mark.parametrize(
    ("fields", "param", "sentence"),
    [
        ({"prompt": None}, "prompt", '"prompt" is missing; add it to the request, as the example at /docs does.'),
        ({"prompt": ""}, "prompt", '"prompt" is empty; begin the text with at least one character.'),
        ({"prompt": []}, "prompt", '"prompt" is an empty list; send at least one prompt.'),
        ({"prompt": ["a", ""]}, "prompt", '"prompt" is empty; begin the text with at least one character.'),
        ({"prompt": [[1], []]}, "prompt", '"prompt" holds an empty list; begin with at least one token.'),
        ({"prompt": 5}, "prompt", f'"prompt" is 5; {KINDS}'),
        ({"prompt": ["a", 5]}, "prompt", f'"prompt" holds 5 beside a text; {KINDS}'),
        ({"prompt": [5, "a"]}, "prompt", f'"prompt" holds "a"; {KINDS}'),
        ({"prompt": [[5], "a"]}, "prompt", f'"prompt" holds "a" beside a list; {KINDS}'),
        ({"prompt": [True]}, "prompt", f'"prompt" holds true; {KINDS}'),
        ({"prompt": [1.5]}, "prompt", f'"prompt" holds 1.5; {KINDS}'),
        ({"prompt": [-1]}, "prompt", '"prompt" holds -1; ids of tokens are 0 to 2,147,483,647.'),
        ({"prompt": [10**2000]}, "prompt", '"prompt" holds a very large number; ids of tokens are 0 to 2,147,483,647.'),
        ({"max_tokens": 1025}, "max_tokens", '"max_tokens" is 1,025; this server takes at most 1,024.'),
        ({"max_tokens": 0}, "max_tokens", '"max_tokens" is 0; it takes 1 or more, or 0 with "echo": true.'),
        ({"max_tokens": 1.5}, "max_tokens", '"max_tokens" is 1.5; it takes a whole number.'),
        ({"n": 17}, "n", '"n" is 17; this server takes at most 16.'),
        ({"temperature": "1"}, "temperature", '"temperature" is "1"; it takes a number.'),
        ({"temperature": -0.001}, "temperature", '"temperature" is -0.001; it takes 0 or more.'),
        ({"top_p": -0.1}, "top_p", '"top_p" is -0.1; it takes 0 or more.'),
        ({"seed": -(2**64)}, "seed", '"seed" is a very large number; it takes 0 or more.'),
        ({"n": 1.5}, "n", '"n" is 1.5; it takes a whole number.'),
        ({"presence_penalty": 2.5}, "presence_penalty", '"presence_penalty" is 2.5; it takes at most 2.'),
        ({"frequency_penalty": -3}, "frequency_penalty", '"frequency_penalty" is -3; it takes -2 or more.'),
        ({"repetition_penalty": 0}, "repetition_penalty", '"repetition_penalty" is 0; it takes 0.01 or more.'),
        ({"logprobs": 21}, "logprobs", '"logprobs" is 21; it takes at most 20.'),
        ({"logprobs": True}, "logprobs", '"logprobs" is true; it takes a whole number.'),
        ({"stop": ["a"] * 17}, "stop", '"stop" has 17 texts; it takes at most 16.'),
        (
            {"best_of": 3, "n": 2},
            "best_of",
            '"best_of" is 3; texts are not chosen among here, so send "n" (2), or leave it out.',
        ),
        (
            {"suffix": "z"},
            "suffix",
            '"suffix" is not done here: a model writes what follows its prompt, to no given end; leave it out.',
        ),
        ({"logit_bias": {"5": 0, "6": 1}}, "logit_bias", '"logit_bias" is not done here; leave it out.'),
        ({"min_p": 1.5}, "min_p", '"min_p" is 1.5; it takes at most 1.'),
        (
            {"stream_options": {"include_usage": True}},
            "stream_options",
            '"stream_options" is only for "stream": true; leave it out.',
        ),
        (
            {"prompt": ["a"] * 40, "n": 16},
            "n",
            '40 prompts with "n" 16 are 640 texts; one request writes 64. Send them in several.',
        ),
    ],
)
def test_refusals_name_the_field_and_the_limit(fields: dict[str, Any], param: str, sentence: str) -> None:
    client = Client(Writer(), max_batch_texts=64)
    answer = client.post_raw(PATH, json.dumps({"prompt": "a"} | fields).encode())
    error = {"message": sentence, "type": "invalid_request_error", "param": param, "code": "invalid_value"}
    assert (answer.status_code, answer.json()) == (400, {"error": error})
    assert answer.headers["x-request-id"]
    assert client.engine.calls == 0


def test_a_long_prompt_is_400_too() -> None:
    answer = Client(Writer(), max_text_characters=3).post(PATH, json={"prompt": "abcd"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "context_length_exceeded", "prompt")


def test_an_unknown_model_is_404() -> None:
    answer = Client(Writer()).post(PATH, json={"prompt": "a", "model": "nobody"})
    error = {
        "message": "There is no model nobody here; GET /models lists them.",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    assert (answer.status_code, answer.json()) == (404, {"error": error})


def test_a_translator_completes_nothing() -> None:
    client = Client(Writer())
    answer = client.post(PATH, json={"prompt": "a", "model": "tiny-de-en"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert error["message"] == (
        "tiny-de-en is a translator, which completes no text: send it to /translate, or name a lyricist"
        " (GET /v1/models)."
    )
    assert client.engine.calls == 0


@pytest.mark.parametrize(
    ("failure", "status", "kind", "code"),
    [
        (errors.Overloaded("Full.", retry_after_s=3), 429, "rate_limit_exceeded", "rate_limit_exceeded"),
        (errors.EngineUnavailable("Away."), 503, "server_error", "engine_unavailable"),
        (errors.DeadlineExceeded("Late."), 504, "server_error", "deadline_exceeded"),
        (errors.EngineFailed("Broken."), 500, "server_error", "engine_failed"),
        (errors.TextTooLong("Long.", field="text"), 400, "invalid_request_error", "context_length_exceeded"),
    ],
)
@pytest.mark.parametrize("body", [{"prompt": "a"}, {"prompt": ["a", "b"]}, {"prompt": ["a", "b"], "stream": True}])
def test_failures_of_the_engine(failure: Any, status: int, kind: str, code: str, body: dict[str, Any]) -> None:
    answer = Client(Writer(failure=failure)).post(PATH, json=body)
    param = "prompt" if isinstance(failure, errors.TextTooLong) else None
    error = {"message": failure.message, "type": kind, "param": param, "code": code}
    assert (answer.status_code, answer.json()) == (status, {"error": error})
    assert answer.headers.get("retry-after") == {429: "3", 503: "2"}.get(status)


def test_malformed_requests_are_refused() -> None:
    client = Client(Writer())
    for answer, status, code in (
        (client.post_raw(PATH, b"[1]"), 400, "invalid_value"),
        (client.post_raw(PATH, b"a=1", "text/plain"), 415, "unsupported_media_type"),
        (client.get(PATH), 405, "method_not_allowed"),
    ):
        error = answer.json()["error"]
        assert (answer.status_code, error["type"], error["code"]) == (status, "invalid_request_error", code)


@pytest.mark.parametrize(
    ("status", "code", "wanted"),
    [
        (401, "key_wrong", ("invalid_request_error", "invalid_api_key")),
        (429, "quota_exceeded", ("insufficient_quota", "insufficient_quota")),
        (429, "rate_limited", ("rate_limit_exceeded", "rate_limit_exceeded")),
        (500, "internal_error", ("server_error", "internal_error")),
    ],
)
def test_types_and_codes(status: int, code: str, wanted: tuple[str, str]) -> None:
    error = ErrorAnswer(error="No.", code=code, field=None, request_id="a")
    answer = OpenAIErrorAnswer.from_error(status, error)
    assert msgspec.to_builtins(answer.error) == {"message": "No.", "type": wanted[0], "param": None, "code": wanted[1]}


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ({"prompt": ["a" * 1000] * 300, "echo": True, "max_tokens": 0, "logprobs": 0}, "300,300"),
        ({"prompt": [[1] * 499] * 100, "echo": True, "max_tokens": 0, "logprobs": 5}, "300,000"),
        ({"prompt": ["a"] * 32, "n": 16, "max_tokens": 1000, "logprobs": 1}, "1,024,000"),
        ({"prompt": ["a" * 199] * 20, "n": 16, "echo": True, "max_tokens": 100, "logprobs": 5}, "576,000"),
    ],
    ids=["texts", "ids", "continuations", "both"],
)
def test_log_probabilities_are_counted_over_the_whole_request(fields: dict[str, Any], values: str) -> None:
    client = Client(Writer())
    answer = client.post(PATH, json=fields)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["message"].startswith(f"This asks for up to {values} log-probabilities; one request takes 262,144.")
    assert error["param"] == "logprobs"
    assert not client.engine.requests
