"""Schedules the requests of all models on one device: continuous batching. Requests join and leave at step boundaries,
so a long request never holds up a short one. Between two steps there is at most one prefill budget per model and one
part of an inspection."""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from app.engine.protocol import messages as m
from app.engine.worker.inspection import (
    LATE_MESSAGE,
    BackgroundResult,
    InspectionResult,
    InspectionRun,
    InspectionThread,
)
from app.engine.worker.model_runner import LoadResult, ModelLoader, ModelRunner, NoRoom
from app.engine.worker.request_queue import ModelQueue, Ticket
from models.backends.memory import out_of_memory
from models.checkpoint import CheckpointError
from models.decoding.options import TopTokens

log = logging.getLogger(__name__)

T = TypeVar("T")
MOST_TOP_TOKENS = 1000  # of one message: the front end makes texts of them in some 3 ms, in which it does nothing else
STALE_MESSAGE = "The queue did not move in time; try again later."


class Scheduler:
    """Handles messages and returns replies; `step` advances every busy model by one token. loader: reads checkpoints in
    the background; None: reading blocks. inspections: computes inspections beside the steps; None: they are computed
    between them. The results of both must be passed to `handle`."""

    def __init__(
        self,
        runner: ModelRunner,
        prefill_tokens: int = 2048,
        stream_interval_s: float = 0.0,
        loader: ModelLoader | None = None,
        inspections: InspectionThread | None = None,
        inspection_hang_s: float = math.inf,
    ) -> None:
        self.runner, self.prefill_tokens = runner, prefill_tokens
        self.queues: dict[str, ModelQueue] = {}
        self._sender = TokenSender(stream_interval_s)
        self._inspections: dict[int, m.Inspections] = {}  # unanswered
        self._run: InspectionRun | None = None  # of the first of them
        self._inspection_thread, self._inspection_hang_s = inspections, inspection_hang_s
        self._loader, self._loading = loader, dict[str, m.Load]()

    @property
    def busy(self) -> bool:
        """Whether `step` has work; an inspection in the thread is none."""
        waits = self._run is not None and self._run.in_thread
        return (bool(self._inspections) and not waits) or any(queue.busy for queue in self.queues.values())

    def statistics(self) -> list[m.ModelStatistics]:
        """The load of each model, and its work since the last call."""
        return [queue.statistics(name) for name, queue in self.queues.items()]

    def handle(self, message: m.ToDevice | BackgroundResult) -> list[m.FromDevice]:
        if isinstance(message, m.Request) and message.model not in self.queues:
            reason = f"There is no model {m.plain_name(message.model)} on this device."
            return [m.Failed(message.id, "unknown_model", reason)]
        match message:
            case m.Decode():
                return self._enqueue(self.queues[message.model], message)
            case m.Cancel():
                if message.id in self._inspections:
                    return self._cancel_inspection(message.id)
                any(queue.remove(message.id) for queue in self.queues.values())
                self._sender.end(message.id)
            case m.Load():
                self._loading[message.name] = message
                if self._loader is None:
                    return [self._install(LoadResult.of(message, self.runner.read))]
                self._loader.begin(message)
            case LoadResult():
                return [self._install(message)]
            case InspectionResult():
                return self._end_run(message)
            case m.Unload():
                return self._unload(message.name)
            case m.Inspection():
                self._inspections[message.id] = message
        return []

    def _enqueue(self, queue: ModelQueue, message: m.Decode) -> list[m.FromDevice]:
        beam = message.options.beam
        if beam > queue.model.slots:
            reason = f"A beam of {beam} does not fit {queue.model.slots} slots; ask for a narrower one."
            return [m.Failed(message.id, "invalid_request", reason, "decode.beam_size")]
        queue.add(message, time.monotonic())
        if message.at_once:
            self._sender.immediate.add(message.id)
        return []

    def _cancel_inspection(self, request: int) -> list[m.FromDevice]:
        """The answer ends its turn. In the thread the current part is computed to its end first."""
        if self._run is not None and self._run.message.id == request:
            self._run.cancelled_at = time.monotonic()
            if self._run.in_thread:
                return []
        return [self._answered(m.Failed(request, "cancelled", "The request was cancelled."))]

    def _answered(self, answer: m.Inspected | m.Failed) -> m.FromDevice:
        """Forgets the inspection that has this answer."""
        del self._inspections[answer.id]
        if self._run is not None and self._run.message.id == answer.id:
            self._run = None
        return answer

    def _install(self, result: LoadResult) -> m.FromDevice:
        message = result.message
        try:
            if result.error is not None:
                raise result.error
            if message.name in self._loading:  # not unloaded in the meantime
                assert result.prepared is not None
                to_come = [load for load in self._loading.values() if load.name != message.name]
                self.runner.install(message.name, result.prepared, to_come)
                self.queues[message.name] = ModelQueue(self.runner.models[message.name], self.prefill_tokens)
            seconds = time.monotonic() - result.began
            if (model := self.runner.models.get(message.name)) is None:
                return m.Loaded(message.name, seconds, "")
            return m.Loaded(message.name, seconds, model.precision, model.reason)
        except (CheckpointError, NoRoom) as error:
            return m.LoadFailed(message.name, str(error))
        except Exception as error:
            log.exception("loading %s failed", message.name)
            full, reason = out_of_memory(error), f"{message.folder} could not be loaded: {error}."
        finally:
            self._loading.pop(message.name, None)
        if full:
            self.runner.release_memory()
            name = m.plain_name(message.name)
            device = self.runner.name
            reason = (
                f"{device} lacks the memory for {name}: unload another model, or set PARLANCE_SLOTS_PER_MODEL lower."
            )
        else:
            self.runner.check()
        return m.LoadFailed(message.name, reason)

    def _unload(self, name: str) -> list[m.FromDevice]:
        self._loading.pop(name, None)
        queue = self.queues.pop(name, None)
        unfinished = [*queue.waiting, *queue.active] if queue else []
        del queue  # its reference would keep what the runner frees
        for request in [message.id for message in self._inspections.values() if message.model == name]:
            del self._inspections[request]
            unfinished.append(request)
        if self._run is not None and self._run.message.model == name:
            self._run.cancelled_at = time.monotonic()
            self._run = None
        self.runner.unload(name)
        return self._fail(unfinished, "engine_unavailable", f"{m.plain_name(name)} was unloaded; please try again.")

    def _fail(self, requests: Iterable[int], code: str, reason: str) -> list[m.FromDevice]:
        """Failures of requests, after the tokens that they have already produced."""
        replies: list[m.FromDevice] = [*self._sender.flush()]
        for request in requests:
            self._sender.end(request)
            replies.append(m.Failed(request, code, reason))
        return replies

    def step(self) -> list[m.FromDevice]:
        replies: list[m.FromDevice] = []
        for queue in self.queues.values():
            if queue.busy:
                replies += self._expire(queue)
                for group in queue.take(time.monotonic()):
                    replies += self._prefill(queue, group)
                if queue.active:
                    replies += self._advance(queue)
        if self._inspections:
            replies += self._inspect()
        if self._inspection_thread is not None and self._inspection_thread.runs:
            self._inspection_thread.check(self._inspection_hang_s)
        return replies

    def _expire(self, queue: ModelQueue) -> list[m.FromDevice]:
        """Fails requests past their deadline before anything is computed for them."""
        now, replies = time.monotonic(), list[m.FromDevice]()
        for expired, code, reason in (
            (queue.late, "deadline_exceeded", LATE_MESSAGE),
            (queue.stale, "overloaded", STALE_MESSAGE),
        ):
            if requests := expired(now):
                for request in requests:
                    queue.remove(request)
                replies += self._fail(requests, code, reason)
        return replies

    def _prefill(self, queue: ModelQueue, tickets: Sequence[Ticket]) -> list[m.FromDevice]:
        """Prefills all tickets at once; if that fails, each half, so that one bad request fails alone."""
        began = time.monotonic()
        try:
            queue.model.decoder.join([(t.request.id, t.prompt, t.request.options) for t in tickets])
        except Exception as raised:
            error = raised.with_traceback(None)  # its frames would keep the tensors that did not fit
        else:
            queue.started(tickets, time.monotonic() - began)
            return []
        full = out_of_memory(error)
        if full:
            self.runner.release_memory()
        else:
            self.runner.check()  # raises if the device is lost: the process ends and is respawned
        if len(tickets) > 1:
            half = len(tickets) // 2
            return [*self._prefill(queue, tickets[:half]), *self._prefill(queue, tickets[half:])]
        request = tickets[0].request
        log.warning("request %d failed in prefill: %s", request.id, error)
        tickets[0].state = "gone"
        self._sender.end(request.id)
        reason = f"This request could not be started: {error}"
        if full:
            reason = f"The device lacks the memory to read these {tickets[0].tokens:,} tokens; send a shorter text."
        return [m.Failed(request.id, "invalid_request" if isinstance(error, ValueError) else "engine_failed", reason)]

    def _advance(self, queue: ModelQueue) -> list[m.FromDevice]:
        """One step: at most one message with the tokens of all streams, and one per finished request."""
        rows, began = queue.rows, time.monotonic()
        try:
            result = queue.model.decoder.step()
        except Exception as error:
            log.exception("a step failed")
            reason = f"The step failed: {error}."
        else:
            now = time.monotonic()
            queue.stepped(rows, began, now, late=result.late, steps=result.steps)
            if result.tokens:
                self._sender.add(result.tokens, now, result.log_probabilities, result.top)
            finished: list[m.FromDevice] = []
            for request, hypotheses in result.finished:
                ticket = queue.finish(request)
                if ticket.request.options.streamed or ticket.request.at_once:
                    self._sender.end(request)
                finished.append(m.Finished(request, hypotheses, ticket.timing(now)))
            return [*self._sender.due(now, now - began), *finished] if self._sender.held else finished
        self.runner.check()  # outside the handler: the error's frames no longer keep the slots
        lost = queue.give_up_step(self._sender.begun)
        queue.model.reset()
        return self._fail([ticket.request.id for ticket in lost], "engine_failed", reason)

    def _inspect(self) -> list[m.FromDevice]:
        """Begins the first inspection, if none runs, and computes one part of it unless the thread does."""
        run = self._run
        if run is None:
            message = next(iter(self._inspections.values()))
            run = self._run = InspectionRun(self.queues[message.model].model, message)
            if self._inspection_thread is not None and not message.threads:
                self._inspection_thread.begin(run)
        answer = None if run.in_thread else run.advance()
        return [] if answer is None else [self._inspected(answer)]

    def _end_run(self, result: InspectionResult) -> list[m.FromDevice]:
        """Handles the end of a run in the thread. The inspection of an unloaded model has had its answer."""
        assert self._inspection_thread is not None
        self._inspection_thread.ended(result.run)
        if result.run is not self._run:
            return []
        if result.answer is None:
            result.run.in_thread = False
            return self._cancel_inspection(result.run.message.id)
        return [self._inspected(result.answer)]

    def _inspected(self, answer: m.Inspected | m.Failed) -> m.FromDevice:
        if isinstance(answer, m.Failed) and answer.code == "engine_failed":
            self.runner.check()  # outside the handler: the error's frames no longer keep its tensors
        return self._answered(answer)


class TokenSender:
    """Batches streamed tokens into one message per interval; the first tokens of a stream leave at once.

    Holds tokens until the oldest has waited for `interval_s`, or until it holds as many likeliest tokens (`top`) as
    one message takes; interval 0: one message per step. All streams of the process share one interval: the front end
    wakes once for all of them, and writes to a stream once per interval however fast the steps are. Times are
    CLOCK_MONOTONIC seconds. held: tokens by request; begun: requests with sent tokens; immediate: requests with tokens
    sent at every step."""

    def __init__(self, interval_s: float = 0.0) -> None:
        self._interval_s = interval_s
        self.begun: set[int] = set()
        self.immediate: set[int] = set()
        self.held: defaultdict[int, list[int]] = defaultdict(list)
        self._log_probabilities: defaultdict[int, list[float]] = defaultdict(list)  # of held tokens, if requested
        self._top: defaultdict[int, list[TopTokens]] = defaultdict(list)  # likewise
        self._top_tokens = 0  # that are held
        self._due = 0.0

    def add(
        self,
        tokens: Iterable[tuple[int, int]],
        now: float,
        log_probabilities: Mapping[int, float] = MappingProxyType({}),
        top: Mapping[int, TopTokens] = MappingProxyType({}),
    ) -> None:
        """Adds the (request, token) pairs of one step; log-probabilities and top tokens by request, if requested."""
        if not self.held:
            self._due, self._top_tokens = now + self._interval_s, 0
        for request, token in tokens:
            self.held[request].append(token)
        for request, log_probability in log_probabilities.items():
            self._log_probabilities[request].append(log_probability)
        for request, likeliest in top.items():
            self._top[request].append(likeliest)
            self._top_tokens += len(likeliest)
        if self._top_tokens >= MOST_TOP_TOKENS:
            self._due = now

    def end(self, request: int) -> None:
        """Forgets a finished request: its held tokens are in its answer or are not needed."""
        for held in (self.held, self._log_probabilities, self._top):
            held.pop(request, None)
        self.begun.discard(request)
        self.immediate.discard(request)

    def due(self, now: float, step_s: float) -> list[m.Tokens]:
        """The tokens to send now: all, if another step would overrun the interval; else first or immediate tokens."""
        if not self.held:
            return []
        if now + step_s >= self._due:
            return self.flush()
        return self._message([r for r in self.held if r not in self.begun or r in self.immediate])

    def flush(self) -> list[m.Tokens]:
        return self._message(list(self.held))

    def _message(self, leaving: list[int]) -> list[m.Tokens]:
        self.begun.update(leaving)
        held = _take(self.held, leaving), _take(self._log_probabilities, leaving), _take(self._top, leaving)
        return [m.Tokens(*held)] if leaving else []


def _take(held: dict[int, T], requests: list[int]) -> dict[int, T]:
    return {request: held.pop(request) for request in requests if request in held}
