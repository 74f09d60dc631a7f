"""Sends each request to the least busy device, and its answer back to the coroutine that waits for it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import msgspec

from app import errors
from app.engine.dispatch.supervisor import Supervisor
from app.engine.metrics.collector import Metrics
from app.engine.metrics.request_metrics import RequestMetrics, SiblingGroup
from app.engine.output.output_processor import OutputProcessor
from app.engine.protocol import messages as m

log = logging.getLogger(__name__)

T = TypeVar("T")
Part = Literal["whole", "search", "look"]
_siblings: ContextVar[SiblingGroup | None] = ContextVar("_siblings", default=None)
_group_numbers = itertools.count(1)

ERRORS: dict[str, type[errors.EngineError]] = {
    cls.code: cls
    for cls in (errors.InvalidRequest, errors.UnknownModel, errors.DeadlineExceeded, errors.EngineUnavailable)
}


class WorkerLost(errors.EngineUnavailable):
    """The process that had the request is gone."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """One message to a device whose answer is awaited. output: takes its tokens as they come."""

    device: str
    model: str
    future: asyncio.Future[m.Answer | None]
    metrics: RequestMetrics
    output: OutputProcessor | None = None

    def fail(self, error: errors.EngineError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Dispatcher:
    """retry_after_s: of a model by its plain name, for a request that its device had no slot for in time."""

    def __init__(
        self,
        supervisor: Supervisor,
        timeout_s: float,
        metrics: Metrics,
        retry_after_s: Callable[[str], int] = lambda model: 1,
    ) -> None:
        self._supervisor, self._timeout_s, self._series = supervisor, timeout_s, metrics.by_model
        self._retry_after_s = retry_after_s
        self._pending: dict[int, PendingRequest] = {}
        self._ids = itertools.count(1)
        supervisor.on_reply = self.reply

    @property
    def pending(self) -> int:
        """Messages whose answers are awaited."""
        return len(self._pending)

    async def ask(
        self, message: m.Request[T], work: int, output: OutputProcessor | None = None, part: Part = "whole"
    ) -> T:
        """Send to the device with the least work and wait for the answer, up to the time limit; leaving early frees
        the slots. None: a stop string has ended the text of `output`; with an answer that text is finished. work:
        tokens to read and, probably, to write. The id and the deadline of the message are set here.

        A request whose device dies before any of its tokens was shown is sent once more, if another device has its
        model right now; it does not wait for a process that may not come back. part: an inspection of a translation
        that was searched for first is one request of two messages, and is counted so.
        """
        siblings, changes = _siblings.get(), {"deadline": time.monotonic() + self._timeout_s}
        if siblings is not None and isinstance(message, m.Decode):
            changes["siblings"] = siblings.number
        message = msgspec.structs.replace(message, **changes)
        tokens = 0 if part == "look" else read_tokens(message)
        final = part != "search"
        with RequestMetrics(self._series, message.model, tokens, final=final, siblings=siblings) as metrics:
            try:
                async with asyncio.timeout(self._timeout_s):
                    try:
                        answer = await self._exchange(message, work, output, metrics)
                    except WorkerLost:
                        elsewhere = self._supervisor.least_busy(message.model)
                        if elsewhere is None or (output is not None and not output.restart()):
                            raise
                        log.info("a request for %s goes to another device", m.plain_name(message.model))
                        answer = await self._exchange(message, work, output, metrics)
            except TimeoutError:
                raise errors.DeadlineExceeded(
                    f"The answer did not come within {self._timeout_s:g} seconds;"
                    " send a shorter text or try again later."
                ) from None
            if output is not None and isinstance(answer, m.Finished) and answer.hypotheses:
                best = answer.hypotheses[0]
                output.finish(best.tokens, best.token_log_probabilities or (), best.top or ())
                if output.stopped:  # within the tokens that came with the answer
                    metrics.stopped(len(output.tokens))
            metrics.answered(answer)
            return cast(T, answer)

    async def _exchange(
        self, message: m.Request[T], work: int, output: OutputProcessor | None, metrics: RequestMetrics
    ) -> m.Answer | None:
        device = self._supervisor.least_busy(message.model)
        if device is None or device.process is None:
            name = m.plain_name(message.model)
            raise errors.EngineUnavailable(f"No device has {name} ready right now; try again in a few seconds.")
        request, process = next(self._ids), device.process
        future: asyncio.Future[m.Answer | None] = asyncio.get_running_loop().create_future()
        self._pending[request] = PendingRequest(device.name, message.model, future, metrics, output)
        device.outstanding_tokens += work
        answer = None
        metrics.sent(device.name)
        try:
            process.send([cast(m.ToDevice, msgspec.structs.replace(message, id=request))])
            answer = await future
            return answer
        finally:
            del self._pending[request]
            if device.process is process:  # its successor begins without our work
                device.outstanding_tokens = max(0, device.outstanding_tokens - work)
                if answer is None:
                    process.send([m.Cancel(request)])

    def reply(self, message: m.FromDevice) -> None:
        """A message of a device about a request; those about requests that have left are dropped."""
        match message:
            case m.Tokens():
                for request, tokens in message.tokens.items():
                    pending = self._pending.get(request)
                    if pending is not None and pending.output is not None and not pending.future.done():
                        pending.metrics.received(len(tokens))
                        self._feed(pending, pending.output, message, request)
            case m.Failed():
                if pending := self._pending.get(message.id):
                    if message.code == errors.Overloaded.code:
                        wait_s = self._retry_after_s(m.plain_name(pending.model))
                        pending.fail(errors.Overloaded(message.reason, retry_after_s=wait_s))
                    else:
                        error = ERRORS.get(message.code, errors.EngineFailed)
                        pending.fail(error(message.reason, field=message.field))
            case m.Answer():
                pending = self._pending.get(message.id)
                if pending is not None and not pending.future.done():
                    pending.future.set_result(message)

    def _feed(self, pending: PendingRequest, output: OutputProcessor, message: m.Tokens, request: int) -> None:
        """An error in one request's output fails that request, not the reading of all answers."""
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
        """Everything in flight there ends at once: on another device, or with an error that says to try again."""
        for pending in list(self._pending.values()):
            if pending.device == device:
                pending.fail(WorkerLost("The device process ended; please try again.", reason="device_died"))

    async def drain(self, timeout_s: float) -> None:
        """Wait for what is in flight, at most so long; the rest fails with an error that says to try again."""
        end = time.monotonic() + timeout_s
        while self._pending and (left := end - time.monotonic()) > 0:  # an inspection follows its search
            await asyncio.wait([pending.future for pending in self._pending.values()], timeout=left)
        for pending in list(self._pending.values()):
            message = "The service is shutting down; try again in a moment."
            pending.fail(errors.EngineUnavailable(message, reason="draining"))


async def gather(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The sequences of one request: results in order; when one fails the others are cancelled, and its own error is
    raised."""
    coroutines = list(work)
    if len(coroutines) == 1:  # most requests have one text, which needs no task of its own
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
    """How many tokens of given texts a device reads for it."""
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
