"""When tokens leave the device process, by a clock that the test advances, and through the scheduler."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import ModelRunner
from app.engine.worker.scheduler import MOST_TOP_TOKENS, Scheduler, TokenSender
from tests.request_builders import decode_message

FAR = 1e12
STEP_S = 2**-8
INTERVAL_S = 5.5 * STEP_S


def sent_at(sender: TokenSender, step: int, *tokens: tuple[int, int]) -> list[dict[int, list[int]]]:
    """What leaves after step number `step`, which brought these tokens."""
    sender.add(tokens, STEP_S * step)
    return [message.tokens for message in sender.due(STEP_S * step, STEP_S)]


def test_the_first_token_leaves_at_once_and_the_others_together() -> None:
    sender = TokenSender(INTERVAL_S)
    left = [sent_at(sender, step, (7, step)) for step in range(12)]
    # the round that begins with step 1 is over in the middle of step 7: nothing of it waits for that one
    assert left == [[{7: [0]}], [], [], [], [], [], [{7: [1, 2, 3, 4, 5, 6]}], *[[]] * 5]
    assert [message.tokens for message in sender.flush()] == [{7: [7, 8, 9, 10, 11]}]
    assert sender.flush() == []


def test_later_request_is_sent_at_once_and_joins_the_interval() -> None:
    sender = TokenSender(INTERVAL_S)
    sent_at(sender, 0, (1, 10))
    assert sent_at(sender, 1, (1, 11)) == []
    assert sent_at(sender, 2, (1, 12), (2, 20)) == [{2: [20]}]
    assert [sent_at(sender, step, (1, step), (2, step)) for step in (3, 4, 5)] == [[], [], []]
    assert sent_at(sender, 6, (1, 6), (2, 6)) == [{1: [11, 12, 3, 4, 5, 6], 2: [3, 4, 5, 6]}]


def test_tokens_of_slow_steps_are_sent_at_once() -> None:
    sender = TokenSender(STEP_S / 2)
    assert [sent_at(sender, step, (1, step)) for step in range(3)] == [[{1: [0]}], [{1: [1]}], [{1: [2]}]]


def test_without_an_interval_every_step_sends_its_tokens() -> None:
    sender = TokenSender(0.0)
    for step in range(3):
        assert sent_at(sender, step, (1, step), (2, step), (1, 9)) == [{1: [step, 9], 2: [step]}]


def test_urgent_requests_are_sent_each_step_and_others_per_interval() -> None:
    sender = TokenSender(INTERVAL_S)
    sender.immediate.add(2)
    assert sent_at(sender, 0, (1, 10), (2, 20)) == [{1: [10], 2: [20]}]
    assert [sent_at(sender, step, (1, step), (2, step)) for step in range(1, 6)] == [
        [{2: [step]}] for step in range(1, 6)
    ]
    assert sent_at(sender, 6, (1, 6), (2, 6)) == [{1: [1, 2, 3, 4, 5, 6], 2: [6]}]
    sender.end(2)
    assert sent_at(sender, 7, (2, 7)) == [{2: [7]}]  # another one, which has not begun
    assert sent_at(sender, 8, (2, 8)) == []


def test_finished_requests_leave_no_state() -> None:
    sender = TokenSender(INTERVAL_S)
    sender.immediate.add(1)
    sent_at(sender, 0, (1, 5), (2, 5))
    sent_at(sender, 1, (1, 6), (2, 6))
    assert 1 in sender.begun
    for request in (1, 2, 3):
        sender.end(request)
    assert 1 not in sender.begun
    assert sender.flush() == []
    sent_at(sender, 2, (1, 7), (2, 7))  # new requests under the old ids: neither has begun, neither is immediate
    assert sent_at(sender, 3, (1, 8), (2, 8)) == []


# Through the scheduler ---------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands still until it is turned."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def scheduler(tiny_checkpoints: Path) -> Scheduler:
    scheduler = Scheduler(ModelRunner("cpu", 1, slots=8), stream_interval_s=INTERVAL_S)
    for name in ("tiny-de-en", "tiny-lyrics"):
        assert isinstance(scheduler.handle(m.Load(name, str(tiny_checkpoints / name)))[0], m.Loaded)
        scheduler.queues[name].model.gradual = False
    return scheduler


def steps(scheduler: Scheduler, clock: SimpleNamespace, count: int) -> list[Any]:
    replies: list[Any] = []
    for _ in range(count):
        replies += scheduler.step()
        clock.now += STEP_S
    return replies


def lyrics(number: int, most: int = 100, **change: Any) -> m.Decode:
    return decode_message(number, "tiny-lyrics", [], [number], FAR, most, **{"streamed": True, **change})


def begins_at_once(scheduler: Scheduler) -> bool:
    """Whether the first token of a new request leaves at once, although an old request had its id."""
    scheduler.handle(lyrics(1, most=20))
    (first,) = scheduler.step()
    scheduler.handle(m.Cancel(1))
    return [*first.tokens] == [1]  # type: ignore[union-attr]


def test_one_message_carries_all_streams_and_the_answer_the_rest(scheduler: Scheduler, clock: SimpleNamespace) -> None:
    for request in (lyrics(1), lyrics(2, most=9), lyrics(3, streamed=False)):
        scheduler.handle(request)
    replies = steps(scheduler, clock, 10)
    first, round_, finished = replies
    assert [{request: len(tokens) for request, tokens in each.tokens.items()} for each in (first, round_)] == [
        {1: 1, 2: 1},
        {1: 7, 2: 7},
    ]
    assert (finished.id, list(finished.hypotheses[0].tokens[:8])) == (2, first.tokens[2] + round_.tokens[2])
    assert len(finished.hypotheses[0].tokens) == 9


def test_requests_with_stop_strings_are_sent_each_step(scheduler: Scheduler, clock: SimpleNamespace) -> None:
    scheduler.handle(lyrics(1, at_once=True))
    scheduler.handle(lyrics(2))
    *heard, round_ = steps(scheduler, clock, 8)
    assert [[*each.tokens] for each in heard] == [[1, 2], *[[1]] * 6]
    assert {request: len(tokens) for request, tokens in round_.tokens.items()} == {1: 1, 2: 7}


def test_common_prefix_of_a_beam_is_sent_in_the_same_interval(scheduler: Scheduler, clock: SimpleNamespace) -> None:
    search = decode_message(1, "tiny-de-en", [4, 5, 6, 7, 3], [2], FAR, 30, beam_size=4, streamed=True)
    scheduler.handle(search)
    replies: list[Any] = []
    while scheduler.busy:
        replies += steps(scheduler, clock, 1)
    *rounds, finished = replies
    tokens = [token for each in rounds for token in each.tokens[1]]
    assert tuple(tokens) == finished.hypotheses[0].tokens[: len(tokens)]
    assert 1 < len(rounds) < len(tokens)


def test_cancelled_request_gets_nothing_of_the_interval(scheduler: Scheduler, clock: SimpleNamespace) -> None:
    for number in (1, 2):
        scheduler.handle(lyrics(number, most=20))
    steps(scheduler, clock, 4)
    scheduler.handle(m.Cancel(1))
    replies = steps(scheduler, clock, 16)
    assert not scheduler.busy
    assert {request for reply in replies[:-1] for request in reply.tokens} == {2}
    assert replies[-1].id == 2
    assert begins_at_once(scheduler)


@pytest.mark.parametrize("end", ["step", "deadline", "unload"])
def test_failed_request_gets_its_tokens_of_the_interval(
    end: str, scheduler: Scheduler, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.handle(msgspec.structs.replace(lyrics(1), deadline=clock.now + 3.5 * STEP_S))
    replies = steps(scheduler, clock, 4)
    match end:
        case "step":
            clock.now -= STEP_S  # still in time

            def broken(*given: Any) -> Any:
                raise RuntimeError("no luck")

            monkeypatch.setattr(scheduler.queues["tiny-lyrics"].model.decodable, "step", broken)
            replies += scheduler.step()
        case "deadline":
            replies += scheduler.step()
        case "unload":
            replies += scheduler.handle(m.Unload("tiny-lyrics"))
    *heard, failed = replies
    assert [len(each.tokens[1]) for each in heard] == [1, 3]
    codes = {"step": "engine_failed", "deadline": "deadline_exceeded", "unload": "engine_unavailable"}
    assert (failed.id, failed.code) == (1, codes[end])
    if end == "unload":
        return
    monkeypatch.undo()
    assert begins_at_once(scheduler)


def test_many_likely_tokens_do_not_wait_for_the_interval() -> None:
    """The front end makes a text of each of them: a message holds no more than a step's beyond `MOST_TOP_TOKENS`."""
    sender, rows, likeliest = TokenSender(FAR), range(25), tuple((token, -1.0) for token in range(20))
    left = []
    for step in range(6):
        tokens, nats = [(row, step) for row in rows], dict.fromkeys(rows, -1.0)
        sender.add(tokens, float(step), nats, dict.fromkeys(rows, likeliest))
        left.append([len(message.tokens[0]) for message in sender.due(float(step), 0.0)])
    assert 2 * len(rows) * len(likeliest) == MOST_TOP_TOKENS
    assert left == [[1], [], [2], [], [2], []]
