"""A device with scripted replies, and its metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse

from app.engine.dispatch.dispatcher import Dispatcher
from app.engine.dispatch.supervisor import Supervisor
from app.engine.metrics import Metrics, RequestMetrics
from app.engine.output.output_processor import OutputProcessor
from app.engine.protocol import messages as m
from models.decoding.options import Hypothesis
from tests.request_builders import decode_message

TIMES = ("request_queue_time_seconds", "time_to_first_token_seconds", "inter_token_latency_seconds")
ENDS = (
    *[("request_success_total", "finished_reason", r) for r in ("stop", "length", "attention", "walkthrough")],
    *[("request_cancelled_total", "reason", r) for r in ("disconnect", "sibling", "deadline", "queue_age")],
    *[("request_failure_total", "reason", r) for r in ("device_died", "engine_failed", "invalid_request", "draining")],
)


class Scripted:
    """A dispatcher over a device that says what the test says."""

    def __init__(self, timeout_s: float = 5.0) -> None:
        self.metrics, self.sent = Metrics(), list[Any]()
        self.name, self.outstanding_tokens, self.process, self.gone = "cuda:0", 0, self, False
        self.dispatcher = Dispatcher(cast(Supervisor, self), timeout_s, self.metrics)

    def is_loading(self, model: str) -> bool:
        return False

    def least_busy(self, model: str) -> Scripted | None:
        return None if self.gone else self

    def die(self) -> None:
        self.gone = True
        self.dispatcher.device_died(self.name)

    def send(self, messages: list[Any]) -> None:
        self.sent += messages

    def ask(self, model: str = "demo@2", tokens: int = 3, watch: object = None) -> asyncio.Task[Any]:
        return asyncio.create_task(self.asking(model, tokens, watch))

    def asking(self, model: str = "demo@2", tokens: int = 3, watch: object = None) -> Coroutine[Any, Any, Any]:
        message = decode_message(0, model, [5] * tokens, [2], 0.0, 9)
        return self.dispatcher.ask(message, tokens, cast(OutputProcessor | None, watch))

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
    result = metrics.registry.get_sample_value(f"parlance:{name}", labels)
    assert result is not None, f"no series {name} {labels}"
    return result


def play(scene: Callable[[Scripted], Awaitable[None]], timeout_s: float = 5.0) -> Scripted:
    async def run() -> Scripted:
        scripted = Scripted(timeout_s)
        await scene(scripted)
        return scripted

    return asyncio.run(run())


def a_request(metrics: Metrics) -> RequestMetrics:
    meter = RequestMetrics(metrics.by_model, "demo@1", 4)
    meter.sent("cpu")
    return meter


def finished(request: int, tokens: int, ended: bool = True, timing: m.Timing | None = None) -> m.Finished:
    hypotheses = [Hypothesis((7,) * tokens, -1.0, -1.0, ended), Hypothesis((8,) * 9, -2.0, -2.0, ended)]
    return m.Finished(request, hypotheses, timing)


def refusals(metrics: Metrics) -> dict[str, float]:
    families = {family.name: family for family in metrics.registry.collect()}
    return {s.labels["reason"]: s.value for s in families["parlance:request_refused"].samples if s.value}


GAUGES = ("num_requests_running", "num_requests_waiting", "slots", "slots_used", "kv_cache_usage_perc")


def gauges_there(metrics: Metrics) -> set[str]:
    families = parse(generate_latest(metrics.registry).decode())
    return {f.name.removeprefix("parlance:") for f in families if f.name.startswith("parlance:") and f.samples} & {
        *GAUGES
    }
