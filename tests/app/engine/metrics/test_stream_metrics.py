"""Times and counts of tokens that come together."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from app.engine.protocol import messages as m
from models.decoding.options import Hypothesis
from tests.app.engine.scripted_device import Scripted, play


class Watch:
    """Its text ends with token 3."""

    def __init__(self) -> None:
        self.tokens, self.stopped = list[int](), False

    def feed(self, tokens: list[int], nats: object = None, top: object = None) -> bool:
        end = tokens.index(3) + 1 if 3 in tokens else len(tokens)
        self.tokens += tokens[:end]
        self.stopped = 3 in tokens
        return self.stopped

    def finish(self, tokens: list[int], nats: object, top: object) -> None:
        self.feed(tokens[len(self.tokens) :])


def test_a_stop_string_within_a_round_counts_its_answer_and_the_time_of_every_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("app.engine.metrics.time", SimpleNamespace(monotonic=lambda: clock.now))

    async def scene(on: Scripted) -> None:
        task = on.ask(watch=Watch())
        await asyncio.sleep(0)
        clock.now += 0.5
        on.dispatcher.reply(m.Tokens({1: [1]}))
        clock.now += 2.0
        on.dispatcher.reply(m.Tokens({1: [2, 3, 4, 5]}))
        assert await task is None

    on = play(scene)
    assert on.ends() == {"stop": 1}
    assert on.value("generation_tokens_total") == 3
    assert on.value("time_to_first_token_seconds_sum") == 0.5
    # four tokens were made in the two seconds behind the first, if two of them were for nothing
    assert on.value("inter_token_latency_seconds_sum") == 0.5


def test_cancelled_stream_counts_its_sent_tokens() -> None:
    async def scene(on: Scripted) -> None:
        task = on.ask(watch=Watch())
        await asyncio.sleep(0)
        on.dispatcher.reply(m.Tokens({1: [1], 9: [1, 1]}))
        on.dispatcher.reply(m.Tokens({1: [2, 2, 2], 9: [1]}))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    on = play(scene)
    assert on.ends() == {"disconnect": 1}
    assert on.value("generation_tokens_total") == 4


def test_a_stop_string_among_the_tokens_that_come_with_the_answer_counts_as_one() -> None:
    answer = m.Finished(1, [Hypothesis((1, 2, 3, 4, 5), -1.0, -0.2, finished=False)], m.Timing(0.25, 0.5, 2.5))

    async def scene(on: Scripted) -> None:
        task = on.ask(watch=Watch())
        await asyncio.sleep(0)
        on.dispatcher.reply(m.Tokens({1: [1]}))
        on.dispatcher.reply(answer)
        assert await task is answer

    on = play(scene)
    assert on.ends() == {"stop": 1}  # not the limit, at which it would have ended without
    assert on.value("generation_tokens_total") == 3
    assert on.value("inter_token_latency_seconds_sum") == 0.5  # 2 s for the four tokens behind the first
    assert len(on.sent) == 1  # nothing is left to be cancelled
