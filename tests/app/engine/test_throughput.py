"""The rate that Retry-After is made from, while clients leave."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from app.engine.admission import WINDOW_S, Admission, Demand, Throughput
from app.engine.worker.model_runner import LoadedModel
from app.engine.worker.request_queue import ModelQueue
from tests.app.engine.fake_clock import Clock
from tests.request_builders import decode_message


def test_rate_does_not_fall_between_two_reports(clock: Clock) -> None:
    """64 tokens a second, all of cancelled requests; the device reports every second. 640 tokens wait."""
    admission = Admission(1000, 100_000)
    waits = []
    with admission.admitted(Demand("a", 1, 640, 0, 1)):
        for eighth in range(1, 200):
            clock.now += 0.125
            if eighth % 8 == 0:
                admission.wasted("a", 64)
            if eighth >= 24:
                waits.append(admission.retry_after_s("a"))
    assert set(waits) == {10}


def test_wasted_tokens_reported_after_the_last_request_are_measured(clock: Clock) -> None:
    """Ten times: a second of work, all requests are cancelled, and only then the device reports."""
    admission = Admission(1000, 100_000)
    for _ in range(10):
        with pytest.raises(KeyError), admission.admitted(Demand("a", 1, 100, 0, 1)):
            clock.now += 1.0
            raise KeyError
        clock.now += 0.5
        admission.wasted("a", 20)
        clock.now += 60
    assert admission.models["a"].busy.rate() == pytest.approx(20)


def test_output_long_after_the_last_request_is_not_measured(clock: Clock) -> None:
    throughput = Throughput()
    throughput.run(True)
    clock.now += 10
    throughput.finished(100)
    throughput.run(False)
    clock.now += 10
    throughput.reported(1000)
    assert throughput.rate() == 10


def test_silent_device_does_not_stop_the_window(clock: Clock) -> None:
    throughput = Throughput()
    throughput.run(True)
    clock.now += 10
    throughput.reported(100)
    clock.now += 0.5
    assert throughput.rate() == 10
    clock.now += 9.5
    assert throughput.rate() == 5


def test_window_ends_at_the_last_report(clock: Clock) -> None:
    throughput = Throughput()
    throughput.run(True)
    for _ in range(200):
        clock.now += 0.5
        throughput.finished(5)
        if clock.now % 1 == 0:
            throughput.reported(10)
    assert throughput.rate() == pytest.approx(20, rel=1 / WINDOW_S)


def test_tokens_of_a_cancelled_beam_count_once() -> None:
    """As they do in what was admitted; the metric counts every row that was computed."""
    model = SimpleNamespace(slots=8, decoder=SimpleNamespace(free=8, leave=lambda request: None), gradual=False)
    lane = ModelQueue(cast(LoadedModel, model), 100)
    lane.add(decode_message(1, "a", [5, 6], [2], 1e12, 50, beam_size=4), 0.0)
    (group,) = lane.take(0.0)
    lane.started(group)
    for _ in range(10):
        lane.stepped(4, 0.0, 0.0)
    assert lane.remove(1)
    done = lane.statistics("a").done
    assert (done.cancelled_tokens, done.cancelled_work) == (3 + 4 * 10, 3 + 10)
