"""The scheduler over real tiny networks, in this process; what it says is held against `models.decoding.decoder`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from app.engine.protocol import messages as m
from app.engine.worker.scheduler import Scheduler
from tests.app.engine.scheduler_driver import FAR, alone, requests, run
from tests.request_builders import decode_message


def test_thirty_mixed_requests_in_eight_slots_answer_as_each_alone(
    scheduler: Scheduler, tiny_checkpoints: Path
) -> None:
    load = requests(30)
    for request in load:
        assert scheduler.handle(request) == []
    replies = run(scheduler)
    finished = {r.id: [h.tokens for h in r.hypotheses] for r in replies if isinstance(r, m.Finished)}
    assert finished.keys() == {request.id for request in load}
    for request in load:
        assert finished[request.id] == alone(tiny_checkpoints, request), request


def test_a_short_request_overtakes_a_long_one_that_came_before(scheduler: Scheduler) -> None:
    scheduler.handle(decode_message(1, "tiny-lyrics", [], [1], FAR, 500))
    for _ in range(5):
        scheduler.step()
    scheduler.handle(decode_message(2, "tiny-lyrics", [], [2], FAR, 3))
    replies = [reply for _ in range(3) for reply in scheduler.step()]
    assert [r.id for r in replies if isinstance(r, m.Finished)] == [2]


def test_streamed_tokens_join_to_the_answer(scheduler: Scheduler) -> None:
    scheduler.handle(decode_message(1, "tiny-lyrics", [], [1, 2], FAR, 12, streamed=True))
    scheduler.handle(decode_message(2, "tiny-lyrics", [], [3], FAR, 12))
    replies = run(scheduler)
    streamed = [r.tokens for r in replies if isinstance(r, m.Tokens)]
    (answer,) = [r for r in replies if isinstance(r, m.Finished) and r.id == 1]
    assert streamed == [{1: [token]} for token in answer.hypotheses[0].tokens[:-1]]  # the last is in the answer


@pytest.mark.parametrize("n_best", [1, 4])
def test_common_prefix_of_a_beam_is_streamed(scheduler: Scheduler, n_best: int) -> None:
    message = decode_message(1, "tiny-de-en", [4, 5, 6, 7, 3], [2], FAR, 30, beam_size=4, n_best=n_best, streamed=True)
    scheduler.handle(message)
    scheduler.handle(decode_message(2, "tiny-de-en", [5, 3], [2], FAR, 30, beam_size=4))
    by_step = []
    while scheduler.busy:
        by_step.append(scheduler.step())
    replies = [(i, reply) for i, step in enumerate(by_step) for reply in step]
    token_messages = [(i, reply.tokens) for i, reply in replies if isinstance(reply, m.Tokens)]
    streamed = [(i, request, token) for i, new in token_messages for request, tokens in new.items() for token in tokens]
    ((end, answer),) = [(i, r) for i, r in replies if isinstance(r, m.Finished) and r.id == 1]
    tokens = [token for _, request, token in streamed if request == 1]
    assert len(tokens) == len(streamed)  # the other did not ask for any
    assert len({i for i, *_ in streamed if i < end}) > 2
    assert tuple(tokens) == answer.hypotheses[0].tokens[: len(tokens)]
    assert len(answer.hypotheses) == n_best


def test_a_cancelled_request_frees_its_rows_at_once_waiting_or_running(scheduler: Scheduler) -> None:
    for number in range(12):  # eight run, four wait
        scheduler.handle(decode_message(number, "tiny-lyrics", [], [1], FAR, 1000))
    scheduler.step()
    decoder = scheduler.queues["tiny-lyrics"].model.decoder
    assert decoder.free == 0
    for number in (3, 11):
        scheduler.handle(m.Cancel(number))
    assert decoder.free == 1
    scheduler.handle(m.Cancel(99))  # no request has the id 99
    for number in range(12):
        scheduler.handle(m.Cancel(number))
    assert decoder.free == 8
    assert not scheduler.busy


def test_expired_requests_get_no_compute(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler.handle(decode_message(1, "tiny-lyrics", [], [1], time.monotonic() - 1, 5))
    decoder = scheduler.queues["tiny-lyrics"].model.decoder
    monkeypatch.setattr(decoder, "join", lambda requests: pytest.fail("prefilled an expired request"))
    (reply,) = scheduler.step()
    assert isinstance(reply, m.Failed)
    assert (reply.id, reply.code) == (1, "deadline_exceeded")


def test_expired_queued_request_gets_no_compute(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    for number in range(9):  # one more than there are slots
        scheduler.handle(decode_message(number, "tiny-lyrics", [], [1], FAR, 5, start_by=now + 100))
    scheduler.step()
    monkeypatch.setattr(time, "monotonic", lambda: now + 101)
    monkeypatch.setattr(
        scheduler.queues["tiny-lyrics"].model.decoder, "join", lambda requests: pytest.fail("prefilled")
    )
    replies = run(scheduler)
    assert [(r.id, r.code) for r in replies if isinstance(r, m.Failed)] == [(8, "overloaded")]
    assert sorted(r.id for r in replies if isinstance(r, m.Finished)) == list(range(8))


def test_a_request_that_does_not_fit_fails_alone(scheduler: Scheduler) -> None:
    scheduler.handle(decode_message(1, "tiny-de-en", [5] * 33, [2], FAR, 5))  # the slots take 32
    scheduler.handle(decode_message(2, "tiny-de-en", [5, 3], [2], FAR, 5))
    scheduler.handle(decode_message(3, "tiny-de-en", [5, 3], [2], FAR, 5, beam_size=9, n_best=1))
    scheduler.handle(decode_message(4, "nobody", [5, 3], [2], FAR, 5))
    replies = run(scheduler)
    assert [(r.id, r.code) for r in replies if isinstance(r, m.Failed)] == [(1, "invalid_request")]
    assert [r.id for r in replies if isinstance(r, m.Finished)] == [2]


def test_invalid_requests_are_refused(scheduler: Scheduler) -> None:
    (wide,) = scheduler.handle(decode_message(3, "tiny-de-en", [5, 3], [2], FAR, 5, beam_size=9))
    (unknown,) = scheduler.handle(decode_message(4, "nobody", [5, 3], [2], FAR, 5))
    assert (wide.code, unknown.code) == ("invalid_request", "unknown_model")  # type: ignore[union-attr]


def test_timing_and_statistics_add_up(scheduler: Scheduler) -> None:
    started = time.monotonic()
    for number in range(9):
        scheduler.handle(decode_message(number, "tiny-lyrics", [], [1, 2], FAR, 4 if number else 50))
    replies = [reply for _ in range(6) for reply in scheduler.step()]
    scheduler.handle(m.Cancel(0))
    for reply in replies:
        times = [0, reply.timing.queued_s, reply.timing.first_token_s, reply.timing.total_s, time.monotonic() - started]
        assert times == sorted(times)
    assert replies[-1].timing.queued_s <= replies[-1].timing.first_token_s
    by_name = {lane.model: lane for lane in scheduler.statistics()}
    assert len(by_name["tiny-de-en"].done.step_seconds) == 0
    lane = by_name["tiny-lyrics"]
    assert (lane.slots, lane.rows, lane.active, lane.waiting) == (8, 1, 1, 0)
    assert (len(lane.done.step_seconds), lane.done.step_rows) == (6, 4 * 8 + 2 * 2)
    assert (lane.done.read_tokens, lane.done.padded_tokens) == (9 * 2, 0)
    assert lane.done.cancelled_tokens == 2 + 6
    (again,) = [statistic for statistic in scheduler.statistics() if statistic.model == "tiny-lyrics"]
    assert (again.done, again.rows) == (m.Tally(), 1)
