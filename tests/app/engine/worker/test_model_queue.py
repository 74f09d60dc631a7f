"""Who starts next, without any network."""

from __future__ import annotations

import itertools
import random
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import LoadedModel
from app.engine.worker.request_queue import (
    MAX_EXAMINED,
    MAX_OVERTAKES,
    SPARE_PADDING,
    ModelQueue,
    groups_by_length,
    padded_tokens,
)

FAR = 1e12


def a_lane(slots: int, prefill_tokens: int = 10_000) -> ModelQueue:
    """Its rows are set by hand."""
    decoder = SimpleNamespace(free=slots)
    model = SimpleNamespace(slots=slots, decoder=decoder, leave=lambda request: None, gradual=False)
    return ModelQueue(cast(LoadedModel, model), prefill_tokens)


def a_request(number: int, tokens: int = 1, beam: int = 1, deadline: float = FAR) -> m.Decode:
    return m.Decode(number, "a", [5] * tokens, [2], deadline, 10, beam=beam)


def take(lane: ModelQueue) -> list[list[int]]:
    """Groups by number; they hold no rows, so that the test decides how many are free."""
    groups = lane.take(0.0)
    return [[ticket.request.id for ticket in group] for group in groups]


def test_groups_are_of_similar_length_and_hold_everyone_once() -> None:
    chance = random.Random(0)
    lane = a_lane(64, 100_000)
    lengths = [chance.choice([3, 5, 30, 200, 210, 500]) for _ in range(64)]
    for number, length in enumerate(lengths):
        lane.add(a_request(number, length), 0.0)
    groups = lane.take(0.0)
    assert sorted(t.request.id for group in groups for t in group) == list(range(64))
    assert len(groups) > 2
    for group in groups:
        real = sum(ticket.tokens for ticket in group)
        assert padded_tokens(group) <= max(1.25 * real, real + SPARE_PADDING)


def test_a_little_padding_is_not_worth_another_call() -> None:
    lane = a_lane(8)
    for number, length in enumerate([2, 12, 3, 9]):
        lane.add(a_request(number, length), 0.0)
    assert len(take(lane)) == 1


def test_the_budget_counts_padding_and_lets_at_least_one_start() -> None:
    lane = a_lane(64, prefill_tokens=100)
    for number, length in enumerate([400, 20, 20, 35, 20, 20, 20]):
        lane.add(a_request(number, length), 0.0)
    assert take(lane) == [[0]]
    while lane.waiting:
        numbers = list(lane.waiting)
        groups = lane.take(0.0)
        assert sum(map(padded_tokens, groups)) <= 100
        taken = sorted(t.request.id for group in groups for t in group)
        assert taken == numbers[: len(taken)]  # in order of arrival, whatever their groups


def test_a_beam_without_room_is_overtaken_but_not_for_ever() -> None:
    lane = a_lane(8)
    lane.model.decoder.free = 1  # type: ignore[misc]
    lane.add(a_request(0, beam=4), 0.0)
    for number in range(1, 100):
        lane.add(a_request(number), 0.0)
    passed: list[int] = []
    while taken := take(lane):
        passed += itertools.chain(*taken)
    assert passed == list(range(1, MAX_OVERTAKES + 1))
    lane.model.decoder.free = 3  # type: ignore[misc]
    assert take(lane) == []  # the rows are kept for the beam
    lane.model.decoder.free = 4  # type: ignore[misc]
    assert take(lane) == [[0]]
    assert take(lane) == [[17, 18, 19, 20]]


def test_a_queue_of_thousands_costs_a_step_no_more_than_a_short_one() -> None:
    lane = a_lane(8)
    for number in range(10_000):
        lane.add(a_request(number, beam=9), 0.0)  # none fits
    lane.add(a_request(10_001), 0.0)  # but the last
    seen = 0

    class Counted(OrderedDict[int, Any]):
        def values(self) -> Any:
            nonlocal seen
            for value in super().values():
                seen += 1
                yield value

    lane.waiting._tickets = Counted(lane.waiting._tickets)
    lane.waiting._requests = Counted(lane.waiting._requests)
    assert take(lane) == []
    assert lane.late(1.0) == []
    assert seen <= 2 * (MAX_EXAMINED + 1)  # in both orders: of arrival, and by turns


def test_the_late_are_named_once_and_those_who_left_never() -> None:
    lane = a_lane(8)
    for number in range(5000):
        lane.add(a_request(number, deadline=float(number)), 0.0)
        if number >= 100:
            assert lane.remove(number - 100)
    assert len(lane._deadlines) < 3000
    lane.add(a_request(6000, deadline=4950.0), 0.0)
    assert lane.late(4903.5) == [4900, 4901, 4902, 4903]
    for number in range(4900, 4904):
        assert lane.remove(number)
        assert not lane.remove(number)
    assert lane.late(4903.5) == []
    assert lane.late(4950.5) == [*range(4904, 4951), 6000]


def test_no_group_of_nobody() -> None:
    assert groups_by_length([]) == []
    assert take(a_lane(4)) == []


def test_who_waited_too_long_to_begin_is_named_once_and_who_has_begun_never() -> None:
    lane = a_lane(2)
    for number in range(6):
        lane.add(msgspec.structs.replace(a_request(number), start_by=10.0 + number), 0.0)
    lane.add(a_request(6), 0.0)  # no limit
    begun = [ticket for group in lane.take(1.0) for ticket in group]
    assert [ticket.request.id for ticket in begun] == [0, 1]
    lane.started(begun)
    assert lane.give_up_step() == []  # 0 and 1 wait once more: their turn has come in time
    assert lane.stale(13.5) == [2, 3]
    for number in (2, 3):
        assert lane.remove(number)
    assert lane.stale(13.5) == []
    assert lane.remove(4)
    assert lane.stale(1e9) == [5]
    assert lane.late(1e9) == []
    assert list(lane.waiting) == [0, 1, 5, 6]


def test_start_times_of_those_who_left_do_not_pile_up() -> None:
    lane = a_lane(8)
    for number in range(5000):
        lane.add(msgspec.structs.replace(a_request(number), start_by=FAR), 0.0)
        assert lane.remove(number)
    assert len(lane._starts) <= 1025


def test_a_burst_on_an_idle_cpu_starts_gradually_and_a_busy_one_takes_who_comes() -> None:
    lane = a_lane(64)
    lane.model.gradual = True
    for number in range(40):
        lane.add(a_request(number), 5.0)
    started = []
    for ms in range(60):  # a millisecond each
        taken = [ticket for group in lane.take(5.0 + (ms + 0.1) / 1000 if ms else 5.0) for ticket in group]
        if taken:
            lane.started(taken)
        started.append(len(lane.active))
    assert [started[ms] for ms in (0, 9, 10, 20, 31, 45, 54, 59)] == [1, 1, 2, 4, 8, 22, 40, 40]
    lane.add(a_request(99), 6.0)
    assert take_at(lane, 6.0) == [[99]]


def test_short_requests_of_a_burst_soon_share_a_step() -> None:
    """Each is done after a step of a millisecond: the lane is busy all the while, whoever runs."""
    lane = a_lane(64)
    lane.model.gradual = True
    for number in range(300):
        lane.add(a_request(number), 5.0)
    now, together = 5.0, []
    while lane.waiting:
        groups = lane.take(now)
        together.append(sum(map(len, groups)))
        now += 0.001
    assert together[:10] == [1] * 10
    assert len(together) < 85  # and not 300
    assert max(together) > 16


def take_at(lane: ModelQueue, now: float) -> list[list[int]]:
    return [[ticket.request.id for ticket in group] for group in lane.take(now)]
