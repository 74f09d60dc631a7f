"""Prometheus metrics of the service. A request here is one sequence: a text of a batch, a sample of n. Labels are the
model's name without its version and the device, both bounded by the loaded models; no client input becomes a label. The
families have vLLM's names where vLLM has them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

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

from app.engine.interface import Engine, GenerationResult, TranslationResult, Usage
from app.engine.protocol import messages as m
from app.errors import DeadlineExceeded, EngineError, Overloaded, error_kinds

# otherwise each counter has a second series with its creation time
disable_created_metrics()  # type: ignore[no-untyped-call]

PREFIX = "parlance:"
STALE_S = 3.0  # devices report every second; the load in a report that is older than this is exposed no more
LABELS = ("model_name", "device")
LATENCY_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)
STEP_S = (0.0001, 0.0002, 0.0005, *LATENCY_S[:10])
FINISHED = ("stop", "length", "attention", "walkthrough", "gates", "score", "alignment")
FAILED = ("device_died", "engine_failed")
CANCELLED = ("disconnect", "sibling", "stop_string", "deadline", "queue_age")


class Families:
    """The server's metrics, most of them labelled with the model (without its version) and the device. A metric that
    devices report is a field of `messages.Tally` that has a title. inflight: sequences that the front end awaits,
    always exact."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.inflight: Tally[tuple[str, str]] = Tally()
        self._begun: set[tuple[str, str]] = set()
        self._from_the_start: list[tuple[Counter | Histogram, tuple[str, ...]]] = []

        def counter(name: str, text: str, label: str = "", values: tuple[str, ...] = ()) -> Counter:
            """values: of the label, if there is one; each has a series from the start."""
            family = Counter(PREFIX + name, text, (*LABELS, label) if label else LABELS, registry=registry)
            self._from_the_start.append((family, values))
            return family

        def histogram(name: str, text: str, buckets: tuple[float, ...] = LATENCY_S) -> Histogram:
            family = Histogram(PREFIX + name, text, LABELS, buckets=buckets, registry=registry)
            self._from_the_start.append((family, ()))
            return family

        self.prompt_tokens = counter("prompt_tokens", "Tokens that were sent to be read.")
        self.generation_tokens = counter("generation_tokens", "Tokens of the answers; of a beam, those of the best.")
        self.success = counter(
            "request_success", "Sequences that were answered, by how they ended.", "finished_reason", FINISHED
        )
        self.failure = counter(
            "request_failure", "Sequences that failed after they were sent, by error.", "reason", FAILED
        )
        self.cancelled = counter(
            "request_cancelled", "Sequences that were ended early, by reason.", "reason", CANCELLED
        )
        self.queue = histogram("request_queue_time_seconds", "From arrival at the device to the start of the prefill.")
        self.first = histogram(
            "time_to_first_token_seconds", "From arrival to the first token; of streams, from sending."
        )
        self.gap = histogram("inter_token_latency_seconds", "Mean time between the tokens of one sequence.", STEP_S)
        self.whole = histogram("e2e_request_latency_seconds", "From sending a sequence to its answer.")
        self.step = histogram("step_duration_seconds", "One decoding step of all live sequences.", STEP_S)
        self.reported = {field: counter(name, text) for field, (name, text) in m.counted_fields().items()}

    def begin(self, model: str, device: str) -> None:
        """Creates all series of a model on a device at 0, so that rates include the first event."""
        if (model, device) in self._begun:
            return
        self._begun.add((model, device))
        for family, values in self._from_the_start:
            for value in values:
                family.labels(model, device, value)
            if not values:
                family.labels(model, device)


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
        for reason in (reason for kind in error_kinds() for reason in kind.reasons):
            self._refused.labels(reason)
        failed = "Messages about limits and quotas that Redis did not answer in time."
        self.sharing_failed = counter("shared_counts_failed", failed).inc  # this server then counts for itself
        http = counter("http_requests", "HTTP requests, by route, method and status.", "route", "method", "status")
        self.http_series = cache(http.labels)
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

    def page(self, open_metrics: bool) -> bytes:
        """Every series, in the text format of OpenMetrics or of Prometheus."""
        registry = self.scrape()
        if not open_metrics:
            return generate_latest(registry)
        # without ALLOWUTF8 the library writes colons as underscores in samples, but not in their TYPE lines
        page: bytes = openmetrics.generate_latest(registry, openmetrics.ALLOWUTF8)  # type: ignore[no-untyped-call]
        return page

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
            for field, family in families.reported.items():
                family.labels(*labels).inc(getattr(done, field))
        self.statistics[device], self._reported_s[device] = versions, self._clock()

    def device_ended(self, device: str, *, died: bool) -> None:
        """Forgets a device's statistics after its process ended. died: it ended without a stop request."""
        self.deaths[device] += died
        self.statistics.pop(device, None)
        self._reported_s.pop(device, None)


P = ParamSpec("P")
R = TypeVar("R", list[TranslationResult], GenerationResult)

INSPECTIONS = {
    m.AttentionInspected: "attention",
    m.WalkthroughInspected: "walkthrough",
    m.GatesInspected: "gates",
    m.TokensScored: "score",
    m.PairsAligned: "alignment",
}


@dataclass(slots=True)
class SiblingGroup:
    """The sequences of one request. number: unique; failed: one has failed, and the others are cancelled."""

    number: int
    failed: bool = False


class RequestMetrics:
    """One sequence, which ends exactly once: answered, cancelled or failed; a sequence that is never sent is not
    counted. A context manager: leaving it without an answer counts how the sequence ended. model: a loaded version;
    tokens: input tokens. final: False for the search that precedes an inspection; its tokens are counted, its latency
    is not."""

    def __init__(
        self, families: Families, model: str, tokens: int, *, final: bool = True, siblings: SiblingGroup | None = None
    ) -> None:
        self._families, self._model, self._prompt_tokens = families, m.plain_name(model), tokens
        self._final, self._siblings = final, siblings
        self._received = self._written = 0  # tokens received, and the number of them in the answer
        self._stopped = False  # ended by a stop string
        self._began_s, self._first_s, self._first_observed = time.monotonic(), 0.0, False
        self._labels: tuple[str, str] | None = None  # model and device while in flight

    def __enter__(self) -> RequestMetrics:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._labels is not None:
            self._ended_without_answer(self._labels, error)
            self._leave(self._labels)

    def sent(self, device: str) -> None:
        """Counts the sending to a device; sending to another device after a loss starts over."""
        if self._labels is not None:
            self._families.inflight[self._labels] -= 1
        first, self._labels = self._labels is None, (self._model, device)
        self._families.begin(*self._labels)
        if first:
            self._families.prompt_tokens.labels(*self._labels).inc(self._prompt_tokens)
        self._received, self._written, self._first_s, self._stopped = 0, 0, 0.0, False
        self._families.inflight[self._labels] += 1

    def received(self, tokens: int) -> None:
        """Counts received tokens, and observes the first-token latency now, so that it covers clients that leave."""
        if not self._received:
            assert self._labels is not None
            self._first_s = time.monotonic() - self._began_s
            self._observe_first(self._labels, self._first_s)
        self._received += tokens
        self._written = self._received

    def stopped(self, tokens: int) -> None:
        """Records that a stop string ends the text after `tokens` tokens; the answer has no others."""
        self._written, self._stopped = tokens, True

    def answered(self, answer: m.Answer | None) -> None:
        """Records the answer. None: a stop string ended the text and the rest was cancelled."""
        assert self._labels is not None, "the sequence was never sent"
        families, labels, timing = self._families, self._labels, None
        if isinstance(answer, m.Finished):
            best = answer.hypotheses[0] if answer.hypotheses else None
            self._received = len(best.tokens) if best else 0
            if not self._stopped:
                self._written = self._received
            timing = answer.timing
            if self._final:
                finished = self._stopped or (best and best.finished)
                families.success.labels(*labels, "stop" if finished else "length").inc()
        elif answer is None:
            families.success.labels(*labels, "stop").inc()
            families.cancelled.labels(*labels, "stop_string").inc()
        else:
            families.success.labels(*labels, INSPECTIONS[type(answer)]).inc()
        if self._final and (answer is None or isinstance(answer, m.Finished)):
            first_s, whole_s = self._first_s, time.monotonic() - self._began_s
            families.whole.labels(*labels).observe(whole_s)
            if timing is not None:  # the device's own times, without the transfer
                first_s, whole_s = timing.first_token_s, timing.total_s
                families.queue.labels(*labels).observe(timing.queued_s)
            if first_s:
                self._observe_first(labels, first_s)
                if self._received > 1:
                    families.gap.labels(*labels).observe((whole_s - first_s) / (self._received - 1))
        self._leave(labels)

    def _observe_first(self, labels: tuple[str, str], first_s: float) -> None:
        if not self._first_observed:
            self._families.first.labels(*labels).observe(first_s)
            self._first_observed = True

    def _ended_without_answer(self, labels: tuple[str, str], error: BaseException | None) -> None:
        if error is None or isinstance(error, asyncio.CancelledError | GeneratorExit):
            failed = self._siblings is not None and self._siblings.failed
            self._families.cancelled.labels(*labels, "sibling" if failed else "disconnect").inc()
            return
        if self._siblings is not None:
            self._siblings.failed = True
        match error:
            case Overloaded():  # a late refusal: the device had no slot in time
                error.reason = "queue_age"
                self._families.cancelled.labels(*labels, error.reason).inc()
            case DeadlineExceeded():
                error.was_sent = True
                self._families.cancelled.labels(*labels, "deadline").inc()
            case EngineError():
                error.was_sent = True
                self._families.failure.labels(*labels, error.reason).inc()
            case _:
                self._families.failure.labels(*labels, "internal_error").inc()

    def _leave(self, labels: tuple[str, str]) -> None:
        """Counts the written tokens and removes the sequence from the device's in-flight gauge."""
        self._families.generation_tokens.labels(*labels).inc(self._written)
        self._families.inflight[labels] -= 1
        self._labels = None


@dataclass(slots=True)
class RequestWork:
    """Totals of one HTTP request. queued_s, first_token_s: the maximum over sequences; total_s: the sum over calls.
    failed: the last error's code, even if a retry succeeded; broken: it ended an open stream (no status shows it)."""

    sequences: int = 0
    model: str = ""
    read_tokens: int = 0
    new_tokens: int = 0
    queued_s: float | None = None
    first_token_s: float | None = None
    total_s: float | None = None
    failed: str = ""
    broken: bool = False

    def add(self, model: str, sequences: int, usages: Sequence[Usage]) -> None:
        """Adds the answer of one call; usages: at least one."""
        self.model = model
        self.sequences += sequences
        for usage in usages:
            self.read_tokens += usage.read_tokens
            self.new_tokens += usage.new_tokens
            if usage.queued_s is not None:
                self.queued_s = max(usage.queued_s, self.queued_s or 0.0)
            if usage.first_token_s is not None:
                self.first_token_s = max(usage.first_token_s, self.first_token_s or 0.0)
        self.total_s = (self.total_s or 0.0) + max(usage.total_s for usage in usages)


CURRENT_WORK: ContextVar[RequestWork | None] = ContextVar("work", default=None)  # of this task's HTTP request


def recorded(task: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Decorates an engine task: its answers are added to the work of the current HTTP request."""

    @wraps(task)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        work = CURRENT_WORK.get()
        if work is None:
            return await task(*args, **kwargs)
        try:
            answer = await task(*args, **kwargs)
        except Exception as error:
            work.failed = str(getattr(error, "code", type(error).__name__))
            raise
        if isinstance(answer, GenerationResult):
            work.add(answer.model, len(answer.continuations), [answer.usage])
        elif answer:
            work.add(answer[0].model, len(answer), [translation.usage for translation in answer])
        return answer

    return run
