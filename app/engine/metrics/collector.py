"""Prometheus metrics of the front end. A request here is one sequence: a text of a batch, a sample of n. Labels are the
model's name without its version and the device, both bounded by the loaded models; no client input becomes a label. The
families have vLLM's names where vLLM has them."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.metrics import disable_created_metrics
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from app.engine.interface import Engine
from app.engine.protocol import messages as m
from app.errors import EngineError

# otherwise each counter has a second series with its creation time
disable_created_metrics()  # type: ignore[no-untyped-call]

PREFIX = "parlance:"
STALE_S = 3.0  # devices report every second; the load in a report that is older than this is exposed no more
LABELS = ("model_name", "device")
LATENCY_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)
STEP_S = (0.0001, 0.0002, 0.0005, *LATENCY_S[:10])
FINISHED = ("stop", "length", "attention", "walkthrough", "gates", "score", "alignment")
FAILED = ("device_died", "engine_failed")
REFUSED = (
    *(
        "overloaded_requests",
        "overloaded_tokens",
        "overloaded_client",
        "overloaded_inspections",
        "queue_age",
        "loading",
        "draining",
    ),
    "engine_unavailable",
    *("invalid_request", "text_too_long", "unknown_characters", "answer_too_large", "unknown_model", "unknown_pair"),
    *("model_conflict", "checkpoint_refused", "unknown_glossary"),
    *("key_missing", "key_wrong", "scope_missing", "rate_limited", "quota_exceeded"),
    # before a request is routed, and of its body
    *("malformed_request", "url_too_long", "headers_too_large", "headers_too_slow", "too_many_connections"),
    *("connection_gave_way", "overloaded_uploads"),
    *("overloaded_documents", "overloaded_files"),
)
CANCELLED = ("disconnect", "sibling", "stop_string", "deadline", "queue_age")
HttpSeries = tuple[str, tuple[str, ...]]  # the family without its prefix, and the values of its labels


class Families:
    """Metrics by (model without version, device). inflight: sequences that the front end awaits, always exact."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.inflight: Tally[tuple[str, str]] = Tally()
        self._begun: set[tuple[str, str]] = set()
        self._unlabelled: list[Counter | Histogram] = []  # families labelled by model and device only

        def counter(name: str, text: str, *labels: str) -> Counter:
            family = Counter(PREFIX + name, text, (*LABELS, *labels), registry=registry)
            self._unlabelled += [] if labels else [family]
            return family

        def histogram(name: str, text: str, buckets: tuple[float, ...] = LATENCY_S) -> Histogram:
            family = Histogram(PREFIX + name, text, LABELS, buckets=buckets, registry=registry)
            self._unlabelled.append(family)
            return family

        self.prompt_tokens = counter("prompt_tokens", "Tokens that were sent to be read.")
        self.generation_tokens = counter("generation_tokens", "Tokens of the answers; of a beam, those of the best.")
        self.success = counter("request_success", "Sequences that were answered, by how they ended.", "finished_reason")
        self.failure = counter("request_failure", "Sequences that failed after they were sent, by error.", "reason")
        self.cancelled = counter("request_cancelled", "Sequences that were ended early, by reason.", "reason")
        self.cancelled_tokens = counter("cancelled_tokens", "Tokens computed for sequences that were ended early.")
        self.queue = histogram("request_queue_time_seconds", "From arrival at the device to the start of the prefill.")
        self.first = histogram(
            "time_to_first_token_seconds", "From arrival to the first token; of streams, from sending."
        )
        self.gap = histogram("inter_token_latency_seconds", "Mean time between the tokens of one sequence.", STEP_S)
        self.whole = histogram("e2e_request_latency_seconds", "From sending a sequence to its answer.")
        self.step = histogram("step_duration_seconds", "One decoding step of all live sequences.", STEP_S)
        self.step_rows = counter("step_rows", "Live sequences, summed over all steps.")
        self.prefill_tokens = counter("prefill_tokens", "Tokens that prefills read.")
        self.padded_tokens = counter("prefill_padded_tokens", "Tokens that prefills computed as padding, for nothing.")

    def begin(self, model: str, device: str) -> None:
        """Creates all series of a model on a device at 0, so that rates include the first event."""
        if (model, device) in self._begun:
            return
        self._begun.add((model, device))
        for family in self._unlabelled:
            family.labels(model, device)
        for by_reason, reasons in (self.success, FINISHED), (self.failure, FAILED), (self.cancelled, CANCELLED):
            for reason in reasons:
                by_reason.labels(model, device, reason)


class Metrics(Collector):
    """The metrics of one app, in a registry of its own. Gauges are computed at each scrape, so they cannot drift and
    are 0 when the engine is idle. Some of them need a device's last report (heartbeat): once that is older than
    `STALE_S` their series are left out, as they are without any report, rather than shown as if they were true now.
    statistics: device -> model -> statistics of each version in the last report. deaths: device -> ended processes.
    http_series: by route (the template, never the client's path), method and status. clock: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.by_model = Families(self.registry)
        self.statistics: dict[str, dict[str, list[m.ModelStatistics]]] = {}
        self._clock, self._reported_s = clock, dict[str, float]()  # device -> when its last report came
        self.deaths: Tally[str] = Tally()
        self._engine: Engine | None = None

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(PREFIX + name, text, labels, registry=self.registry)

        self._refused = counter("request_refused", "HTTP requests that were turned away, by reason.", "reason")
        for reason in REFUSED:
            self._refused.labels(reason)
        failed = "Messages about limits and quotas that Redis did not answer in time."
        self.sharing_failed = counter("shared_counts_failed", failed).inc  # this server then counts for itself
        http = counter("http_requests", "HTTP requests, by route, method and status.", "route", "method", "status")
        self.http_series = cache(http.labels)
        self._http_families = {"request_refused": self._refused, "http_requests": http}
        self.registry.register(self)

    def watch(self, engine: Engine) -> None:
        """Sets the engine; each scrape reports its devices and models."""
        self._engine = engine

    def describe(self) -> list[Metric]:
        return []  # registration collects nothing

    def collect(self) -> Iterator[Metric]:
        def gauge(name: str, text: str, labels: Sequence[str] = LABELS) -> GaugeMetricFamily:
            return GaugeMetricFamily(PREFIX + name, text, labels=labels)

        running = gauge("num_requests_running", "Sequences in the slots of a device.")
        waiting = gauge("num_requests_waiting", "Sequences that a device has not begun to read.")
        slots = gauge("slots", "Sequences that a model can work on at once, as its device last reported.")
        used = gauge("slots_used", "Slots that are taken, as the device last reported; a beam of k takes k.")
        usage = gauge("kv_cache_usage_perc", "Share of the slots that are taken, as last reported; 1 is all of them.")
        age = gauge("device_report_age_seconds", "Since the last report of a device whose process runs.", ["device"])
        ages_s = {device: self._clock() - reported_s for device, reported_s in self._reported_s.items()}
        for device, age_s in sorted(ages_s.items()):
            age.add_metric([device], age_s)
        for model, device in sorted(self.loaded()):
            labels, inflight = (model, device), self.by_model.inflight[model, device]
            fresh = ages_s.get(device, STALE_S) < STALE_S
            versions = self.statistics.get(device, {}).get(model, []) if fresh else []
            queued = min(inflight, sum(version.waiting for version in versions))
            waiting.add_metric(labels, queued)
            running.add_metric(labels, inflight - queued)
            if versions:
                room = sum(version.slots for version in versions)
                # the last report may include sequences that have ended since
                taken = sum(version.rows for version in versions) if inflight else 0
                slots.add_metric(labels, room)
                used.add_metric(labels, taken)
                usage.add_metric(labels, taken / room if room else 0)
        yield from (running, waiting, slots, used, usage, age)
        if self._engine is None:
            return
        ready = gauge("device_ready", "1: takes requests.", ["device"])
        loaded = gauge("models_loaded", "Models that a device has loaded.", ["device"])
        deaths = CounterMetricFamily(f"{PREFIX}device_deaths", "Device processes that ended.", labels=["device"])
        models, status = self._engine.models(), self._engine.status()
        for name, text, count in (
            ("num_inspections_running", "Inspections that a device computes.", status.inspections_running),
            ("num_inspections_waiting", "Inspections that wait for their turn.", status.inspections_waiting),
        ):
            inspections = gauge(name, text, [])
            inspections.add_metric([], count)
            yield inspections
        for device, state in status.devices.items():
            ready.add_metric([device], float(state == "ready"))
            loaded.add_metric([device], sum(device in info.devices for info in models))
            deaths.add_metric([device], self.deaths[device])
        yield from (ready, loaded, deaths)

    def loaded(self) -> set[tuple[str, str]]:
        """Every (model, device) that accepts requests or has some in flight."""
        pairs = {pair for pair, count in self.by_model.inflight.items() if count}
        pairs |= {(model, device) for device, models in self.statistics.items() for model in models}
        models = self._engine.models() if self._engine is not None else ()
        return pairs | {(info.name, device) for info in models for device in info.devices}

    def scrape(self) -> CollectorRegistry:
        """The registry, after every loaded model has its series."""
        for model, device in self.loaded():
            self.by_model.begin(model, device)
        return self.registry

    async def page(self, open_metrics: bool) -> bytes:
        """Every series, in the text format of OpenMetrics or of Prometheus."""
        registry = self.scrape()
        if not open_metrics:
            return generate_latest(registry)
        # without ALLOWUTF8 the library writes colons as underscores in samples, but not in their TYPE lines
        page: bytes = openmetrics.generate_latest(registry, openmetrics.ALLOWUTF8)  # type: ignore[no-untyped-call]
        return page

    def http_counts(self) -> dict[HttpSeries, float]:
        """The counters of HTTP requests and of refusals so far."""
        return {
            (name, tuple(sample.labels.values())): sample.value
            for name, family in self._http_families.items()
            for metric in family.collect()
            for sample in metric.samples
        }

    def add_http_counts(self, increments: Mapping[HttpSeries, float]) -> None:
        """Adds what another process has counted."""
        for (name, labels), increment in increments.items():
            self._http_families[name].labels(*labels).inc(increment)

    def refused(self, error: EngineError) -> None:
        """Counts a refused request by reason; errors of requests that reached a device are counted there."""
        if not error.was_sent:
            self._refused.labels(error.reason).inc()

    def heartbeat(self, device: str, beat: m.Heartbeat) -> None:
        """Adds a device's work since its last heartbeat and stores its current load."""
        versions, families = dict[str, list[m.ModelStatistics]](), self.by_model
        for statistics in beat.models:
            labels, done = (m.plain_name(statistics.model), device), statistics.done
            versions.setdefault(labels[0], []).append(statistics)
            families.begin(*labels)
            step = families.step.labels(*labels)
            for seconds in done.step_seconds:
                step.observe(seconds)
            families.step_rows.labels(*labels).inc(done.step_rows)
            families.prefill_tokens.labels(*labels).inc(done.read_tokens)
            families.padded_tokens.labels(*labels).inc(done.padded_tokens)
            families.cancelled_tokens.labels(*labels).inc(done.cancelled_tokens)
        self.statistics[device], self._reported_s[device] = versions, self._clock()

    def device_ended(self, device: str, *, died: bool) -> None:
        """Forgets a device's statistics after its process ended. died: it ended without a stop request."""
        self.deaths[device] += died
        self.statistics.pop(device, None)
        self._reported_s.pop(device, None)
