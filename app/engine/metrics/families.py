"""The metric families, with vLLM's names where vLLM has them."""

from __future__ import annotations

from collections import Counter as Tally

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

# otherwise each counter has a second series with its creation time
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
        ends = (self.success, FINISHED), (self.failure, FAILED), (self.cancelled, CANCELLED)
        for by_reason, reasons in ends:
            for reason in reasons:
                by_reason.labels(model, device, reason)
