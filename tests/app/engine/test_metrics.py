"""What is counted, against scripted answers of a device: each series moves by exactly what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from app.engine import errors
from app.engine import messages as m
from app.engine.devices import Devices
from app.engine.jobs import ModelInfo, PoolStatus
from app.engine.meter import RequestMeter
from app.engine.metrics import Metrics, served_name
from app.engine.switchboard import Switchboard, gather
from app.engine.writing import Writing

TIMES = ("request_queue_time_seconds", "time_to_first_token_seconds", "inter_token_latency_seconds")
ENDS = (
    *[("request_success_total", "finished_reason", r) for r in ("stop", "length", "attention")],
    *[("request_cancelled_total", "reason", r) for r in ("disconnect", "sibling", "deadline", "queue_age")],
    *[("request_failure_total", "reason", r) for r in ("device_died", "engine_failed", "invalid_request", "draining")],
)


class Scripted:
    """A switchboard over a device that says what the test says."""

    def __init__(self, timeout_s: float = 5.0) -> None:
        self.metrics, self.sent = Metrics(), list[Any]()
        self.name, self.outstanding_tokens, self.process, self.gone = "cuda:0", 0, self, False
        self.board = Switchboard(cast(Devices, self), timeout_s, self.metrics)

    def least_busy(self, model: str) -> Scripted | None:
        return None if self.gone else self

    def die(self) -> None:
        self.gone = True
        self.board.device_died(self.name)

    def send(self, messages: list[Any]) -> None:
        self.sent += messages

    def ask(self, model: str = "demo@2", tokens: int = 3, watch: object = None) -> asyncio.Task[Any]:
        return asyncio.create_task(self.asking(model, tokens, watch))

    def asking(self, model: str = "demo@2", tokens: int = 3, watch: object = None) -> Coroutine[Any, Any, Any]:
        message = m.Decode(0, model, [5] * tokens, [2], 0.0, 9)
        return self.board.ask(message, tokens, cast(Writing | None, watch))

    def value(self, name: str, model: str = "demo", **labels: str) -> float:
        return value(self.metrics, name, model_name=model, device="cuda:0", **labels)

    def ends(self) -> dict[str, float]:
        """How sequences ended, without the ends that never happened."""
        counted = {
            reason: self.metrics.registry.get_sample_value(
                f"parlance:{name}", {"model_name": "demo", "device": "cuda:0", label: reason}
            )
            for name, label, reason in ENDS
        }
        return {reason: count for reason, count in counted.items() if count}

    def in_flight(self) -> int:
        return self.metrics.by_model.inflight["demo", "cuda:0"]


def value(metrics: Metrics, name: str, **labels: str) -> float:
    found = metrics.registry.get_sample_value(f"parlance:{name}", labels)
    assert found is not None, f"no series {name} {labels}"
    return found


def play(scene: Callable[[Scripted], Awaitable[None]], timeout_s: float = 5.0) -> Scripted:
    async def run() -> Scripted:
        scripted = Scripted(timeout_s)
        await scene(scripted)
        return scripted

    return asyncio.run(run())


def a_request(metrics: Metrics) -> RequestMeter:
    meter = metrics.request("demo@1", 4)
    meter.sent("cpu")
    return meter


def finished(request: int, tokens: int, ended: bool = True, timing: m.Timing | None = None) -> m.Finished:
    return m.Finished(request, [m.Hypothesis([7] * tokens, -1.0, ended), m.Hypothesis([8] * 9, -2.0, ended)], timing)


def test_an_answer_moves_each_series_once() -> None:
    async def scene(on: Scripted) -> None:
        asked = on.ask(tokens=5)
        await asyncio.sleep(0)
        assert (on.in_flight(), on.ends(), on.value("prompt_tokens_total")) == (1, {}, 5)
        on.board.reply(finished(1, tokens=5, timing=m.Timing(0.25, 0.5, 2.5)))
        await asked

    on = play(scene)
    assert (on.in_flight(), on.ends()) == (0, {"stop": 1})
    assert (on.value("prompt_tokens_total"), on.value("generation_tokens_total")) == (5, 5)
    assert [on.value(f"{name}_count") for name in TIMES] == [1, 1, 1]
    assert [on.value(f"{name}_sum") for name in TIMES] == [0.25, 0.5, 0.5]  # 2 s for the four tokens behind the first
    assert on.value("e2e_request_latency_seconds_count") == 1
    assert 0 < on.value("e2e_request_latency_seconds_sum") < 5
    assert on.value("time_to_first_token_seconds_bucket", le="0.2") == 0
    assert on.value("time_to_first_token_seconds_bucket", le="0.5") == 1


def test_an_answer_at_its_limit_and_one_token_have_no_time_between_tokens() -> None:
    async def scene(on: Scripted) -> None:
        asked = on.ask()
        await asyncio.sleep(0)
        on.board.reply(finished(1, tokens=1, ended=False, timing=m.Timing(0.1, 0.2, 0.2)))
        await asked

    on = play(scene)
    assert on.ends() == {"length": 1}
    assert [on.value(f"{name}_count") for name in TIMES] == [1, 1, 0]


def test_without_the_devices_times_those_of_the_tokens_count() -> None:
    class Watch:
        def __init__(self) -> None:
            self.tokens = list[int]()

        def feed(self, tokens: list[int]) -> bool:
            self.tokens += tokens
            return 3 in tokens

    async def scene(on: Scripted) -> None:
        asked = on.ask(watch=Watch())
        await asyncio.sleep(0)
        for token in (1, 2, 3):
            on.board.reply(m.Tokens({1: [token]}))
        assert await asked is None

    on = play(scene)
    assert on.ends() == {"stop": 1}
    assert on.value("request_cancelled_total", reason="stop_string") == 1
    assert on.sent[1:] == [m.Cancel(1)]
    assert on.value("generation_tokens_total") == 3
    assert [on.value(f"{name}_count") for name in TIMES] == [0, 1, 1]


def test_attention_is_no_generation() -> None:
    async def scene(on: Scripted) -> None:
        asked = on.ask()
        await asyncio.sleep(0)
        on.board.reply(m.Attention(1, []))
        await asked

    on = play(scene)
    assert on.ends() == {"attention": 1}
    assert [on.value(f"{name}_count") for name in (*TIMES, "e2e_request_latency_seconds")] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("end", "counted"),
    [
        (lambda on, task: task.cancel(), {"disconnect": 1}),
        (lambda on, task: on.board.reply(m.Failed(1, "engine_failed", "No.")), {"engine_failed": 1}),
        (lambda on, task: on.board.reply(m.Failed(1, "invalid_request", "No.")), {"invalid_request": 1}),
        (lambda on, task: on.board.reply(m.Failed(1, "deadline_exceeded", "No.")), {"deadline": 1}),
        (lambda on, task: on.die(), {"device_died": 1}),
    ],
)
def test_each_end_is_counted_once_and_leaves_nothing(end: Callable[..., object], counted: dict[str, int]) -> None:
    async def scene(on: Scripted) -> None:
        asked = on.ask()
        await asyncio.sleep(0)
        end(on, asked)
        (outcome,) = await asyncio.gather(asked, return_exceptions=True)
        assert isinstance(outcome, BaseException)
        if isinstance(outcome, errors.EngineError):
            on.metrics.refused(outcome)  # as the error table does: it has been counted

    on = play(scene)
    assert (on.ends(), on.in_flight(), on.board._waiters) == (counted, 0, {})
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
        asked = asyncio.create_task(gather(work))
        await asyncio.sleep(0.01)
        assert on.in_flight() == 3
        if fails:
            on.board.reply(m.Failed(2, "engine_failed", "No."))
        else:
            asked.cancel()
        with pytest.raises(errors.EngineFailed if fails else asyncio.CancelledError):
            await asked

    on = play(scene)
    assert (on.ends(), on.in_flight()) == (counted, 0)


def test_a_request_that_no_device_took_is_a_refusal_alone() -> None:
    metrics = Metrics()
    error = errors.EngineUnavailable("No device.")
    with pytest.raises(errors.EngineUnavailable), metrics.request("demo@1", 4):
        raise error
    metrics.refused(error)
    assert refusals(metrics) == {"engine_unavailable": 1}
    assert gauges_there(metrics) == set()


def test_a_stream_that_is_left_has_had_its_first_token() -> None:
    class Reader:
        def feed(self, tokens: list[int]) -> bool:
            return False

    async def scene(on: Scripted) -> None:
        asked = on.ask(watch=Reader())
        await asyncio.sleep(0)
        on.board.reply(m.Tokens({1: [5]}))
        assert on.value("time_to_first_token_seconds_count") == 1  # already
        on.board.reply(m.Tokens({1: [6, 7]}))
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        asked = on.ask(watch=Reader())
        await asyncio.sleep(0)
        on.board.reply(m.Tokens({2: [5]}))
        on.board.reply(finished(2, tokens=3, timing=m.Timing(0.1, 100.0, 102.0)))
        await asked

    on = play(scene)
    assert on.ends() == {"disconnect": 1, "stop": 1}
    assert on.value("generation_tokens_total") == 3 + 3
    assert [on.value(f"{name}_count") for name in TIMES] == [1, 2, 1]
    assert on.value("time_to_first_token_seconds_sum") < 5  # what the reader saw
    assert on.value("inter_token_latency_seconds_sum") == 1.0  # what the device says


def test_a_second_chance_is_counted_where_it_ends_and_its_first_token_once() -> None:
    class Listener:
        def feed(self, tokens: list[int]) -> bool:
            return False

        def restart(self) -> bool:
            return True

    async def scene(on: Scripted) -> None:
        asked = on.ask(watch=Listener())
        await asyncio.sleep(0)
        on.board.reply(m.Tokens({1: [5]}))
        on.board.device_died(on.name)  # and the next process is ready at once
        await asyncio.sleep(0.01)
        assert (on.in_flight(), on.ends()) == (1, {})
        on.board.reply(m.Tokens({2: [5]}))
        on.board.reply(finished(2, tokens=2))
        await asked

    on = play(scene)
    assert (on.ends(), on.in_flight()) == ({"stop": 1}, 0)
    assert (on.value("prompt_tokens_total"), on.value("generation_tokens_total")) == (3, 2)
    assert on.value("time_to_first_token_seconds_count") == 1


def test_what_a_device_refuses_by_the_age_of_its_queue_is_a_refusal() -> None:
    async def scene(on: Scripted) -> None:
        asked = on.ask()
        await asyncio.sleep(0)
        on.board.reply(m.Failed(1, "overloaded", "Later."))
        with pytest.raises(errors.Overloaded) as refused:
            await asked
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


def test_a_request_that_moves_to_another_device_is_counted_where_it_ends() -> None:
    metrics = Metrics()
    with metrics.request("demo@1", 4) as meter:
        for device in ("cuda:0", "cuda:1"):
            meter.sent(device)
            meter.heard(1)
            assert {key: count for key, count in metrics.by_model.inflight.items() if count} == {("demo", device): 1}
        meter.answered(finished(1, 3))
    lost, kept = ({"model_name": "demo", "device": device} for device in ("cuda:0", "cuda:1"))
    assert value(metrics, "prompt_tokens_total", **lost) == 4
    assert value(metrics, "request_success_total", finished_reason="stop", **lost) == 0
    assert value(metrics, "request_success_total", finished_reason="stop", **kept) == 1
    assert value(metrics, "generation_tokens_total", **kept) == 3
    assert not any(metrics.by_model.inflight.values())


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


def refusals(metrics: Metrics) -> dict[str, float]:
    families = {family.name: family for family in metrics.registry.collect()}
    return {s.labels["reason"]: s.value for s in families["parlance:request_refused"].samples if s.value}


def lane(model: str, **change: Any) -> m.LaneStatistics:
    empty: dict[str, Any] = dict.fromkeys(m.LaneStatistics.__struct_fields__, 0)
    return m.LaneStatistics(**{**empty, "model": model, "slots": 8, "step_seconds": [], **change})


def test_a_beat_is_added_up_over_the_versions_of_a_model() -> None:
    metrics = Metrics()
    both = [
        lane("demo@1", rows=2, step_seconds=[0.003, 0.03], step_rows=6, read_tokens=10, padded_tokens=4),
        lane("demo@2", rows=4, active=2, waiting=3, step_seconds=[0.003], cancelled_tokens=5),
    ]
    for _ in range(2):
        metrics.beat("cpu", m.Beat(both))
    of = {"model_name": "demo", "device": "cpu"}
    assert value(metrics, "step_duration_seconds_count", **of) == 6
    assert value(metrics, "step_duration_seconds_sum", **of) == pytest.approx(0.072)
    assert value(metrics, "step_duration_seconds_bucket", le="0.005", **of) == 4
    totals = ("step_rows_total", "prefill_tokens_total", "prefill_padded_tokens_total", "cancelled_tokens_total")
    assert [value(metrics, name, **of) for name in totals] == [12, 20, 8, 10]


GAUGES = ("num_requests_running", "num_requests_waiting", "slots", "slots_used", "kv_cache_usage_perc")


def test_gauges_follow_beats_while_there_is_work_and_are_zero_at_once_when_there_is_none() -> None:
    metrics = Metrics()

    def gauges() -> list[float]:
        return [value(metrics, name, model_name="demo", device="cpu") for name in GAUGES]

    requests = [a_request(metrics) for _ in range(5)]
    assert gauges_there(metrics) == {"num_requests_running", "num_requests_waiting"}  # no beat yet: no slots known
    metrics.beat("cpu", m.Beat([lane("demo@1", rows=6, active=3, waiting=2)]))
    assert gauges() == [3, 2, 8, 6, 0.75]
    for request in requests[:4]:
        request.__exit__(None, None, None)
    assert gauges() == [0, 1, 8, 6, 0.75]  # never more than there are
    requests[4].__exit__(None, None, None)
    requests[4].__exit__(None, None, None)  # an end is an end
    assert gauges() == [0, 0, 8, 0, 0]
    metrics.device_died("cpu")
    assert gauges_there(metrics) == set()


def gauges_there(metrics: Metrics) -> set[str]:
    families = parse(generate_latest(metrics.registry).decode())
    return {f.name.removeprefix("parlance:") for f in families if f.name.startswith("parlance:") and f.samples} & {
        *GAUGES
    }


def test_devices_and_models_are_looked_up_at_each_scrape() -> None:
    info = ModelInfo("demo", "lyrics", "gru", 1, None, None, 1, None, 1, ("cuda:0",))
    status = PoolStatus(False, {"cuda:0": "ready", "cuda:1": "restarting"}, 1, ())
    metrics = Metrics()
    metrics.watch(cast(Any, SimpleNamespace(status=lambda: status, models=lambda: [info])))
    metrics.device_died("cuda:1")
    found = {
        device: [value(metrics, f, device=device) for f in ("device_ready", "models_loaded", "device_deaths_total")]
        for device in ("cuda:0", "cuda:1")
    }
    assert found == {"cuda:0": [1, 1, 0], "cuda:1": [0, 0, 1]}
    assert value(metrics, "num_requests_running", model_name="demo", device="cuda:0") == 0
    metrics.scrape()  # a rate must see the first event, so there is a 0 before it
    assert value(metrics, "request_cancelled_total", model_name="demo", device="cuda:0", reason="disconnect") == 0


def test_models_go_by_the_name_that_clients_use() -> None:
    metrics = Metrics()
    metrics.request("a@b@7@1", 4).sent("cpu")
    metrics.beat("cpu", m.Beat([lane("a@b@7@1")]))
    assert {model for model, _ in metrics.by_model._series} == {"a@b@7"}
    assert [served_name(key) for key in ("demo@12", "demo", "a@b@1", "a@b")] == ["demo", "demo", "a@b", "a@b"]


def test_both_formats_parse_and_follow_the_conventions() -> None:
    metrics = Metrics()
    a_request(metrics).answered(finished(1, 3, timing=m.Timing(0.1, 0.2, 0.3)))
    with pytest.raises(errors.EngineFailed), a_request(metrics):
        raise errors.EngineFailed("No.")
    metrics.beat("cpu", m.Beat([lane("demo@1", step_seconds=[0.1])]))
    metrics.refused(errors.UnknownModel("No."))
    metrics.http("/translate", "POST", 200)
    text = generate_latest(metrics.registry).decode()
    families = list(parse(text))
    assert {f.name for f in families} == {
        f.name for f in parse_openmetrics(openmetrics.generate_latest(metrics.registry, openmetrics.ALLOWUTF8).decode())
    }
    lines = text.splitlines()
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert family.documentation, name
        assert sum(line.startswith(f"# HELP {name} ") for line in lines) == 1, name
        assert sum(line.startswith(f"# TYPE {name} ") for line in lines) == 1, name
        assert not family.name.endswith("_created"), name
        for sample in family.samples:
            if family.name.startswith("parlance:"):
                known = {"model_name", "device", "reason", "finished_reason", "route", "method", "status", "le"}
                assert sample.labels.keys() <= known, name
    assert len([f for f in families if f.name.startswith("parlance:")]) > 20


def test_apps_do_not_share_what_they_count() -> None:
    one, other = Metrics(), Metrics()
    a_request(one)
    assert value(one, "prompt_tokens_total", model_name="demo", device="cpu") == 4
    assert "model_name" not in generate_latest(other.registry).decode()
