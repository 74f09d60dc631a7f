from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator

import pytest

from app.engine.admission import ORIGIN, Admission, Demand, RequestOrigin
from app.errors import InvalidRequest, Overloaded
from tests.app.engine.fake_clock import Clock


def asks(requests: int, tokens: int, new_tokens: int = 0, rows: int | None = None) -> Demand:
    return Demand("a", requests, tokens, new_tokens, requests if rows is None else rows)


@contextlib.contextmanager
def singles(admission: Admission, requests: int, tokens: int) -> Iterator[None]:
    """So many requests of so many tokens each."""
    with contextlib.ExitStack() as stack:
        for _ in range(requests):
            stack.enter_context(admission.admitted(asks(1, tokens)))
        yield


def held(admission: Admission) -> tuple[int, int, int, int]:
    """requests, tokens, work and rows; there is one model only."""
    assert all(
        vars(model)[name] == vars(admission.all)[name]
        for model in admission.models.values()
        for name in ("work", "rows")
    )
    return admission.all.requests, admission.tokens, admission.all.work, admission.all.rows


def test_requests_and_tokens_are_bounded_and_come_back() -> None:
    admission = Admission(max_requests=3, max_tokens=100)
    with admission.admitted(asks(2, 60)):
        with pytest.raises(Overloaded, match="try again in 1 second"), admission.admitted(asks(1, 41)):
            pass
        with pytest.raises(Overloaded), admission.admitted(asks(2, 1)):
            pass
        with admission.admitted(asks(1, 40, 7)):
            assert held(admission) == (3, 100, 107, 3)
    assert held(admission) == (0, 0, 0, 0)


def test_refusal_names_its_bound(clock: Clock) -> None:
    reasons = []
    for ask in (asks(2, 1), asks(1, 60)):
        admission = Admission(max_requests=2, max_tokens=100)
        with admission.admitted(asks(1, 60)), pytest.raises(Overloaded) as refused, admission.admitted(ask):
            pass
        reasons.append(refused.value.reason)
    admission = Admission(100, 1000, slots=1, max_queue_age_s=1)
    with admission.admitted(asks(2, 20)):
        clock.now += 2
    with admission.admitted(asks(3, 30)), pytest.raises(Overloaded) as refused, admission.admitted(asks(1, 1)):
        pass
    assert [*reasons, refused.value.reason] == ["overloaded_requests", "overloaded_tokens", "queue_age"]


def test_room_comes_back_when_the_request_fails() -> None:
    admission = Admission(3, 100)
    with pytest.raises(KeyError), admission.admitted(asks(1, 10, 10)):
        raise KeyError
    assert held(admission) == (0, 0, 0, 0)


def test_answered_sentences_release_their_tokens_at_once(clock: Clock) -> None:
    admission = Admission(100, 10_000, slots=4, max_queue_age_s=10)
    page = [asks(1, 10, 10, rows=1)] * 20
    with admission.admitted(*page) as answered:
        assert held(admission) == (20, 200, 400, 20)
        for part in page[:-1]:
            clock.now += 1
            answered(part)
        assert admission.models["a"].loaded.rate() == pytest.approx(
            20
        )  # measured while there was more than fits the slots
        assert held(admission) == (1, 10, 20, 1)
        assert (admission.queue_s("a"), admission.retry_after_s("a")) == (0, 1)
    assert held(admission) == (0, 0, 0, 0)


def test_a_request_that_fails_in_part_gives_all_back_once() -> None:
    admission, part = Admission(10, 100), asks(1, 10, 10)
    with pytest.raises(KeyError), admission.admitted(part, part) as answered:
        answered(part)
        raise KeyError
    assert held(admission) == (0, 0, 0, 0)


def test_request_larger_than_the_queue_is_a_client_error() -> None:
    with pytest.raises(InvalidRequest, match="Send it in parts"), Admission(3, 100).admitted(asks(1, 101)):
        pass
    with pytest.raises(InvalidRequest, match="4 sequences"), Admission(3, 100).admitted(asks(4, 1)):
        pass


def test_retry_after_is_the_outstanding_work_over_the_measured_throughput(clock: Clock) -> None:
    admission = Admission(100, 100_000)
    for _ in range(4):  # 4 × (20 + 30) tokens in 10 seconds of work
        with admission.admitted(asks(1, 20, 30)):
            clock.now += 2.5
        clock.now += 1000  # nothing to do: says nothing about how fast we are
    with admission.admitted(asks(1, 100, 200)):
        assert admission.retry_after_s("a") == 15  # 300 tokens at 200 tokens / 10 s
        clock.now += 10
        assert admission.retry_after_s("a") == 30  # twice the time for the same work
    with admission.admitted(asks(1, 100_000)):
        assert admission.retry_after_s("a") == 60
    assert Admission(100, 100).retry_after_s("a") == 1


def test_cancelled_requests_are_not_counted_as_done(clock: Clock) -> None:
    admission = Admission(100, 100_000)
    with admission.admitted(asks(1, 100)):
        clock.now += 10
    for _ in range(50):
        with pytest.raises(KeyError), admission.admitted(asks(1, 1000)):
            raise KeyError
    with admission.admitted(asks(1, 100)):
        assert admission.retry_after_s("a") == 10


def test_a_queue_that_would_take_too_long_is_refused_before_it_is_full(clock: Clock) -> None:
    """4 slots, and a request of 10 tokens takes 2 seconds: 20 tokens a second when the slots are full."""
    admission = Admission(100, 100_000, slots=4, max_queue_age_s=5)

    def four_at_once() -> None:
        with admission.admitted(asks(5, 50)):
            clock.now += 2.5

    four_at_once()
    with admission.admitted(asks(4, 40)):
        assert admission.queue_s("a") == 0  # all have slots
        with singles(admission, 10, 10):
            assert admission.queue_s("a") == 5.0  # 100 tokens wait at 20 a second
            with admission.admitted(asks(1, 1)):  # 5 s is not beyond 5 s
                with pytest.raises(Overloaded) as refused, admission.admitted(asks(1, 1)):
                    pass
                assert refused.value.retry_after_s == 8  # 141 tokens at 20 a second


def test_throughput_with_free_slots_refuses_no_request(clock: Clock) -> None:
    """One client after another says how fast one sequence goes, not how fast 64 go together."""
    admission = Admission(1000, 100_000, slots=4, max_queue_age_s=5)
    for _ in range(20):
        with admission.admitted(asks(1, 10)):
            clock.now += 1.0
    with admission.admitted(asks(100, 1000)):
        assert admission.queue_s("a") == 0
        with admission.admitted(asks(1, 10)):
            pass


def test_throughput_counts_only_times_of_full_slots(clock: Clock) -> None:
    admission = Admission(1000, 100_000, slots=4)
    with admission.admitted(asks(5, 50)):
        clock.now += 2.5
    for _ in range(20):
        with admission.admitted(asks(1, 1000)):
            clock.now += 0.1
    assert admission.models["a"].loaded.rate() == 20


def test_idle_service_forgets_finished_work(clock: Clock) -> None:
    admission = Admission(3, 100)
    for _ in range(200):
        with admission.admitted(asks(1, 10)):
            clock.now += 1.0
    assert len(pickle.dumps(admission.models["a"].busy)) < 1000  # 30 s of it; 200 would be 3,000 bytes


def test_cancellations_do_not_lower_the_measured_rate(clock: Clock) -> None:
    """20 tokens a second with full slots; nine of ten belong to requests that are cancelled."""
    admission = Admission(100, 100_000, slots=4, max_queue_age_s=5)
    with admission.admitted(asks(5, 50)):
        for _ in range(30):
            clock.now += 1
            admission.wasted("a", 18)
            with admission.admitted(asks(1, 2)):
                pass
        assert admission.models["a"].loaded.rate() == 20
        with singles(admission, 5, 10):
            assert admission.queue_s("a") == 3  # 60 of 100 tokens have no slot


def test_behind_pages_a_short_request_waits_for_its_turn_and_another_page_for_all_of_them(clock: Clock) -> None:
    """20 tokens a second when the slots are full, and every second start is that of the next request in turn."""
    admission = Admission(1000, 100_000, slots=4, max_queue_age_s=60)
    with admission.admitted(asks(5, 50)):
        clock.now += 2.5
    with admission.admitted(asks(100, 1000)), admission.admitted(asks(104, 1040)):
        assert admission.queue_s("a", 1) == 2  # two requests have turns, four starts of 10 tokens each
        assert admission.queue_s("a", 10) == 20
        assert admission.queue_s("a", 100) == 100  # 2,000 of 2,040 tokens wait
        with admission.admitted(asks(1, 10)):
            pass
        with pytest.raises(Overloaded, match="60 seconds"), admission.admitted(asks(50, 500)):
            pass
    assert admission.queue_s("a", 100) == 0
    assert admission.models["a"].open == 0


@contextlib.contextmanager
def coming_from(client: str) -> Iterator[None]:
    token = ORIGIN.set(RequestOrigin(client))
    try:
        yield
    finally:
        ORIGIN.reset(token)


def admitted_singles(admission: Admission, client: str, tokens: int, stack: contextlib.ExitStack) -> int:
    """How many requests of one client are admitted before the first refusal, which names the client's share."""
    for number in range(10_000):
        with coming_from(client):
            try:
                stack.enter_context(admission.admitted(asks(1, tokens)))
            except Overloaded as refused:
                assert refused.reason == "overloaded_client"
                assert str(refused) == "Too many of your requests are unanswered; try again in 1 second."
                return number
    raise AssertionError("no bound")


@pytest.mark.parametrize(("most", "tokens"), [((1024, 10**6), 1), ((10**6, 1024), 1)], ids=["requests", "tokens"])
def test_no_client_fills_the_room_for_the_others(most: tuple[int, int], tokens: int) -> None:
    admission = Admission(*most)
    with contextlib.ExitStack() as stack:
        assert admitted_singles(admission, "a", tokens, stack) == 768, "three quarters"
        assert admitted_singles(admission, "b", tokens, stack) == 192, "three quarters of the rest"
        with coming_from("c"), admission.admitted(asks(20, 20)):
            pass
        with admission.admitted(asks(60, 60)):
            pass
    assert not admission.clients.held
    with contextlib.ExitStack() as stack, coming_from("a"):
        stack.enter_context(admission.admitted(asks(1024, 1024)))  # one request of a page, in an idle service


def test_share_of_a_client_comes_back_with_each_answered_part() -> None:
    admission = Admission(8, 1000)
    part = asks(1, 1)
    with coming_from("a"), admission.admitted(*[part] * 6) as answered:
        with pytest.raises(Overloaded), admission.admitted(*[part] * 2):
            pass
        answered(part)
        answered(part)
        with admission.admitted(part):
            assert admission.clients.held == {"a": (5, 5)}
    assert not admission.clients.held
