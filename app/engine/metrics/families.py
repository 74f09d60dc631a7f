"""The metric families, by the names that vLLM's operators know, and the time series of one model on one device."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

# else each counter has a second series, which says when this process made it
disable_created_metrics()  # type: ignore[no-untyped-call]

PREFIX = "parlance:"
LABELS = ("model_name", "device")
LATENCY_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)
STEP_S = (0.0001, 0.0002, 0.0005, *LATENCY_S[:10])
FINISHED = ("stop", "length", "attention", "walkthrough", "gates", "score", "alignment")
FAILED = ("device_died", "engine_failed")
REFUSED = (
    *("overloaded_requests", "overloaded_tokens", "queue_age", "loading", "draining", "engine_unavailable"),
    *("invalid_request", "text_too_long", "unknown_characters", "answer_too_large", "unknown_model", "unknown_pair"),
    *("model_conflict", "checkpoint_refused", "unknown_glossary"),
    *("key_missing", "key_wrong", "scope_missing", "rate_limited", "quota_exceeded"),
)
CANCELLED = ("disconnect", "sibling", "stop_string", "deadline", "queue_age")


class Families:
    """Everything that is counted by model and device."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(PREFIX + name, text, (*LABELS, *labels), registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...] = LATENCY_S) -> Histogram:
            return Histogram(PREFIX + name, text, LABELS, buckets=buckets, registry=registry)

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


class ModelSeries:
    """The series of one model on one device, all at 0 from the start, so that rates see the first event too."""

    def __init__(self, families: Families, model: str, device: str) -> None:
        def by_reason(family: Counter, reasons: tuple[str, ...]) -> Callable[[str], Counter]:
            series = cache(lambda reason: family.labels(model, device, reason))  # reasons are ours, so they are few
            for reason in reasons:
                series(reason)
            return series

        self.prompt_tokens = families.prompt_tokens.labels(model, device)
        self.generation_tokens = families.generation_tokens.labels(model, device)
        self.cancelled_tokens = families.cancelled_tokens.labels(model, device)
        self.queue = families.queue.labels(model, device)
        self.first = families.first.labels(model, device)
        self.gap = families.gap.labels(model, device)
        self.whole = families.whole.labels(model, device)
        self.step = families.step.labels(model, device)
        self.step_rows = families.step_rows.labels(model, device)
        self.prefill_tokens = families.prefill_tokens.labels(model, device)
        self.padded_tokens = families.padded_tokens.labels(model, device)
        self.success = by_reason(families.success, FINISHED)
        self.failure = by_reason(families.failure, FAILED)
        self.cancelled = by_reason(families.cancelled, CANCELLED)


class SeriesByModel:
    """The series of every model on every device, by its served name. inflight: (model, device) -> sequences that the
    front end waits for, exact at any time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._families = Families(registry)
        self._series: dict[tuple[str, str], ModelSeries] = {}
        self.inflight: Tally[tuple[str, str]] = Tally()

    def series(self, model: str, device: str) -> ModelSeries:
        key = (model, device)
        if key not in self._series:
            self._series[key] = ModelSeries(self._families, model, device)
        return self._series[key]
