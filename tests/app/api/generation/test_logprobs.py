"""POST /generate with "logprobs": each token of the text, and how probable it was."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import pytest

from app.engine.interface import GenerationRequest, GenerationResult
from app.engine.output.text_stream import ShowText, TextStream, WrittenToken
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine
from tests.app.api.test_event_stream import events
from tests.request_builders import generation_request

GENERATE = {"prompt": "分开", "seed": 7, "logprobs": True}
PARTS = [WrittenToken(5, "", -0.12345678), WrittenToken(6, "后", -0.0), WrittenToken(7, "0", -2.5)]
FIELDS = [
    {"id": 5, "text": "", "logprob": -0.1234568},
    {"id": 6, "text": "后", "logprob": 0.0},
    {"id": 7, "text": "0", "logprob": -2.5},
]


class Telling(FakeEngine):
    """Returns the same tokens for every continuation except the last."""

    def _tokens(self, text: str) -> Sequence[WrittenToken]:
        return (*PARTS[:2], replace(PARTS[2], text=text[1:]))

    async def generate(self, request: GenerationRequest) -> GenerationResult:
        result = await super().generate(request)
        with_tokens = [
            replace(continuation, tokens=tuple(self._tokens(continuation.text)))
            for continuation in result.continuations
        ]
        return replace(result, continuations=tuple(with_tokens)) if request.decoding.logprobs else result

    def stream_generation(
        self, request: GenerationRequest
    ) -> AbstractAsyncContextManager[TextStream[GenerationResult]]:
        async def work(show: ShowText) -> GenerationResult:
            whole = await self.generate(request)
            for index, continuation in enumerate(whole.continuations):
                show(continuation.text, index, continuation.tokens or ())
            return whole

        return TextStream.opened(work)


def test_logprobs_have_the_tokens_of_each_continuation() -> None:
    client = Client(Telling())
    answer = client.post("/generate", json={**GENERATE, "n": 2}).json()
    assert client.engine.requests == [generation_request(prompt="分开", seed=7, n=2, logprobs=True)]
    assert list(answer) == ["text", "finish_reason", "seed", "tokens", "model", "alternatives"]
    assert answer["tokens"] == FIELDS
    (other,) = answer["alternatives"]
    assert other["tokens"] == [*FIELDS[:2], {**FIELDS[2], "text": "1"}]


def test_logprobs_are_absent_by_default() -> None:
    client = Client(Telling())
    answer = client.post("/generate", json={**GENERATE, "logprobs": False}).json()
    assert answer == {"text": "后0", "finish_reason": "length", "seed": 7, "model": "lyrics-zh"}
    (name, token), (_, done) = events(
        client.post("/generate", json={**GENERATE, "logprobs": False, "stream": True}).text
    )
    assert (name, token) == ("token", {"text": "后0"})
    assert "tokens" not in done
    assert [request.decoding.logprobs for request in client.engine.requests] == [False, False]  # type: ignore[attr-defined]


def test_each_event_has_the_tokens_of_its_text_and_the_last_has_all() -> None:
    result = events(Client(Telling()).post("/generate", json={**GENERATE, "stream": True}).text)
    (_, token), (_, done) = result
    assert token == {"text": "后0", "tokens": FIELDS}
    assert done["tokens"] == FIELDS


def test_tokens_of_several_streams_carry_their_index() -> None:
    *tokens, (_, done) = events(Client(Telling()).post("/generate", json={**GENERATE, "n": 2, "stream": True}).text)
    assert [(event["index"], event["tokens"][2]["text"]) for _, event in tokens] == [(0, "0"), (1, "1")]
    assert [alternative["tokens"][2]["text"] for alternative in (done, *done["alternatives"])] == ["0", "1"]


@pytest.mark.parametrize("streamed", [False, True])
def test_an_empty_text_has_no_tokens(streamed: bool) -> None:
    class Silent(Telling):
        async def generate(self, request: GenerationRequest) -> GenerationResult:
            result = await super().generate(request)
            return replace(result, continuations=(replace(result.continuations[0], text="", tokens=()),))

        def stream_generation(
            self, request: GenerationRequest
        ) -> AbstractAsyncContextManager[TextStream[GenerationResult]]:
            async def work(show: ShowText) -> GenerationResult:
                return await self.generate(request)

            return TextStream.opened(work)

    answer = Client(Silent()).post("/generate", json={**GENERATE, "stream": streamed})
    whole = events(answer.text)[-1][1] if streamed else answer.json()
    assert (whole["text"], whole["tokens"]) == ("", [])


def test_logprobs_must_be_boolean() -> None:
    answer = Client().post("/generate", json={**GENERATE, "logprobs": 5})
    assert (answer.status_code, answer.json()["field"]) == (422, "logprobs")
