"""Log-probabilities of generated tokens, on their way from the device to the caller."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.engine.output.output_processor import OutputProcessor
from app.engine.output.text_stream import ShowText, TextDelta, TextStream, WrittenToken
from app.engine.protocol import messages as m
from app.engine.worker.model_runner import ModelRunner
from app.engine.worker.scheduler import Scheduler, TokenSender
from models.decoding.options import Hypothesis
from tests.app.engine.output.test_token_texts import BYTES, CHECKPOINTS, nats
from tests.app.engine.scheduler_driver import FAR, run
from tests.app.engine.scripted_device import Scripted, play
from tests.request_builders import decode_message

# fp32: rounding differs between the two computations; int8 and bf16 keep 8 bits of each factor
TOLERANCES = {"fp32": 2e-6, "int8": 0.02, "bf16": 0.02}
WAYS: list[dict[str, Any]] = [{}, {"temperature": 0.8, "seed": 3}, {"temperature": 1.1, "seed": 4, "top_k": 5}]


def lyrics(number: int, **change: Any) -> m.Decode:
    fields = {"streamed": True, "logprobs": True, **WAYS[number % 3], **change}
    return decode_message(number, "tiny-lyrics", [], [number % 20 + 1, 5], FAR, 12, **fields)


def collected(replies: list[Any]) -> tuple[dict[int, list[int]], dict[int, list[float]], dict[int, Hypothesis]]:
    """Tokens and log-probabilities that came before the end, and the ends."""
    tokens: dict[int, list[int]] = {}
    values: dict[int, list[float]] = {}
    for reply in replies:
        if isinstance(reply, m.Tokens):
            assert reply.log_probabilities.keys() <= reply.tokens.keys()
            for request, some in reply.tokens.items():
                tokens.setdefault(request, []).extend(some)
            for request, some_nats in reply.log_probabilities.items():
                assert len(some_nats) == len(reply.tokens[request])
                values.setdefault(request, []).extend(some_nats)
    return tokens, values, {each.id: each.hypotheses[0] for each in replies if isinstance(each, m.Finished)}


@pytest.mark.every_value
@pytest.mark.parametrize("interval_s", [0.0, 1000.0])
@pytest.mark.parametrize("precision", TOLERANCES)
def test_log_probabilities_equal_those_of_scoring(precision: str, interval_s: float, tiny_checkpoints: Path) -> None:
    scheduler = Scheduler(ModelRunner("cpu", 1, slots=4, precision=precision), stream_interval_s=interval_s)
    scheduler.handle(m.Load("tiny-lyrics", str(tiny_checkpoints / "tiny-lyrics")))
    messages = [lyrics(number, logprobs=number % 4 != 3, streamed=number % 5 != 4) for number in range(15)]
    for request in messages:
        scheduler.handle(request)
    tokens, values, ends = collected(run(scheduler))
    assert values.keys() == {
        message.id for message in messages if message.options.logprobs and message.options.streamed
    }
    for request in messages:
        end = ends[request.id]
        scheduler.handle(m.ScoreTokens(99, "tiny-lyrics", [], [*request.prefix, *end.tokens], 0, by_rules=True))
        (scored,) = run(scheduler)
        expected = np.frombuffer(scored.expected.log_probabilities.data, "<f4")[len(request.prefix) - 1 :]
        if not request.options.logprobs:
            assert end.token_log_probabilities is None
            continue
        np.testing.assert_allclose(end.token_log_probabilities, expected, rtol=0, atol=TOLERANCES[precision])
        if request.options.streamed:
            heard = len(values[request.id])
            assert 0 < heard <= len(end.tokens)
            assert tuple(tokens[request.id]) == end.tokens[:heard]
            assert tuple(values[request.id]) == end.token_log_probabilities[:heard]


def test_requesting_logprobs_does_not_change_the_text(scheduler: Scheduler) -> None:
    """Nor the texts of other requests in its batch."""
    written = []
    for asks in (set[int](), {1, 4, 5}, set(range(9))):
        for number in range(9):
            scheduler.handle(lyrics(number, logprobs=number in asks))
        _, values, ends = collected(run(scheduler))
        assert values.keys() == asks
        written.append({number: end.tokens for number, end in ends.items()})
    assert written[0] == written[1] == written[2]
    assert len({tuple(each) for each in written[0].values()}) > 5


def test_tokens_of_one_interval_are_sent_together() -> None:
    telling = TokenSender(100.0)
    telling.add([(1, 5), (2, 6)], 0.0, {1: -0.5})
    assert telling.due(0.0, 1.0) == [m.Tokens({1: [5], 2: [6]}, {1: [-0.5]})]
    telling.add([(1, 7), (2, 8)], 1.0, {1: -0.25})
    telling.add([(1, 9), (3, 4)], 2.0, {1: -0.75, 3: -2.0})
    assert telling.due(2.0, 1.0) == [m.Tokens({3: [4]}, {3: [-2.0]})]
    telling.add([(3, 4)], 3.0, {3: -1.0})
    telling.end(3)
    assert telling.flush() == [m.Tokens({1: [7, 9], 2: [8]}, {1: [-0.25, -0.75]})]
    assert telling.flush() == []


def test_restarted_request_gets_tokens_of_one_device() -> None:
    ids = BYTES.encode("der hund schläft")
    silent = OutputProcessor(CHECKPOINTS["bytes"], ["x"], logprobs=True)

    async def scene(on: Scripted) -> None:
        task = on.ask(watch=silent)
        await asyncio.sleep(0)
        on.dispatcher.reply(m.Tokens({1: ids[:3]}, {1: [-70.0, -71.0, -72.0]}))
        assert silent.written
        on.dispatcher.device_died(on.name)
        await asyncio.sleep(0.01)
        on.dispatcher.reply(m.Tokens({1: ids[3:4]}, {1: [-73.0]}))  # on its way when the process ended
        on.dispatcher.reply(m.Tokens({2: ids[:2]}, {2: nats(2)}))
        on.dispatcher.reply(m.Finished(2, [Hypothesis(tuple(ids), -1.0, -1.0, True, tuple(nats(len(ids))))]))
        await task

    play(scene)
    assert silent.text == "der hund schläft"
    assert [(each.id, each.log_probability) for each in silent.written] == list(zip(ids, nats(len(ids)), strict=True))


def test_unread_deltas_merge_with_all_their_tokens() -> None:
    def token(number: int, text: str) -> WrittenToken:
        return WrittenToken(number, text, -0.5 * number)

    async def scene() -> None:
        end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def work(show: ShowText) -> str:
            show("a", 0, [token(1, "a")])
            show("x", 1)
            show("", 0, [token(2, "")])
            show("bc", 0, [token(3, "b"), token(4, "c")])
            return await end

        async with TextStream.opened(work) as stream:
            taken = await stream.taken()
            assert taken == [
                TextDelta("abc", 0, (token(1, "a"), token(2, ""), token(3, "b"), token(4, "c"))),
                TextDelta("x", 1),
            ]
            end.set_result("all")
            assert await stream.taken() == []

    asyncio.run(scene())
