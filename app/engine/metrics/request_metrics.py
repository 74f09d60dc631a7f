"""The time series of each model on each device, and what one sequence adds to them from its sending to its end."""

from __future__ import annotations

import asyncio
import time
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from prometheus_client import CollectorRegistry, Counter

from app.engine.metrics.families import CANCELLED, FAILED, FINISHED, Families
from app.engine.protocol import messages as m
from app.errors import DeadlineExceeded, EngineError, Overloaded

INSPECTIONS = {
    m.AttentionInspected: "attention",
    m.WalkthroughInspected: "walkthrough",
    m.GatesInspected: "gates",
    m.TokensScored: "score",
    m.PairsAligned: "alignment",
}


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


@dataclass(slots=True)
class SiblingGroup:
    """The sequences of one request, by a number of its own. failed: one of them has, and the others are cancelled."""

    number: int
    failed: bool = False


class RequestMetrics:
    """One sequence until its end, which is exactly one of: answered, cancelled, failed; or never sent, which counts
    nothing. A context manager: leaving it without an answer counts how the sequence ended. model: a loaded version;
    tokens: how many it reads. final: False for the search that precedes an inspection; its tokens are counted, its
    latency is not."""

    def __init__(
        self,
        by_model: SeriesByModel,
        model: str,
        tokens: int,
        *,
        final: bool = True,
        siblings: SiblingGroup | None = None,
    ) -> None:
        self._by_model, self._model, self._prompt_tokens = by_model, m.plain_name(model), tokens
        self._final, self._siblings = final, siblings
        self._received = self._written = 0  # tokens that came, and how many of them are in the answer
        self._stopped = False  # by a stop string
        self._began_s, self._first_s, self._first_observed = time.monotonic(), 0.0, False
        self._device: str | None = None
        self._series: ModelSeries | None = None  # of the model on that device

    def __enter__(self) -> RequestMetrics:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._series is not None:
            self._ended_without_answer(self._series, error)
            self._leave(self._series)

    def sent(self, device: str) -> None:
        """To a device, or to another after the first was lost: then it begins again."""
        if self._device is not None:
            self._by_model.inflight[self._model, self._device] -= 1
        first = self._series is None
        self._device, self._series = device, self._by_model.series(self._model, device)
        if first:
            self._series.prompt_tokens.inc(self._prompt_tokens)
        self._received, self._written, self._first_s, self._stopped = 0, 0, 0.0, False
        self._by_model.inflight[self._model, device] += 1

    def received(self, tokens: int) -> None:
        """So many tokens have come. The first is counted now: a reader who leaves has waited for it like any other."""
        if not self._received:
            self._first_s = time.monotonic() - self._began_s
            self._observe_first(self._first_s)
        self._received += tokens
        self._written = self._received

    def stopped(self, tokens: int) -> None:
        """A stop string ends the text after so many tokens: those that came with the last of these are no part of the
        answer."""
        self._written, self._stopped = tokens, True

    def answered(self, answer: m.Answer | None) -> None:
        """None: a stop string has ended the text, and the rest is not wanted."""
        assert self._series is not None, "the sequence was never sent"
        series, timing = self._series, None
        if isinstance(answer, m.Finished):
            best = answer.hypotheses[0] if answer.hypotheses else None
            self._received = len(best.tokens) if best else 0
            if not self._stopped:
                self._written = self._received
            timing = answer.timing
            if self._final:
                series.success("stop" if self._stopped or (best and best.finished) else "length").inc()
        elif answer is None:
            series.success("stop").inc()
            series.cancelled("stop_string").inc()
        else:
            series.success(INSPECTIONS[type(answer)]).inc()
        if self._final and (answer is None or isinstance(answer, m.Finished)):
            first_s, whole_s = self._first_s, time.monotonic() - self._began_s
            series.whole.observe(whole_s)
            if timing is not None:  # the device's own times: they have no transfer in them
                first_s, whole_s = timing.first_token_s, timing.total_s
                series.queue.observe(timing.queued_s)
            if first_s:
                self._observe_first(first_s)
                if self._received > 1:
                    series.gap.observe((whole_s - first_s) / (self._received - 1))
        self._leave(series)

    def _observe_first(self, first_s: float) -> None:
        """Once, wherever the sequence goes on."""
        if not self._first_observed:
            assert self._series is not None
            self._series.first.observe(first_s)
            self._first_observed = True

    def _ended_without_answer(self, series: ModelSeries, error: BaseException | None) -> None:
        if error is None or isinstance(error, asyncio.CancelledError | GeneratorExit):
            failed = self._siblings is not None and self._siblings.failed
            series.cancelled("sibling" if failed else "disconnect").inc()
            return
        if self._siblings is not None:
            self._siblings.failed = True
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

    def _leave(self, series: ModelSeries) -> None:
        """The device has nothing more to do for it."""
        assert self._device is not None
        series.generation_tokens.inc(self._written)
        self._by_model.inflight[self._model, self._device] -= 1
        self._device = self._series = None
