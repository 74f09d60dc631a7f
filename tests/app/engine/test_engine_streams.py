"""Streams of an engine with a real device process, read to the end or left."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest

from app import errors
from app.engine.interface import GenerationRequest, GenerationResult, ScoreQuery
from app.engine.output.text_stream import WrittenToken
from app.engine.protocol import messages as m
from tests.app.engine.engine_thread import Running, generate, read_stream, spied
from tests.request_builders import translation_request

pytestmark = pytest.mark.slow  # a pool of its own


def test_streams_join_to_the_answers_without(running: Running) -> None:
    for text in ("ich möchte ein bier", "der hund schläft", "\u200b"):
        request = translation_request(text, "de", "en", alternatives=1)
        texts, result = running.do(read_stream(running.pool.stream_translation(request)))
        (whole,) = running.do(running.pool.translate([request]))
        assert texts == {0: whole.text}
        assert replace(result, usage=whole.usage) == whole
    request = generate(n=3, stop=("的街", "\n"), max_new_tokens=60)
    texts, result = running.do(read_stream(running.pool.stream_generation(request)))
    whole = running.do(running.pool.generate(request))
    assert [texts.get(i, "") for i in range(3)] == [continuation.text for continuation in whole.continuations]
    assert result.continuations == whole.continuations
    assert result.usage.first_token_s <= result.usage.total_s


def test_streamed_log_probabilities_equal_the_answer(running: Running) -> None:
    """Of several continuations side by side, with stop strings, whatever they were drawn by; and the text is that which
    comes without them."""

    async def listened(request: GenerationRequest) -> tuple[dict[int, list[WrittenToken]], GenerationResult]:
        tokens: dict[int, list[WrittenToken]] = {}
        async with running.pool.stream_generation(request) as stream:
            async for delta in stream.deltas():
                assert delta.text == "".join(token.text for token in delta.tokens)
                tokens.setdefault(delta.index, []).extend(delta.tokens)
            return tokens, stream.result

    for options in ({}, {"temperature": 0.0}, {"top_k": 5, "temperature": 1.3}, {"top_p": 0.8, "stop": ("的街", "\n")}):
        plain = running.do(running.pool.generate(generate(n=3, max_new_tokens=40, **options)))
        request = generate(n=3, max_new_tokens=40, logprobs=True, **options)
        tokens, result = running.do(listened(request))
        whole = running.do(running.pool.generate(request))
        assert [replace(continuation, tokens=None) for continuation in whole.continuations] == list(plain.continuations)
        assert whole.continuations == result.continuations
        for index, continuation in enumerate(result.continuations):
            assert tuple(tokens.get(index, ())) == continuation.tokens
            if not continuation.text:
                continue
            scored = running.do(running.pool.score(ScoreQuery(request.prompt + continuation.text)))
            nats = [step.log_probability for step in scored.steps[len(request.prompt) :]]
            assert [token.log_probability for token in continuation.tokens] == pytest.approx(nats, abs=2e-6)


def test_a_stream_that_is_refused_is_not_opened(running: Running) -> None:
    with pytest.raises(errors.TextTooLong, match="has 33 tokens"):
        running.do(read_stream(running.pool.stream_translation(translation_request("ich " * 32, "de", "en"))))


def test_leaving_a_stream_cancels_its_sequences(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = spied(running, monkeypatch)

    async def leave() -> None:
        async with running.pool.stream_generation(generate(max_new_tokens=2000, n=4)) as stream:
            await anext(stream.deltas())

    running.do(leave())
    started = {message.id for message in sent if isinstance(message, m.Decode)}
    assert len(started) == 4
    assert {message.id for message in sent if isinstance(message, m.Cancel)} == started
    assert running.pool.admission.all.requests == 0


def test_cancelled_stream_frees_its_slots(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = spied(running, monkeypatch)

    async def leave() -> None:
        task = asyncio.create_task(running.pool.generate(generate(max_new_tokens=2000, n=8)))
        while len(sent) < 8:
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    running.do(leave())
    started = {message.id for message in sent if isinstance(message, m.Decode)}
    cancelled = {message.id for message in sent if isinstance(message, m.Cancel)}
    assert len(started) == 8
    assert cancelled == started
    assert running.pool.admission.all.requests == 0
    assert len(running.do(running.pool.generate(generate())).continuations[0].text) == 24
