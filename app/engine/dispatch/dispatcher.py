"""Sends requests to the least busy device and returns answers to the waiting coroutines."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from collections.abc import Callable, Coroutine, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import msgspec

from app import errors
from app.engine.admission import ORIGIN
from app.engine.dispatch.inspection_turns import InspectionTurns
from app.engine.dispatch.supervisor import Supervisor
from app.engine.metrics import Metrics, RequestMetrics, SiblingGroup
from app.engine.output.output_processor import OutputProcessor
from app.engine.protocol import messages as m

log = logging.getLogger(__name__)

T = TypeVar("T")
IDLE_S = 1.0  # without decoding, before an inspection may take all cores for itself
RequestPhase = Literal["whole", "search", "inspection"]
_siblings: ContextVar[SiblingGroup | None] = ContextVar("_siblings", default=None)
_group_numbers = itertools.count(1)

ERRORS: dict[str, type[errors.EngineError]] = {
    cls.code: cls
    for cls in (errors.InvalidRequest, errors.UnknownModel, errors.DeadlineExceeded, errors.EngineUnavailable)
}


class WorkerLost(errors.EngineUnavailable, reasons=("device_died",)):
    """The device process died with the request in flight."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A message that awaits its answer from a device. output: receives streamed tokens."""

    device: str
    model: str
    future: asyncio.Future[m.Answer | None]
    metrics: RequestMetrics
    output: OutputProcessor | None = None

    def fail(self, error: errors.EngineError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Dispatcher:
    """Matches messages and answers. retry_after_s: model name -> seconds, for requests that a device refuses. turns: of
    inspections. idle_threads: of an inspection on a machine that is not decoding; 0: as many as decoding has."""

    def __init__(
        self,
        supervisor: Supervisor,
        timeout_s: float,
        metrics: Metrics,
        retry_after_s: Callable[[str], int] = lambda model: 1,
        *,
        turns: InspectionTurns | None = None,
        idle_threads: int = 0,
    ) -> None:
        self._supervisor, self.timeout_s, self._series = supervisor, timeout_s, metrics.by_model
        self._retry_after_s, self._idle_threads = retry_after_s, idle_threads
        self.turns = turns or InspectionTurns()
        self._decoding, self._decoded_at = 0, -math.inf  # `Decode` messages in flight, and the end of the last
        self.pending: dict[int, PendingRequest] = {}  # by message id
        self._ids = itertools.count(1)
        supervisor.on_reply = self.reply

    async def ask(
        self, message: m.Request[T], work: int, output: OutputProcessor | None = None, phase: RequestPhase = "whole"
    ) -> T:
        """Sends a message to the device with the least work and awaits the answer until the time limit, or that of the
        whole HTTP request if it is earlier; cancellation frees the slots. Sets the message's id and deadline. work:
        tokens to read plus expected output. Returns None if a stop string ended the text of `output`; otherwise the
        answer, with `output` finished. If the device dies before any token was shown, the message is sent once more to
        another device that has the model loaded; it does not wait for a respawned process. phase: a search and the
        inspection of its result are two messages of one request, and are counted as one."""
        # a request of many texts, or of several models one after the other, ends as a whole
        deadline = min(time.monotonic() + self.timeout_s, ORIGIN.get().deadline)
        siblings, changes = _siblings.get(), {"deadline": deadline}
        if siblings is not None and isinstance(message, m.Decode):
            changes["siblings"] = siblings.number
        message = msgspec.structs.replace(message, **changes)
        tokens = 0 if phase == "inspection" else read_tokens(message)
        final = phase != "search"
        with RequestMetrics(self._series, message.model, tokens, final=final, siblings=siblings) as metrics:
            try:
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    try:
                        answer = await self._exchange(message, work, output, metrics)
                    except WorkerLost:
                        elsewhere = self._supervisor.least_busy(message.model)
                        if elsewhere is None or (output is not None and not output.restart()):
                            raise
                        log.info("a request for %s goes to another device", m.plain_name(message.model))
                        answer = await self._exchange(message, work, output, metrics)
            except TimeoutError:
                raise self.too_late() from None
            if output is not None and isinstance(answer, m.Finished) and answer.hypotheses:
                best = answer.hypotheses[0]
                output.finish(best.tokens, best.token_log_probabilities or (), best.top or ())
                if output.stopped:  # a stop string completed within the last tokens
                    metrics.stopped(len(output.tokens))
            metrics.answered(answer)
            return cast(T, answer)

    def too_late(self) -> errors.DeadlineExceeded:
        limit = f"The answer did not come within {self.timeout_s:g} seconds"
        return errors.DeadlineExceeded(f"{limit}; send a shorter text or try again later.")

    async def _exchange(
        self, message: m.Request[T], work: int, output: OutputProcessor | None, metrics: RequestMetrics
    ) -> m.Answer | None:
        inspection = isinstance(message, m.Inspection)
        if inspection:
            message = await self._in_turn(message)
        device = self._supervisor.least_busy(message.model)
        if device is None or device.process is None:
            if inspection:
                self.turns.give_up()
            name = m.plain_name(message.model)
            sentence = f"No device has {name} ready right now; try again in a few seconds."
            reason = "loading" if self._supervisor.is_loading(message.model) else None
            raise errors.EngineUnavailable(sentence, reason=reason)
        request, process = next(self._ids), device.process
        future: asyncio.Future[m.Answer | None] = asyncio.get_running_loop().create_future()
        self.pending[request] = PendingRequest(device.name, message.model, future, metrics, output)
        device.outstanding_tokens += work
        answer = None
        metrics.sent(device.name)
        if inspection:
            self.turns.begin(request, device.name)
        else:
            self._decoding += 1
        try:
            process.send([cast(m.ToDevice, msgspec.structs.replace(message, id=request))])
            answer = await future
            return answer
        finally:
            del self.pending[request]
            if not inspection:
                self._decoding -= 1
                self._decoded_at = time.monotonic()
            if device.process is process:  # a respawned process starts with no work
                device.outstanding_tokens = max(0, device.outstanding_tokens - work)
                if answer is None:
                    process.send([m.Cancel(request)])

    async def _in_turn(self, message: m.Request[T]) -> m.Request[T]:
        """Waits for the turn of an inspection and sets its threads, all of an idle machine's. Alignments are part of
        translations, of which more are on their way."""
        in_traffic = isinstance(message, m.AlignPairs)
        await self.turns.take(soon=in_traffic)
        idle = not in_traffic and not self._decoding and time.monotonic() - self._decoded_at > IDLE_S
        return msgspec.structs.replace(message, threads=self._idle_threads if idle else 0)

    def reply(self, message: m.FromDevice) -> None:
        """Handles a device's message about a request; drops it if the request is gone."""
        if isinstance(message, m.Inspected | m.Failed):
            self.turns.end(message.id)
        match message:
            case m.Tokens():
                for request, tokens in message.tokens.items():
                    pending = self.pending.get(request)
                    if pending is not None and pending.output is not None and not pending.future.done():
                        pending.metrics.received(len(tokens))
                        self._feed(pending, pending.output, message, request)
            case m.Failed():
                if pending := self.pending.get(message.id):
                    if message.code == errors.Overloaded.code:
                        wait_s = self._retry_after_s(m.plain_name(pending.model))
                        pending.fail(errors.Overloaded(message.reason, retry_after_s=wait_s))
                    else:
                        pending.fail(ERRORS.get(message.code, errors.EngineFailed)(message.reason, field=message.field))
            case m.Answer():
                pending = self.pending.get(message.id)
                if pending is not None and not pending.future.done():
                    pending.future.set_result(message)

    def _feed(self, pending: PendingRequest, output: OutputProcessor, message: m.Tokens, request: int) -> None:
        """Feeds tokens to one request's output; an error fails that request and not the reading of messages."""
        tokens = message.tokens[request]
        try:
            if output.feed(tokens, message.log_probabilities.get(request, ()), message.top.get(request, ())):
                pending.metrics.stopped(len(output.tokens))
                pending.future.set_result(None)
        except errors.EngineFailed as error:
            pending.fail(error)
        except Exception as error:
            log.exception("tokens %s could not be taken", tokens)
            pending.fail(errors.EngineFailed(f"The tokens {tokens} could not be taken: {error}."))

    def device_died(self, device: str) -> None:
        """Fails the device's requests in flight; `ask` retries them elsewhere or raises a retryable error."""
        self.turns.device_died(device)
        for pending in list(self.pending.values()):
            if pending.device == device:
                pending.fail(WorkerLost("The device process ended; please try again.", reason="device_died"))

    async def drain(self, timeout_s: float) -> None:
        """Waits for requests in flight up to the timeout, then fails the rest with a retryable error."""
        end = time.monotonic() + timeout_s
        # a search may be followed by an inspection, and that has to wait for its turn
        while (self.pending or self.turns.waiting) and (left := end - time.monotonic()) > 0:
            futures = [pending.future for pending in self.pending.values()]
            await (asyncio.wait(futures, timeout=left) if futures else asyncio.sleep(min(left, 0.01)))
        message = "The service is shutting down; try again in a moment."
        self.turns.refuse_waiting(errors.EngineUnavailable(message, reason="draining"))
        for pending in list(self.pending.values()):
            pending.fail(errors.EngineUnavailable(message, reason="draining"))


async def gather(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs the sequences of one request; results in order. The first error cancels the others and is raised."""
    coroutines = list(work)
    if len(coroutines) == 1:  # the common case; needs no task
        return [await coroutines[0]]
    token = _siblings.set(SiblingGroup(next(_group_numbers)))
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except* errors.EngineError as failures:
        raise failures.exceptions[0] from None
    finally:
        _siblings.reset(token)
    return [task.result() for task in tasks]


def read_tokens(message: m.Request[object]) -> int:
    match message:
        case m.Decode():
            return len(message.source) or len(message.prefix)
        case m.InspectAttention() | m.InspectWalkthrough():
            return len(message.source)
        case m.InspectGates():
            return len(message.tokens)
        case m.ScoreTokens():
            return len(message.source) + len(message.target)
        case m.AlignPairs():
            return sum(len(pair.source) + len(pair.target) for pair in message.pairs)
    raise AssertionError(message)
