"""POST /v1/completions with "stream": each chunk, exactly."""

from __future__ import annotations

from typing import Any

import pytest

from app import errors
from tests.app.api.client import Client
from tests.app.api.openai.writer import Writer, chunks

PATH = "/v1/completions"
STREAM = {"prompt": "分开", "stream": True, "seed": 7}


def streamed(body: dict[str, Any], writer: Writer | None = None) -> list[Any]:
    answer = Client(writer or Writer()).post(PATH, json=body, headers={"x-request-id": "abc"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert answer.headers["cache-control"] == "no-store"
    return chunks(answer.text)


def choices(found: list[Any]) -> list[Any]:
    return [each["choices"][0] for each in found if each["choices"]]


def bit(index: int, text: str, logprobs: Any = None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": None}


def end(index: int, seed: int | None = 7, reason: str = "length") -> dict[str, Any]:
    return {**bit(index, ""), "finish_reason": reason, "stop_reason": None, "seed": seed}


def test_all_chunks_have_the_same_head() -> None:
    first, *others = streamed(STREAM)
    created = first.pop("created")
    head = {
        "id": "cmpl-abc",
        "object": "text_completion",
        "model": "lyrics-zh",
        "system_fingerprint": "lyrics-zh@1",
    }
    assert isinstance(created, int)
    assert first == {**head, "choices": [bit(0, "后")]}
    assert others == [
        {**head, "created": created, "choices": [bit(0, "0")]},
        {**head, "created": created, "choices": [end(0)]},
    ]


def test_prompts_and_samples_side_by_side() -> None:
    results = choices(streamed({**STREAM, "prompt": ["分", "开"], "n": 2}))
    texts = {index: "".join(result["text"] for result in results if result["index"] == index) for index in range(4)}
    assert texts == {0: "后0", 1: "后1", 2: "后0", 3: "后1"}
    assert results[-4:] == [end(0, 7), end(1, 8), end(2, 7), end(3, 8)]


def test_usage_comes_last() -> None:
    *results, last = streamed({**STREAM, "n": 2, "stream_options": {"include_usage": True}})
    assert [result["usage"] for result in results] == [None] * 6
    assert (last["choices"], last["usage"]) == (
        [],
        {"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6},
    )


def test_usage_of_each_choice_as_it_grows() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    *results, last = streamed({**STREAM, "stream_options": options})
    assert choices(results) == [bit(0, "后"), bit(0, "0"), end(0)]
    assert [result["usage"] for result in results] == [
        {"prompt_tokens": 2, "completion_tokens": count, "total_tokens": 2 + count} for count in (1, 2, 2)
    ]
    assert last["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}


def test_logprobs_count_their_offsets_on() -> None:
    def logprobs_of(offset: int, text: str, nats: float) -> dict[str, Any]:
        fields = {"text_offset": [offset], "token_logprobs": [nats], "tokens": [text]}
        return {**fields, "top_logprobs": [{text: nats}]}

    result = choices(streamed({**STREAM, "logprobs": 0}))
    assert result == [bit(0, "后", logprobs_of(0, "后", -0.5)), bit(0, "0", logprobs_of(1, "0", -2.5)), end(0)]
    echo = {
        "text_offset": [0, 1],
        "token_logprobs": [None, -0.25],
        "tokens": ["分", "开"],
        "top_logprobs": [None, {"开": -0.25}],
    }
    result = choices(streamed({**STREAM, "logprobs": 0, "echo": True}))
    assert result == [
        bit(0, "分开", echo),
        bit(0, "后", logprobs_of(2, "后", -0.5)),
        bit(0, "0", logprobs_of(3, "0", -2.5)),
        end(0),
    ]


def test_an_echo_alone() -> None:
    writer = Writer()
    assert choices(streamed({**STREAM, "echo": True, "max_tokens": 0}, writer)) == [bit(0, "分开"), end(0, None)]
    assert writer.calls == 1


@pytest.mark.parametrize(
    ("failure", "message", "code"),
    [
        (errors.EngineUnavailable("Away."), "Away.", "engine_unavailable"),
        (
            ZeroDivisionError(),
            "This is a fault of ours, not of your request; it is in our log under this request_id.",
            "internal_error",
        ),
    ],
)
@pytest.mark.parametrize("prompt", ["分开", ["分", "开"]])
def test_failure_during_the_stream_is_the_last_chunk(failure: Any, message: str, code: str, prompt: Any) -> None:
    *result, last = streamed({**STREAM, "prompt": prompt}, Writer(late_failure=failure))
    assert {choice["text"] for choice in choices(result)} == {"后"}
    assert last == {"error": {"message": message, "type": "server_error", "param": None, "code": code}}
