"""What the front end counts, for Prometheus. A request here is one sequence: a text of a batch, a sample of n.

Labels are the model's name without its version and the device: both bounded by what is loaded. Nothing that a client
sends becomes a label.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from prometheus_client import CollectorRegistry, Counter, PlatformCollector, ProcessCollector

from app.engine import messages as m
from app.engine.errors import EngineError
from app.engine.gauges import Gauges
from app.engine.jobs import Engine
from app.engine.meter import RequestMeter
from app.engine.series import PREFIX, REFUSED, ByModel


@lru_cache(maxsize=1024)
def served_name(model: str) -> str:
    """The name that clients use of a loaded version: demo-de-en of demo-de-en@2."""
    return re.sub(r"@\d+$", "", model)


class Metrics:
    """One for each app, with a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.by_model = ByModel(self.registry)
        self._refused = Counter(
            f"{PREFIX}request_refused",
            "HTTP requests that were turned away, by reason.",
            ["reason"],
            registry=self.registry,
        )
        for reason in REFUSED:
            self._refused.labels(reason)
        self._sharing_failed = Counter(
            f"{PREFIX}shared_counts_failed",
            "Messages about limits and quotas that Redis did not answer in time.",
            registry=self.registry,
        )
        self._http = Counter(
            f"{PREFIX}http_requests",
            "HTTP requests, by route, method and status.",
            ["route", "method", "status"],
            registry=self.registry,
        )
        self._answers = cache(self._http.labels)
        self.gauges = Gauges(self.by_model.inflight)
        self.registry.register(self.gauges)

    def watch(self, engine: Engine) -> None:
        """At each scrape, say which devices are ready and what they have loaded."""
        self.gauges.engine = engine

    def scrape(self) -> CollectorRegistry:
        """The registry, after each loaded model has got its series."""
        for model, device in self.gauges.loaded():
            self.by_model.series(model, device)
        return self.registry

    def request(self, model: str, tokens: int, *, goes_on: bool = False) -> RequestMeter:
        """One sequence is about to be asked of a model, which has so many tokens to read. goes_on: for a request that
        asks for more then, and ends with that."""
        return RequestMeter(self.by_model, served_name(model), tokens, goes_on=goes_on)

    def refused(self, error: EngineError) -> None:
        """A request is answered with this error. One that reached a device has been counted there."""
        if not error.was_sent:
            self._refused.labels(error.reason).inc()

    def sharing_failed(self) -> None:
        """Redis did not answer: this server counts for itself for a while."""
        self._sharing_failed.inc()

    def http(self, route: str, method: str, status: int) -> None:
        """route: its template, never a client's path."""
        self._answers(route, method, str(status)).inc()

    def beat(self, device: str, beat: m.Beat) -> None:
        """What the device has done since its last beat, and how full it is now."""
        lanes: dict[str, list[m.LaneStatistics]] = {}
        for lane in beat.lanes:
            lanes.setdefault(served_name(lane.model), []).append(lane)
            series = self.by_model.series(served_name(lane.model), device)
            for seconds in lane.done.step_seconds:
                series.step.observe(seconds)
            series.step_rows.inc(lane.done.step_rows)
            series.prefill_tokens.inc(lane.done.read_tokens)
            series.padded_tokens.inc(lane.done.padded_tokens)
            series.cancelled_tokens.inc(lane.done.cancelled_tokens)
        self.gauges.lanes[device] = lanes

    def device_died(self, device: str) -> None:
        """Its process ended, and nobody had asked it to."""
        self.gauges.deaths[device] += 1
        self.device_gone(device)

    def device_gone(self, device: str) -> None:
        """Its process is over: it holds nothing any more."""
        self.gauges.lanes.pop(device, None)
