"""Requests that end without an answer: each is counted once, under the right reason, and leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from app import errors
from app.engine.dispatch.dispatcher import gather
from app.engine.metrics import Metrics, RequestMetrics
from app.engine.protocol import messages as m
from tests.app.engine.scripted_device import Scripted, a_request, gauges_there, play, refusals, value


@pytest.mark.parametrize(
    ("end", "counted"),
    [
        (lambda on, task: task.cancel(), {"disconnect": 1}),
        (lambda on, task: on.dispatcher.reply(m.Failed(1, "engine_failed", "No.")), {"engine_failed": 1}),
        (lambda on, task: on.dispatcher.reply(m.Failed(1, "invalid_request", "No.")), {"invalid_request": 1}),
        (lambda on, task: on.dispatcher.reply(m.Failed(1, "deadline_exceeded", "No.")), {"deadline": 1}),
        (lambda on, task: on.die(), {"device_died": 1}),
    ],
)
def test_each_outcome_is_counted_once(end: Callable[..., object], counted: dict[str, int]) -> None:
    async def scene(on: Scripted) -> None:
        pending = on.ask()
        await asyncio.sleep(0)
        end(on, pending)
        (outcome,) = await asyncio.gather(pending, return_exceptions=True)
        assert isinstance(outcome, BaseException)
        if isinstance(outcome, errors.EngineError):
            on.metrics.refused(outcome)  # as the error table does: it has been counted

    on = play(scene)
    assert (on.ends(), on.in_flight(), len(on.dispatcher.pending)) == (counted, 0, 0)
    assert on.value("generation_tokens_total") == 0
    assert refusals(on.metrics) == {}


def test_the_deadline_of_the_front_end() -> None:
    async def scene(on: Scripted) -> None:
        with pytest.raises(errors.DeadlineExceeded):
            await on.ask()

    assert play(scene, timeout_s=0.01).ends() == {"deadline": 1}


@pytest.mark.parametrize(("fails", "counted"), [(True, {"engine_failed": 1, "sibling": 2}), (False, {"disconnect": 3})])
def test_sequences_that_end_with_a_failed_one_did_not_disconnect(fails: bool, counted: dict[str, int]) -> None:
    async def scene(on: Scripted) -> None:
        work = [on.asking() for _ in range(3)]
        task = asyncio.create_task(gather(work))
        await asyncio.sleep(0.01)
        assert on.in_flight() == 3
        if fails:
            on.dispatcher.reply(m.Failed(2, "engine_failed", "No."))
        else:
            task.cancel()
        with pytest.raises(errors.EngineFailed if fails else asyncio.CancelledError):
            await task

    on = play(scene)
    assert (on.ends(), on.in_flight()) == (counted, 0)


def test_a_request_that_no_device_took_is_a_refusal_alone() -> None:
    metrics = Metrics()
    error = errors.EngineUnavailable("No device.")
    with pytest.raises(errors.EngineUnavailable), RequestMetrics(metrics.by_model, "demo@1", 4):
        raise error
    metrics.refused(error)
    assert refusals(metrics) == {"engine_unavailable": 1}
    assert gauges_there(metrics) == set()


def test_refusal_by_queue_age_is_counted_as_a_refusal() -> None:
    async def scene(on: Scripted) -> None:
        task = on.ask()
        await asyncio.sleep(0)
        on.dispatcher.reply(m.Failed(1, "overloaded", "Later."))
        with pytest.raises(errors.Overloaded) as refused:
            await task
        on.metrics.refused(refused.value)

    on = play(scene)
    assert (on.ends(), on.in_flight()) == ({"queue_age": 1}, 0)
    assert refusals(on.metrics) == {"queue_age": 1}


def test_a_slot_that_was_not_free_in_time_is_a_refusal_and_a_cancellation() -> None:
    metrics, error = Metrics(), errors.Overloaded("Later.", retry_after_s=1)
    with pytest.raises(errors.Overloaded), a_request(metrics):
        raise error
    metrics.refused(error)
    assert refusals(metrics) == {"queue_age": 1}
    assert value(metrics, "request_cancelled_total", model_name="demo", device="cpu", reason="queue_age") == 1


def test_refusals_are_counted_by_reason() -> None:
    metrics = Metrics()
    for error in (
        errors.Overloaded("Later.", retry_after_s=1, reason="overloaded_tokens"),
        errors.TextTooLong("Too long."),
        errors.EngineUnavailable("Later.", reason="draining"),
        errors.EngineUnavailable("Later.", reason="draining"),
    ):
        metrics.refused(error)
    assert refusals(metrics) == {"overloaded_tokens": 1, "text_too_long": 1, "draining": 2}
