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
from app.engine.errors import DeadlineExceeded, EngineError
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
        """Those of a loaded model, by its name with or without a version."""
        key = (served_name(model), device)
        if key not in self._series:
            self._series[key] = Series(self._families, *key)
        return self._series[key]

    def asked(self, model: str, device: str, tokens: int) -> RequestMeter:
        """A sequence is being sent to a device, which has so many tokens to read."""
        return RequestMeter(self, model, device, tokens)

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
            series = self.series(lane.model, device)
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
    """One sequence from its sending to its end, which is exactly one of: answered, cancelled, failed."""

    __slots__ = ("_began_s", "_first_s", "_key", "_metrics", "_open", "_series", "_tokens")

    def __init__(self, metrics: Metrics, model: str, device: str, tokens: int) -> None:
        self._metrics, self._key, self._series = metrics, (served_name(model), device), metrics.series(model, device)
        self._began_s, self._first_s, self._tokens, self._open = time.monotonic(), 0.0, 0, True
        self._series.prompt_tokens.inc(tokens)
        metrics.inflight[self._key] += 1

    def token(self) -> None:
        """A token has come."""
        if not self._tokens:
            self._first_s = time.monotonic() - self._began_s
        self._tokens += 1

    def answered(self, answer: m.Finished | m.Attention | str) -> None:
        """str: the text before a stop string; the rest of that sequence is not wanted."""
        series = self._series
        match answer:
            case m.Attention():
                series.success("attention").inc()
            case m.Finished():
                best = answer.hypotheses[0] if answer.hypotheses else None
                self._tokens = len(best.tokens) if best else 0
                series.success("stop" if best and best.finished else "length").inc()
                self._observe(answer.timing)
            case str():
                series.success("stop").inc()
                series.cancelled("stop_string").inc()
                self._observe(None)
        self._close()

    def ended(self, error: BaseException | None) -> None:
        """However it ended; nothing more is counted if it was answered. None: whoever waited went away."""
        if not self._open:
            return
        siblings_failed = _siblings_failed.get()
        if error is None or isinstance(error, asyncio.CancelledError | GeneratorExit):
            self._series.cancelled("sibling" if siblings_failed else "disconnect").inc()
        else:
            if siblings_failed is not None:
                siblings_failed.append(True)
            if isinstance(error, EngineError):
                error.was_sent = True
            if isinstance(error, DeadlineExceeded):
                self._series.cancelled("deadline").inc()
            else:
                self._series.failure(error.reason if isinstance(error, EngineError) else "internal_error").inc()
        self._close()

    def _observe(self, timing: m.Timing | None) -> None:
        """The device's own times, where it tells them: they have no transfer in them."""
        series, whole_s = self._series, time.monotonic() - self._began_s
        series.whole.observe(whole_s)
        first_s = self._first_s
        if timing is not None:
            first_s, whole_s = timing.first_token_s, timing.total_s
            series.queue.observe(timing.queued_s)
        if first_s:
            series.first.observe(first_s)
            if self._tokens > 1:
                series.gap.observe((whole_s - first_s) / (self._tokens - 1))

    def _close(self) -> None:
        self._open = False
        self._series.generation_tokens.inc(self._tokens)
        self._metrics.inflight[self._key] -= 1
