"""Fairness between requests that bring many sequences, without any network."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import cast

import msgspec

from app.engine.worker.model_runner import LoadedModel
from app.engine.worker.request_queue import ModelQueue
from tests.app.engine.call_counts import calls
from tests.request_builders import decode_message

FAR = 1e12


def a_queue(slots: int = 64, free: int = 1) -> ModelQueue:
    """Its free rows are set by hand."""
    model = SimpleNamespace(slots=slots, decoder=SimpleNamespace(free=free, leave=lambda request: None), gradual=False)
    return ModelQueue(cast(LoadedModel, model), 10_000)


class Arrivals:
    """Numbers sequences in order of arrival; one call adds the sequences of one request."""

    def __init__(self, queue: ModelQueue) -> None:
        self.queue, self._numbers, self._requests = queue, itertools.count(), itertools.count(1)

    def arrive(self, sequences: int, beam: int = 1) -> list[int]:
        request, numbers = next(self._requests), list(itertools.islice(self._numbers, sequences))
        for number in numbers:
            self.queue.add(decode_message(number, "a", [5], [2], FAR, 10, beam_size=beam, siblings=request), 0.0)
        return numbers


def started(queue: ModelQueue) -> list[int]:
    return sorted(ticket.request.id for group in queue.take(0.0) for ticket in group)


def one_by_one(queue: ModelQueue) -> list[int]:
    """The order in which they start while one row is free at a time."""
    order = []
    while taken := started(queue):
        assert len(taken) == 1
        order += taken
    return order


def test_a_short_request_starts_next_although_a_page_came_before() -> None:
    queue = a_queue()
    arrivals = Arrivals(queue)
    arrivals.arrive(512)
    before = [started(queue)[0] for _ in range(10)]
    (single,) = arrivals.arrive(1)
    after = one_by_one(queue)
    assert before == list(range(10))
    assert after.index(single) <= 1
    assert [number for number in after if number != single] == list(range(10, 512))


def test_requests_of_one_sequence_start_in_order_of_arrival() -> None:
    queue = a_queue()
    arrivals = Arrivals(queue)
    for _ in range(300):
        arrivals.arrive(1)
    assert one_by_one(queue) == list(range(300))


def test_short_requests_that_never_end_leave_a_page_every_second_start() -> None:
    """And the page leaves them the others, in order of their arrival."""
    queue = a_queue()
    arrivals = Arrivals(queue)
    page = set(arrivals.arrive(50))
    for _ in range(20):
        arrivals.arrive(1)
    order = []
    for _ in range(100):
        order += started(queue)
        arrivals.arrive(1)
    of_page = [place for place, number in enumerate(order) if number in page]
    assert len(of_page) == 50
    assert of_page[-1] <= 2 * 50
    singles = [number for number in order if number not in page]
    assert singles == list(range(50, 50 + len(singles)))


def test_of_several_pages_each_has_its_turn_and_keeps_its_order() -> None:
    queue = a_queue()
    arrivals = Arrivals(queue)
    pages = [arrivals.arrive(100) for _ in range(4)]
    order = [started(queue)[0] for _ in range(60)]
    for page in pages:
        of_page = [number for number in order if number in page]
        assert of_page == page[: len(of_page)]
    counts = [sum(number in page for number in order) for page in pages]
    assert sum(counts) == 60
    assert counts[0] in range(30, 41)  # the oldest has half of the starts, and its part of the others
    assert max(counts[1:]) - min(counts[1:]) <= 1


def test_several_rows_that_become_free_together_are_shared_in_the_same_way() -> None:
    queue = a_queue(free=8)
    arrivals = Arrivals(queue)
    page = arrivals.arrive(100)
    singles = [arrivals.arrive(1)[0] for _ in range(3)]
    assert set(started(queue)) == {*page[:5], *singles}


def test_wide_sequences_among_pages_are_passed_sixteen_times_and_no_more() -> None:
    """One row becomes free at a time, and a beam of four needs four."""
    queue = a_queue()
    arrivals = Arrivals(queue)
    arrivals.arrive(200)
    (wide,) = arrivals.arrive(1, beam=4)
    for _ in range(100):
        arrivals.arrive(1)
    assert wide not in (order := one_by_one(queue))
    assert len(order) <= 16 + 2  # two may start before its first turn
    queue.model.decoder.free = 4  # type: ignore[misc]
    assert wide in started(queue)
    queue.model.decoder.free = 1  # type: ignore[misc]
    assert len(one_by_one(queue)) == 300 - len(order)


def test_two_beams_wait_one_after_the_other() -> None:
    queue = a_queue()
    arrivals = Arrivals(queue)
    wide = [arrivals.arrive(1, beam=4)[0] for _ in range(2)]
    for _ in range(100):
        arrivals.arrive(1)
    for sequence in wide:
        assert len(one_by_one(queue)) == 16
        queue.model.decoder.free = 4  # type: ignore[misc]
        assert started(queue) == [sequence]
        queue.model.decoder.free = 1  # type: ignore[misc]


def test_rows_reserved_for_a_removed_beam_are_used_by_others() -> None:
    queue = a_queue()
    arrivals = Arrivals(queue)
    (wide,) = arrivals.arrive(1, beam=4)
    arrivals.arrive(100)
    assert len(one_by_one(queue)) == 16
    assert queue.remove(wide)
    assert len(one_by_one(queue)) == 84


def test_every_sequence_starts_once_or_is_removed() -> None:
    rng = random.Random(0)
    queue = a_queue(free=4)
    arrivals = Arrivals(queue)
    came, gone = set[int](), list[int]()
    while len(came) < 2000:
        came.update(arrivals.arrive(rng.choice([1, 1, 1, 2, 30]), beam=rng.choice([1, 1, 4])))
        for number in rng.sample(list(queue.waiting), k=min(2, len(queue.waiting))):
            assert queue.remove(number)
            gone.append(number)
        gone += started(queue)
    while queue.waiting:
        gone += started(queue)
    assert sorted(gone) == sorted(came)
    assert len(queue.waiting) == 0


def test_restarted_sequences_come_before_all_others() -> None:
    queue = a_queue(free=3)
    arrivals = Arrivals(queue)
    arrivals.arrive(6)
    begun = [ticket for group in queue.take(0.0) for ticket in group]
    queue.started(begun)
    (single,) = arrivals.arrive(1)
    assert queue.give_up_step() == []
    assert started(queue) == [0, 1, 2]
    assert single in started(queue)


def test_sequences_without_a_sibling_number_are_requests_of_their_own() -> None:
    queue = a_queue()
    arrivals = Arrivals(queue)
    arrivals.arrive(10)
    for number in (100, 101):
        queue.add(decode_message(number, "a", [5], [2], FAR, 10), 0.0)
    assert one_by_one(queue).index(101) <= 4
    assert msgspec.structs.asdict(decode_message(1, "a", [], [], 0.0, 1))["siblings"] == 0


def test_the_queue_is_not_searched_when_no_request_fits_the_free_rows() -> None:
    """The number of slots is no multiple of the beam: some are always free, but every waiting request needs more."""
    queue = a_queue(free=3)
    arrivals = Arrivals(queue)
    arrivals.arrive(100, beam=4)

    assert calls(lambda: started(queue)) < 12
    assert started(queue) == []
    (narrow,) = arrivals.arrive(1, beam=3)
    assert started(queue) == [narrow]
    assert started(queue) == []
    assert queue.remove(5)
    queue.model.decoder.free = 4  # type: ignore[misc]
    assert started(queue) == [0]
