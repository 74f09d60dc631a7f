"""Which requests of a model start next, without any network."""

from __future__ import annotations

import gc
import itertools
import random
from types import SimpleNamespace
from typing import cast

import msgspec

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import LoadedModel
from app.engine.worker.request_queue import (
    MAX_EXAMINED,
    MAX_OVERTAKES,
    SPARE_PADDING,
    ModelQueue,
    Ticket,
    groups_by_length,
    padded_tokens,
)
from tests.app.engine.call_counts import calls
from tests.request_builders import decode_message

FAR = 1e12


def a_queue(slots: int, prefill_tokens: int = 10_000) -> ModelQueue:
    """Its rows are set by hand."""
    decoder = SimpleNamespace(free=slots, leave=lambda request: None)
    model = SimpleNamespace(slots=slots, decoder=decoder, gradual=False)
    return ModelQueue(cast(LoadedModel, model), prefill_tokens)


def a_request(number: int, tokens: int = 1, beam: int = 1, deadline: float = FAR) -> m.Decode:
    return decode_message(number, "a", [5] * tokens, [2], deadline, 10, beam_size=beam)


def take(queue: ModelQueue) -> list[list[int]]:
    """Groups by number; they hold no rows, so that the test decides how many are free."""
    groups = queue.take(0.0)
    return [[ticket.request.id for ticket in group] for group in groups]


def test_groups_are_of_similar_length_and_hold_every_request_once() -> None:
    rng = random.Random(0)
    queue = a_queue(64, 100_000)
    lengths = [rng.choice([3, 5, 30, 200, 210, 500]) for _ in range(64)]
    for number, length in enumerate(lengths):
        queue.add(a_request(number, length), 0.0)
    groups = queue.take(0.0)
    assert sorted(t.request.id for group in groups for t in group) == list(range(64))
    assert len(groups) > 2
    for group in groups:
        real = sum(ticket.tokens for ticket in group)
        assert padded_tokens(group) <= max(1.25 * real, real + SPARE_PADDING)


def test_a_little_padding_is_not_worth_another_call() -> None:
    queue = a_queue(8)
    for number, length in enumerate([2, 12, 3, 9]):
        queue.add(a_request(number, length), 0.0)
    assert len(take(queue)) == 1


def test_the_budget_counts_padding_and_lets_at_least_one_start() -> None:
    queue = a_queue(64, prefill_tokens=100)
    for number, length in enumerate([400, 20, 20, 35, 20, 20, 20]):
        queue.add(a_request(number, length), 0.0)
    assert take(queue) == [[0]]
    while queue.waiting:
        numbers = list(queue.waiting)
        groups = queue.take(0.0)
        assert sum(map(padded_tokens, groups)) <= 100
        taken = sorted(t.request.id for group in groups for t in group)
        assert taken == numbers[: len(taken)]  # in order of arrival, whatever their groups


def test_a_beam_without_room_is_overtaken_a_bounded_number_of_times() -> None:
    queue = a_queue(8)
    queue.model.decoder.free = 1  # type: ignore[misc]
    queue.add(a_request(0, beam=4), 0.0)
    for number in range(1, 100):
        queue.add(a_request(number), 0.0)
    passed: list[int] = []
    while taken := take(queue):
        passed += itertools.chain(*taken)
    assert passed == list(range(1, MAX_OVERTAKES + 1))
    queue.model.decoder.free = 3  # type: ignore[misc]
    assert take(queue) == []  # the rows are kept for the beam
    queue.model.decoder.free = 4  # type: ignore[misc]
    assert take(queue) == [[0]]
    assert take(queue) == [[17, 18, 19, 20]]


def test_a_queue_of_thousands_costs_a_step_no_more_than_a_short_one() -> None:
    queue = a_queue(8)
    for number in range(10_000):
        queue.add(a_request(number, beam=9), 0.0)  # none fits
    queue.add(a_request(10_001), 0.0)  # but the last
    assert calls(lambda: take(queue)) <= 8 * MAX_EXAMINED
    assert take(queue) == []
    assert calls(lambda: queue.late(1.0)) <= 8


def test_late_requests_are_named_once_and_removed_ones_never() -> None:
    queue = a_queue(8)
    for number in range(5000):
        queue.add(a_request(number, deadline=float(number)), 0.0)
        if number >= 100:
            assert queue.remove(number - 100)
    gc.collect()
    assert sum(type(thing) is Ticket for thing in gc.get_objects()) < 3000
    queue.add(a_request(6000, deadline=4950.0), 0.0)
    assert queue.late(4903.5) == [4900, 4901, 4902, 4903]
    for number in range(4900, 4904):
        assert queue.remove(number)
        assert not queue.remove(number)
    assert queue.late(4903.5) == []
    assert queue.late(4950.5) == [*range(4904, 4951), 6000]


def test_an_empty_queue_has_no_groups() -> None:
    assert groups_by_length([]) == []
    assert take(a_queue(4)) == []


def test_stale_requests_are_named_once_and_begun_ones_never() -> None:
    queue = a_queue(2)
    for number in range(6):
        queue.add(msgspec.structs.replace(a_request(number), start_by=10.0 + number), 0.0)
    queue.add(a_request(6), 0.0)  # no limit
    begun = [ticket for group in queue.take(1.0) for ticket in group]
    assert [ticket.request.id for ticket in begun] == [0, 1]
    queue.started(begun)
    assert queue.give_up_step() == []  # 0 and 1 wait once more: their turn has come in time
    assert queue.stale(13.5) == [2, 3]
    for number in (2, 3):
        assert queue.remove(number)
    assert queue.stale(13.5) == []
    assert queue.remove(4)
    assert queue.stale(1e9) == [5]
    assert queue.late(1e9) == []
    assert list(queue.waiting) == [0, 1, 5, 6]


def test_start_limits_of_removed_requests_are_forgotten() -> None:
    queue = a_queue(8)
    gc.collect()
    before = sum(type(thing) is Ticket for thing in gc.get_objects())
    for number in range(5000):
        queue.add(msgspec.structs.replace(a_request(number), start_by=FAR), 0.0)
        assert queue.remove(number)
    assert sum(type(thing) is Ticket for thing in gc.get_objects()) - before <= 2 * 1025


def test_a_burst_on_an_idle_cpu_starts_gradually_and_on_a_busy_one_at_once() -> None:
    queue = a_queue(64)
    queue.model.gradual = True
    for number in range(40):
        queue.add(a_request(number), 5.0)
    started = []
    for ms in range(60):  # a millisecond each
        taken = [ticket for group in queue.take(5.0 + (ms + 0.1) / 1000 if ms else 5.0) for ticket in group]
        if taken:
            queue.started(taken)
        started.append(len(queue.active))
    assert [started[ms] for ms in (0, 9, 10, 20, 31, 45, 54, 59)] == [1, 1, 2, 4, 8, 22, 40, 40]
    queue.add(a_request(99), 6.0)
    assert take_at(queue, 6.0) == [[99]]


def test_a_prefill_beside_running_sequences_is_bounded_in_time() -> None:
    """100 us a token: 50 ms are 500 tokens, which four requests of 120 and a start token fill."""
    queue = a_queue(64)
    for number in range(30):
        queue.add(a_request(number, 120), 0.0)
    (first,) = queue.take(0.0)
    assert len(first) == 30, "nothing is running, and the speed is not known"
    queue.started(first, 30 * 121 * 100e-6)
    for number in range(30, 60):
        queue.add(a_request(number, 120), 0.0)
    assert take(queue) == [[30, 31, 32, 33]]
    queue.active.clear()
    assert take(queue) == [list(range(34, 60))]


def test_a_prefill_that_is_longer_than_the_bound_starts_alone() -> None:
    queue = a_queue(8)
    queue.add(a_request(0, 10), 0.0)
    (first,) = queue.take(0.0)
    queue.started(first, 11 * 0.001)  # 1 ms a token
    queue.add(a_request(1, 200), 0.0)
    queue.add(a_request(2, 10), 0.0)
    assert take(queue) == [[1]]
    assert take(queue) == [[2]]


def test_short_requests_of_a_burst_soon_share_a_step() -> None:
    """Each request takes one step of a millisecond, so the queue is always busy."""
    queue = a_queue(64)
    queue.model.gradual = True
    for number in range(300):
        queue.add(a_request(number), 5.0)
    now, together = 5.0, []
    while queue.waiting:
        groups = queue.take(now)
        together.append(sum(map(len, groups)))
        now += 0.001
    assert together[:10] == [1] * 10
    assert len(together) < 85  # and not 300
    assert max(together) > 16


def take_at(queue: ModelQueue, now: float) -> list[list[int]]:
    return [[ticket.request.id for ticket in group] for group in queue.take(now)]
