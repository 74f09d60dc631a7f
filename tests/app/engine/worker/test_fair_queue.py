"""Whose turn it is where requests bring many sequences, without any network."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import msgspec

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import LoadedModel
from app.engine.worker.request_queue import ModelQueue, Ticket

FAR = 1e12


def a_lane(slots: int = 64, free: int = 1) -> ModelQueue:
    """Its free rows are set by hand."""
    model = SimpleNamespace(slots=slots, decoder=SimpleNamespace(free=free), leave=lambda request: None, gradual=False)
    return ModelQueue(cast(LoadedModel, model), 10_000)


class Arrivals:
    """Sequences are numbered in order of arrival; a request's are those of one call."""

    def __init__(self, lane: ModelQueue) -> None:
        self.lane, self._numbers, self._requests = lane, itertools.count(), itertools.count(1)

    def arrive(self, sequences: int, beam: int = 1) -> list[int]:
        request, numbers = next(self._requests), list(itertools.islice(self._numbers, sequences))
        for number in numbers:
            self.lane.add(m.Decode(number, "a", [5], [2], FAR, 10, beam=beam, siblings=request), 0.0)
        return numbers


def started(lane: ModelQueue) -> list[int]:
    return sorted(ticket.request.id for group in lane.take(0.0) for ticket in group)


def one_by_one(lane: ModelQueue) -> list[int]:
    """The order in which they start while one row is free at a time."""
    order = []
    while taken := started(lane):
        assert len(taken) == 1
        order += taken
    return order


def test_a_short_request_starts_next_although_a_page_came_before() -> None:
    lane = a_lane()
    arrivals = Arrivals(lane)
    arrivals.arrive(512)
    before = [started(lane)[0] for _ in range(10)]
    (single,) = arrivals.arrive(1)
    after = one_by_one(lane)
    assert before == list(range(10))
    assert after.index(single) <= 1
    assert [number for number in after if number != single] == list(range(10, 512))


def test_requests_of_one_sequence_start_in_order_of_arrival() -> None:
    lane = a_lane()
    arrivals = Arrivals(lane)
    for _ in range(300):
        arrivals.arrive(1)
    assert one_by_one(lane) == list(range(300))


def test_short_requests_that_never_end_leave_a_page_every_second_start() -> None:
    """And the page leaves them the others, in order of their arrival."""
    lane = a_lane()
    arrivals = Arrivals(lane)
    page = set(arrivals.arrive(50))
    for _ in range(20):
        arrivals.arrive(1)
    order = []
    for _ in range(100):
        order += started(lane)
        arrivals.arrive(1)
    of_page = [place for place, number in enumerate(order) if number in page]
    assert len(of_page) == 50
    assert of_page[-1] <= 2 * 50
    singles = [number for number in order if number not in page]
    assert singles == list(range(50, 50 + len(singles)))


def test_of_several_pages_each_has_its_turn_and_keeps_its_order() -> None:
    lane = a_lane()
    arrivals = Arrivals(lane)
    pages = [arrivals.arrive(100) for _ in range(4)]
    order = [started(lane)[0] for _ in range(60)]
    for page in pages:
        of_page = [number for number in order if number in page]
        assert of_page == page[: len(of_page)]
    counts = [sum(number in page for number in order) for page in pages]
    assert sum(counts) == 60
    assert counts[0] in range(30, 41)  # the oldest has half of the starts, and its part of the others
    assert max(counts[1:]) - min(counts[1:]) <= 1


def test_several_rows_that_become_free_together_are_shared_in_the_same_way() -> None:
    lane = a_lane(free=8)
    arrivals = Arrivals(lane)
    page = arrivals.arrive(100)
    singles = [arrivals.arrive(1)[0] for _ in range(3)]
    assert set(started(lane)) == {*page[:5], *singles}


def test_wide_sequences_among_pages_are_passed_sixteen_times_and_no_more() -> None:
    """One row becomes free at a time, and a beam of four needs four."""
    lane = a_lane()
    arrivals = Arrivals(lane)
    arrivals.arrive(200)
    (wide,) = arrivals.arrive(1, beam=4)
    for _ in range(100):
        arrivals.arrive(1)
    assert wide not in (order := one_by_one(lane))
    assert len(order) <= 16 + 2  # two may start before its first turn
    lane.model.decoder.free = 4  # type: ignore[misc]
    assert wide in started(lane)
    lane.model.decoder.free = 1  # type: ignore[misc]
    assert len(one_by_one(lane)) == 300 - len(order)


def test_two_wide_ones_wait_one_after_the_other() -> None:
    lane = a_lane()
    arrivals = Arrivals(lane)
    wide = [arrivals.arrive(1, beam=4)[0] for _ in range(2)]
    for _ in range(100):
        arrivals.arrive(1)
    for each in wide:
        assert len(one_by_one(lane)) == 16
        lane.model.decoder.free = 4  # type: ignore[misc]
        assert started(lane) == [each]
        lane.model.decoder.free = 1  # type: ignore[misc]


def test_whoever_leaves_while_rows_are_kept_for_it_keeps_them_from_nobody() -> None:
    lane = a_lane()
    arrivals = Arrivals(lane)
    (wide,) = arrivals.arrive(1, beam=4)
    arrivals.arrive(100)
    assert len(one_by_one(lane)) == 16
    assert lane.remove(wide)
    assert len(one_by_one(lane)) == 84


def test_whatever_comes_and_goes_everyone_starts_once_or_leaves() -> None:
    chance = random.Random(0)
    lane = a_lane(free=4)
    arrivals = Arrivals(lane)
    came, gone = set[int](), list[int]()
    while len(came) < 2000:
        came.update(arrivals.arrive(chance.choice([1, 1, 1, 2, 30]), beam=chance.choice([1, 1, 4])))
        for number in chance.sample(list(lane.waiting), k=min(2, len(lane.waiting))):
            assert lane.remove(number)
            gone.append(number)
        gone += started(lane)
    while lane.waiting:
        gone += started(lane)
    assert sorted(gone) == sorted(came)
    assert len(lane.waiting) == 0


def test_who_starts_again_comes_before_its_siblings_and_all_others() -> None:
    lane = a_lane(free=3)
    arrivals = Arrivals(lane)
    arrivals.arrive(6)
    begun = [ticket for group in lane.take(0.0) for ticket in group]
    lane.started(begun)
    (single,) = arrivals.arrive(1)
    assert lane.give_up_step() == []
    assert started(lane) == [0, 1, 2]
    assert single in started(lane)


def test_those_without_a_number_are_requests_of_their_own() -> None:
    lane = a_lane()
    arrivals = Arrivals(lane)
    arrivals.arrive(10)
    for number in (100, 101):
        lane.add(m.Decode(number, "a", [5], [2], FAR, 10), 0.0)
    assert one_by_one(lane).index(101) <= 4
    assert msgspec.structs.asdict(m.Decode(1, "a", [], [], 0.0, 1))["siblings"] == 0


def test_rows_that_nobody_can_take_are_not_looked_for() -> None:
    """Slots that are no multiple of the beam: at every step some are free, and all who wait need more."""
    lane = a_lane(free=3)
    arrivals = Arrivals(lane)
    arrivals.arrive(100, beam=4)

    def looked() -> Iterator[Ticket]:
        raise AssertionError("someone was looked for")
        yield

    lane.waiting._in_turn = looked  # type: ignore[method-assign]
    assert started(lane) == []
    (narrow,) = arrivals.arrive(1, beam=3)
    del lane.waiting._in_turn  # type: ignore[method-assign]
    assert started(lane) == [narrow]
    assert started(lane) == []
    assert lane.remove(5)
    lane.model.decoder.free = 4  # type: ignore[misc]
    assert started(lane) == [0]
