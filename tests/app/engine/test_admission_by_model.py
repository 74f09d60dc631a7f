"""Several models on one service: each has its own slots, its own speed and its own queue."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from app.engine.admission import Admission, Demand
from app.errors import InvalidRequest, Overloaded
from tests.app.engine.fake_clock import Clock


def asks(model: str, requests: int, work: int) -> Demand:
    return Demand(model, requests, work, 0, requests)


def a_full_queue(clock: Clock) -> Admission:
    """4 slots per model; `slow` decodes 10 tokens a second with full slots and allows a queue of 5 s."""
    admission = Admission(100, 100_000, slots=4, max_queue_age_s=5)
    with admission.admitted(asks("slow", 5, 50)):
        clock.now += 5
    return admission


@contextlib.contextmanager
def ten_wait(admission: Admission) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(admission.admitted(asks("slow", 1, 10)))
        yield


def test_long_queue_of_one_model_does_not_refuse_others(clock: Clock) -> None:
    admission = a_full_queue(clock)
    with ten_wait(admission):
        assert admission.queue_s("slow") == 6  # 60 of 100 tokens have no slot
        assert (admission.queue_s("quick"), admission.queue_s("new")) == (0, 0)
        with admission.admitted(asks("quick", 1, 10)):
            pass
        with pytest.raises(Overloaded) as refused, admission.admitted(asks("slow", 1, 10)):
            pass
        assert (refused.value.reason, refused.value.retry_after_s) == ("queue_age", 10)


def test_slots_of_one_model_are_not_filled_by_another(clock: Clock) -> None:
    """Three requests of each model run at once: the queue is empty, so its throughput is not measured."""
    admission = Admission(100, 100_000, slots=4, max_queue_age_s=0.1)
    for _ in range(10):
        with admission.admitted(asks("a", 3, 30)), admission.admitted(asks("b", 3, 30)):
            clock.now += 1
    with admission.admitted(asks("a", 4, 40)), admission.admitted(asks("b", 4, 40)):
        assert (admission.queue_s("a"), admission.queue_s("b")) == (0, 0)
        assert admission.all.loaded.rate() is None


def test_retry_after_uses_the_throughput_of_the_requested_model(clock: Clock) -> None:
    admission = Admission(100, 100_000)
    for model, seconds in (("quick", 1), ("slow", 10)):
        with admission.admitted(asks(model, 1, 100)):
            clock.now += 3 * seconds
    with admission.admitted(asks("quick", 1, 100)), admission.admitted(asks("slow", 1, 100)):
        assert [admission.retry_after_s(model) for model in ("quick", "slow", "new")] == [3, 30, 1]


def test_bounds_of_the_service_count_all_models_and_say_when_any_of_them_has_room(clock: Clock) -> None:
    admission = Admission(max_requests=4, max_tokens=100)
    with admission.admitted(asks("a", 4, 80)):
        clock.now += 4  # the service is full, and does 80 tokens in 4 s
    with admission.admitted(asks("a", 2, 40)), admission.admitted(asks("b", 1, 40)):
        with pytest.raises(Overloaded) as refused, admission.admitted(asks("c", 2, 1)):
            pass
        assert (refused.value.reason, refused.value.retry_after_s) == ("overloaded_requests", 4)
        with pytest.raises(Overloaded) as refused, admission.admitted(asks("c", 1, 21)):
            pass
        assert (refused.value.reason, refused.value.retry_after_s) == ("overloaded_tokens", 4)
    large = admission.admitted(asks("a", 3, 1), asks("b", 2, 1))
    with pytest.raises(InvalidRequest, match="5 sequences of 2 tokens"), large:
        pass


def test_a_request_for_two_models_is_counted_on_each_and_given_back_in_parts(clock: Clock) -> None:
    admission = Admission(100, 100_000)
    parts = [asks("a", 1, 10), asks("b", 1, 20), asks("a", 1, 30)]
    with pytest.raises(KeyError), admission.admitted(*parts) as answered:
        assert {name: model.work for name, model in admission.models.items()} == {"a": 40, "b": 20}
        assert (admission.all.work, admission.all.rows, admission.tokens) == (60, 3, 60)
        answered(parts[0])
        assert {name: model.work for name, model in admission.models.items()} == {"a": 30, "b": 20}
        raise KeyError
    assert [model.work for model in (admission.all, *admission.models.values())] == [0, 0, 0]
    assert (admission.all.requests, admission.tokens) == (0, 0)


def test_a_request_for_two_models_waits_for_the_one_with_the_queue(clock: Clock) -> None:
    admission = a_full_queue(clock)
    with ten_wait(admission):
        both = admission.admitted(asks("quick", 1, 1), asks("slow", 1, 1))
        with pytest.raises(Overloaded, match="10 seconds"), both:
            pass
        assert admission.all.requests == 10


def test_devices_report_the_slots_that_their_memory_gave_a_model(clock: Clock) -> None:
    """Until both have reported, a device counts with the slots that were assumed for it."""
    admission = Admission(1000, 100_000, slots=4, devices=("cuda:0", "cuda:1"), max_queue_age_s=1000)
    with admission.admitted(asks("a", 20, 200)):
        clock.now += 20  # 10 tokens a second
    with admission.admitted(asks("a", 20, 200)):
        for device, slots, queued in (("cuda:0", 4, 12), ("cuda:0", 10, 6), ("cuda:1", 8, 2), ("cuda:1", 12, 0)):
            admission.reported_slots("a", device, slots)
            assert admission.queue_s("a", 20) == pytest.approx(queued)
    assert admission.models["b"].slots == 8
