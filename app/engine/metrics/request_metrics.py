"""Metrics of one sequence, from its sending to its end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from app.engine.metrics.collector import Families
from app.engine.protocol import messages as m
from app.errors import DeadlineExceeded, EngineError, Overloaded

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
