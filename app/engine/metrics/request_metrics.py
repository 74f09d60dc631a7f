"""The metrics of one sequence, from its sending to its end."""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar

from app.engine.errors import DeadlineExceeded, EngineError, Overloaded
from app.engine.metrics.families import ModelSeries, SeriesByModel
from app.engine.protocol import messages as m

_siblings_failed: ContextVar[list[bool] | None] = ContextVar("_siblings_failed", default=None)


def begin_siblings() -> None:
    """What starts from here are the sequences of one request: when one fails, the others are cancelled with it."""
    _siblings_failed.set([])


class RequestMetrics:
    """One sequence until its end, which is exactly one of: answered, cancelled, failed; or never sent, which counts
    nothing. A context: what leaves it unanswered is how it ended. goes_on: more is asked for the same request, so that
    an answer is no end of it, and its times are those of nobody's answer; its tokens count."""

    def __init__(self, by_model: SeriesByModel, model: str, tokens: int, *, goes_on: bool = False) -> None:
        self._by_model, self._model, self._read, self._goes_on = by_model, model, tokens, goes_on
        self._heard = self._written = 0  # tokens that came, and those of them that are in the answer
        self._stopped = False  # by a stop string
        self._began_s, self._first_s, self._first_observed = time.monotonic(), 0.0, False
        self._device: str | None = None

    def __enter__(self) -> RequestMetrics:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._device is not None:
            self._count(error)
            self._leave()

    def sent(self, device: str) -> None:
        """To a device, or to another after the first was lost: then it begins again."""
        if self._device is None:
            self._by_model.series(self._model, device).prompt_tokens.inc(self._read)
        else:
            self._by_model.inflight[self._model, self._device] -= 1
        self._device, self._heard, self._written, self._first_s = device, 0, 0, 0.0
        self._stopped = False
        self._by_model.inflight[self._model, device] += 1

    def heard(self, tokens: int) -> None:
        """So many have come. The first is counted now: a reader who leaves has waited for it like any other."""
        if not self._heard:
            self._first_s = time.monotonic() - self._began_s
            self._observe_first(self._first_s)
        self._heard += tokens
        self._written = self._heard

    def ended(self, tokens: int) -> None:
        """The text ends after so many of them: those that came with the last of these are no part of the answer."""
        self._written, self._stopped = tokens, True

    def answered(self, answer: m.Finished | m.Seen | str | None) -> None:
        """None, or the text before it: a stop string has come, and the rest is not wanted."""
        assert self._device is not None, "nobody was asked"
        series = self._by_model.series(self._model, self._device)
        match answer:
            case m.Attention():
                series.success("attention").inc()
            case m.Walked():
                series.success("walkthrough").inc()
            case m.Traced():
                series.success("gates").inc()
            case m.Scored():
                series.success("score").inc()
            case m.Aligned():
                series.success("alignment").inc()
            case m.Finished():
                best = answer.hypotheses[0] if answer.hypotheses else None
                self._heard = len(best.tokens) if best else 0
                self._written = self._written if self._stopped else self._heard
                if self._goes_on:
                    self._leave()
                    return
                series.success("stop" if self._stopped or (best and best.finished) else "length").inc()
                self._observe(series, answer.timing)
            case _:
                series.success("stop").inc()
                series.cancelled("stop_string").inc()
                self._observe(series, None)
        self._leave()

    def _observe(self, series: ModelSeries, timing: m.Timing | None) -> None:
        """The device's own times, where it tells them: they have no transfer in them."""
        first_s, whole_s = self._first_s, time.monotonic() - self._began_s
        series.whole.observe(whole_s)
        if timing is not None:
            first_s, whole_s = timing.first_token_s, timing.total_s
            series.queue.observe(timing.queued_s)
        if first_s:
            self._observe_first(first_s)
            if self._heard > 1:
                series.gap.observe((whole_s - first_s) / (self._heard - 1))

    def _observe_first(self, first_s: float) -> None:
        """Once, wherever the sequence goes on."""
        if not self._first_observed:
            assert self._device is not None
            self._by_model.series(self._model, self._device).first.observe(first_s)
            self._first_observed = True

    def _count(self, error: BaseException | None) -> None:
        """An end without an answer. None: whoever waited went away."""
        assert self._device is not None
        series, siblings_failed = self._by_model.series(self._model, self._device), _siblings_failed.get()
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
        self._by_model.series(self._model, self._device).generation_tokens.inc(self._written)
        self._by_model.inflight[self._model, self._device] -= 1
        self._device = None
