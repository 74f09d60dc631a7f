"""What the front end counts, for Prometheus. A request here is one sequence: a text of a batch, a sample of n.

Labels are the model's name without its version and the device: both bounded by what is loaded. Nothing that a client
sends becomes a label.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter as Tally
from contextvars import ContextVar

from prometheus_client import CollectorRegistry, Counter, PlatformCollector, ProcessCollector

from app.engine import messages as m
from app.engine.errors import DeadlineExceeded, EngineError, Overloaded
from app.engine.gauges import Gauges
from app.engine.jobs import Engine
from app.engine.series import PREFIX, REFUSED, Families, Series

_siblings_failed: ContextVar[list[bool] | None] = ContextVar("_siblings_failed", default=None)


def siblings() -> None:
    """What starts from here are the sequences of one request: when one fails, the others are cancelled with it."""
    _siblings_failed.set([])


def served_name(model: str) -> str:
    """The name that clients use of a loaded version: demo-de-en of demo-de-en@2."""
    return re.sub(r"@\d+$", "", model)


class Metrics:
    """One for each app, with a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._families = Families(self.registry)
        self._refused = Counter(
            f"{PREFIX}request_refused",
            "HTTP requests that were turned away, by reason.",
            ["reason"],
            registry=self.registry,
        )
        for reason in REFUSED:
            self._refused.labels(reason)
        self._http = Counter(
            f"{PREFIX}http_requests",
            "HTTP requests, by route, method and status.",
            ["route", "method", "status"],
            registry=self.registry,
        )
        self._series: dict[tuple[str, str], Series] = {}
        self.inflight: Tally[tuple[str, str]] = Tally()  # (model, device) -> sequences, exact at any time
        self.gauges = Gauges(self.inflight)
        self.registry.register(self.gauges)

    def watch(self, engine: Engine) -> None:
        """At each scrape, say which devices are ready and what they have loaded."""
        self.gauges.engine = engine

    def scrape(self) -> CollectorRegistry:
        """The registry, after each loaded model has got its series."""
        for model, device in self.gauges.loaded():
            self.series(model, device)
        return self.registry

    def series(self, model: str, device: str) -> Series:
        """Those of a loaded model, by its served name."""
        key = (model, device)
        if key not in self._series:
            self._series[key] = Series(self._families, *key)
        return self._series[key]

    def request(self, model: str, tokens: int) -> RequestMeter:
        """One sequence is about to be asked of a model, which has so many tokens to read."""
        return RequestMeter(self, model, tokens)

    def refused(self, error: EngineError) -> None:
        """A request is answered with this error. One that reached a device has been counted there."""
        if not error.was_sent:
            self._refused.labels(error.reason).inc()

    def http(self, route: str, method: str, status: int) -> None:
        """route: its template, never a client's path."""
        self._http.labels(route, method, str(status)).inc()

    def beat(self, device: str, beat: m.Beat) -> None:
        """What the device has done since its last beat, and how full it is now."""
        lanes: dict[str, list[m.LaneStatistics]] = {}
        for lane in beat.lanes:
            lanes.setdefault(served_name(lane.model), []).append(lane)
            series = self.series(served_name(lane.model), device)
            for seconds in lane.step_seconds:
                series.step.observe(seconds)
            series.step_rows.inc(lane.step_rows)
            series.prefill_tokens.inc(lane.read_tokens)
            series.padded_tokens.inc(lane.padded_tokens)
            series.cancelled_tokens.inc(lane.cancelled_tokens)
        self.gauges.lanes[device] = lanes

    def device_died(self, device: str) -> None:
        """Its process ended, and nobody had asked it to."""
        self.gauges.deaths[device] += 1
        self.device_gone(device)

    def device_gone(self, device: str) -> None:
        """Its process is over: it holds nothing any more."""
        self.gauges.lanes.pop(device, None)


class RequestMeter:
    """One sequence until its end, which is exactly one of: answered, cancelled, failed; or never sent, which counts
    nothing. A context: what leaves it unanswered is how it ended."""

    def __init__(self, metrics: Metrics, model: str, tokens: int) -> None:
        self._metrics, self._model, self._read, self._written = metrics, served_name(model), tokens, 0
        self._began_s, self._first_s = time.monotonic(), 0.0
        self._device: str | None = None

    def __enter__(self) -> RequestMeter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._device is not None:
            self._count(error)
            self._leave()

    def sent(self, device: str) -> None:
        """To a device, or to another after the first was lost: then it begins again."""
        if self._device is None:
            self._metrics.series(self._model, device).prompt_tokens.inc(self._read)
        else:
            self._metrics.inflight[self._model, self._device] -= 1
        self._device, self._written = device, 0
        self._metrics.inflight[self._model, device] += 1

    def token(self) -> None:
        """A token has come."""
        if not self._written:
            self._first_s = time.monotonic() - self._began_s
        self._written += 1

    def answered(self, answer: m.Finished | m.Attention | str | None) -> None:
        """None, or the text before it: a stop string has come, and the rest is not wanted."""
        assert self._device is not None, "nobody was asked"
        series = self._metrics.series(self._model, self._device)
        match answer:
            case m.Attention():
                series.success("attention").inc()
            case m.Finished():
                best = answer.hypotheses[0] if answer.hypotheses else None
                self._written = len(best.tokens) if best else 0
                series.success("stop" if best and best.finished else "length").inc()
                self._observe(series, answer.timing)
            case _:
                series.success("stop").inc()
                series.cancelled("stop_string").inc()
                self._observe(series, None)
        self._leave()

    def _observe(self, series: Series, timing: m.Timing | None) -> None:
        """The device's own times, where it tells them: they have no transfer in them."""
        first_s, whole_s = self._first_s, time.monotonic() - self._began_s
        series.whole.observe(whole_s)
        if timing is not None:
            first_s, whole_s = timing.first_token_s, timing.total_s
            series.queue.observe(timing.queued_s)
        if first_s:
            series.first.observe(first_s)
            if self._written > 1:
                series.gap.observe((whole_s - first_s) / (self._written - 1))

    def _count(self, error: BaseException | None) -> None:
        """An end without an answer. None: whoever waited went away."""
        assert self._device is not None
        series, siblings_failed = self._metrics.series(self._model, self._device), _siblings_failed.get()
        if error is None or isinstance(error, asyncio.CancelledError | GeneratorExit):
            series.cancelled("sibling" if siblings_failed else "disconnect").inc()
            return
        if siblings_failed is not None:
            siblings_failed.append(True)
        match error:
            case Overloaded():  # a refusal still, if a late one: the device had no slot for it in time
                error.reason = "queue_age"
                series.cancelled(error.reason).inc()
            case DeadlineExceeded():
                error.was_sent = True
                series.cancelled("deadline").inc()
            case EngineError():
                error.was_sent = True
                series.failure(error.reason).inc()
            case _:
                series.failure("internal_error").inc()

    def _leave(self) -> None:
        """The device has nothing more to do for it."""
        assert self._device is not None
        self._metrics.series(self._model, self._device).generation_tokens.inc(self._written)
        self._metrics.inflight[self._model, self._device] -= 1
        self._device = None
