"""Metrics of scripted device replies: each series changes by exactly the right amount."""

from __future__ import annotations

import asyncio

import pytest

from app.engine.metrics import Metrics, RequestMetrics
from app.engine.protocol import messages as m
from tests.app.engine.scripted_device import TIMES, Scripted, finished, play, value


def test_answer_updates_each_series_once() -> None:
    async def scene(on: Scripted) -> None:
        task = on.ask(tokens=5)
        await asyncio.sleep(0)
        assert (on.in_flight(), on.ends(), on.value("prompt_tokens_total")) == (1, {}, 5)
        on.dispatcher.reply(finished(1, tokens=5, timing=m.Timing(0.25, 0.5, 2.5)))
        await task

    on = play(scene)
    assert (on.in_flight(), on.ends()) == (0, {"stop": 1})
    assert (on.value("prompt_tokens_total"), on.value("generation_tokens_total")) == (5, 5)
    assert [on.value(f"{name}_count") for name in TIMES] == [1, 1, 1]
    assert [on.value(f"{name}_sum") for name in TIMES] == [0.25, 0.5, 0.5]  # 2 s for the four tokens behind the first
    assert on.value("e2e_request_latency_seconds_count") == 1
    assert 0 < on.value("e2e_request_latency_seconds_sum") < 5
    assert on.value("time_to_first_token_seconds_bucket", le="0.2") == 0
    assert on.value("time_to_first_token_seconds_bucket", le="0.5") == 1


def test_an_answer_at_its_limit_and_one_token_have_no_time_between_tokens() -> None:
    async def scene(on: Scripted) -> None:
        task = on.ask()
        await asyncio.sleep(0)
        on.dispatcher.reply(finished(1, tokens=1, ended=False, timing=m.Timing(0.1, 0.2, 0.2)))
        await task

    on = play(scene)
    assert on.ends() == {"length": 1}
    assert [on.value(f"{name}_count") for name in TIMES] == [1, 1, 0]


def test_token_times_are_used_without_device_times() -> None:
    class Watch:
        def __init__(self) -> None:
            self.tokens = list[int]()

        def feed(self, tokens: list[int], nats: object, top: object) -> bool:
            self.tokens += tokens
            return 3 in tokens

    async def scene(on: Scripted) -> None:
        task = on.ask(watch=Watch())
        await asyncio.sleep(0)
        for token in (1, 2, 3):
            on.dispatcher.reply(m.Tokens({1: [token]}))
        assert await task is None

    on = play(scene)
    assert on.ends() == {"stop": 1}
    assert on.value("request_cancelled_total", reason="stop_string") == 1
    assert on.sent[1:] == [m.Cancel(1)]
    assert on.value("generation_tokens_total") == 3
    assert [on.value(f"{name}_count") for name in TIMES] == [0, 1, 1]


def test_attention_is_not_counted_as_generation() -> None:
    async def scene(on: Scripted) -> None:
        task = on.ask()
        await asyncio.sleep(0)
        on.dispatcher.reply(m.AttentionInspected(1, {}))
        await task

    on = play(scene)
    assert on.ends() == {"attention": 1}
    assert [on.value(f"{name}_count") for name in (*TIMES, "e2e_request_latency_seconds")] == [0, 0, 0, 0]


def test_abandoned_stream_counts_its_first_token() -> None:
    class Reader:
        stopped = False

        def feed(self, tokens: list[int], nats: object, top: object) -> bool:
            return False

        def finish(self, tokens: list[int], nats: object, top: object) -> None:
            pass

    async def scene(on: Scripted) -> None:
        task = on.ask(watch=Reader())
        await asyncio.sleep(0)
        on.dispatcher.reply(m.Tokens({1: [5]}))
        assert on.value("time_to_first_token_seconds_count") == 1  # already
        on.dispatcher.reply(m.Tokens({1: [6, 7]}))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        task = on.ask(watch=Reader())
        await asyncio.sleep(0)
        on.dispatcher.reply(m.Tokens({2: [5]}))
        on.dispatcher.reply(finished(2, tokens=3, timing=m.Timing(0.1, 100.0, 102.0)))
        await task

    on = play(scene)
    assert on.ends() == {"disconnect": 1, "stop": 1}
    assert on.value("generation_tokens_total") == 3 + 3
    assert [on.value(f"{name}_count") for name in TIMES] == [1, 2, 1]
    assert on.value("time_to_first_token_seconds_sum") < 5  # what the reader saw
    assert on.value("inter_token_latency_seconds_sum") == 1.0  # what the device says


def test_retry_is_counted_where_it_ends() -> None:
    class Listener:
        stopped = False

        def feed(self, tokens: list[int], nats: object, top: object) -> bool:
            return False

        def finish(self, tokens: list[int], nats: object, top: object) -> None:
            pass

        def restart(self) -> bool:
            return True

    async def scene(on: Scripted) -> None:
        task = on.ask(watch=Listener())
        await asyncio.sleep(0)
        on.dispatcher.reply(m.Tokens({1: [5]}))
        on.dispatcher.device_died(on.name)  # and the next process is ready at once
        await asyncio.sleep(0.01)
        assert (on.in_flight(), on.ends()) == (1, {})
        on.dispatcher.reply(m.Tokens({2: [5]}))
        on.dispatcher.reply(finished(2, tokens=2))
        await task

    on = play(scene)
    assert (on.ends(), on.in_flight()) == ({"stop": 1}, 0)
    assert (on.value("prompt_tokens_total"), on.value("generation_tokens_total")) == (3, 2)
    assert on.value("time_to_first_token_seconds_count") == 1


def test_a_request_that_moves_to_another_device_is_counted_where_it_ends() -> None:
    metrics = Metrics()
    with RequestMetrics(metrics.by_model, "demo@1", 4) as meter:
        for device in ("cuda:0", "cuda:1"):
            meter.sent(device)
            meter.received(1)
            assert {key: count for key, count in metrics.by_model.inflight.items() if count} == {("demo", device): 1}
        meter.answered(finished(1, 3))
    lost, kept = ({"model_name": "demo", "device": device} for device in ("cuda:0", "cuda:1"))
    assert value(metrics, "prompt_tokens_total", **lost) == 4
    assert value(metrics, "request_success_total", finished_reason="stop", **lost) == 0
    assert value(metrics, "request_success_total", finished_reason="stop", **kept) == 1
    assert value(metrics, "generation_tokens_total", **kept) == 3
    assert not any(metrics.by_model.inflight.values())
