"""Sends each request to the least busy device, and its answer back to the coroutine that waits for it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import msgspec

from app.engine import errors
from app.engine.dispatch.supervisor import Supervisor
from app.engine.metrics.collector import Metrics
from app.engine.metrics.request_metrics import RequestMetrics, begin_siblings
from app.engine.output.output_processor import OutputProcessor
from app.engine.protocol import messages as m

log = logging.getLogger(__name__)

T = TypeVar("T")
Part = Literal["whole", "search", "look"]
_siblings: ContextVar[int] = ContextVar("_siblings", default=0)  # the number of a request with several sequences
_requests = itertools.count(1)

ERRORS: dict[str, Callable[..., errors.EngineError]] = {
    cls.code: cls
    for cls in (errors.InvalidRequest, errors.UnknownModel, errors.DeadlineExceeded, errors.EngineUnavailable)
}


class WorkerLost(errors.EngineUnavailable):
    """The process that had the request is gone."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """One message to a device whose answer is awaited; `writing` hears its tokens as they come."""

    device: str
    model: str
    future: asyncio.Future[Any]
    meter: RequestMetrics
    writing: OutputProcessor | None = None


class Dispatcher:
    """retry_after_s: what is told to a request of that model, by its plain name, that its device had no slot for in
    time."""

    def __init__(
        self,
        devices: Supervisor,
        timeout_s: float,
        metrics: Metrics,
        retry_after_s: Callable[[str], int] = lambda model: 1,
    ) -> None:
        self.devices, self.timeout_s, self.metrics, self.retry_after_s = devices, timeout_s, metrics, retry_after_s
        self._waiters: dict[int, PendingRequest] = {}
        self._ids = itertools.count(1)

    async def ask(
        self, message: m.Decode | m.Look, work: int, writing: OutputProcessor | None = None, part: Part = "whole"
    ) -> Any:
        """Send to the device with the least work and wait; whoever stops waiting frees the slots. None: a stop string
        has ended the writing; with an answer it is finished. work: tokens to read and, probably, to write. The id and
        the deadline are set here.

        A request whose device dies before anybody heard of it is sent once more, if another device has its model
        right now; nobody is kept waiting for a process that may not come back. part: a look at what was searched for
        first is one request of two messages, and is counted so.
        """
        tokens = 0 if part == "look" else m.read_tokens(message)
        with self.metrics.request(message.model, tokens, goes_on=part == "search") as meter:
            result = await self._asked(message, work, writing, meter)
            if writing is not None and isinstance(result, m.Finished) and result.hypotheses:
                best = result.hypotheses[0]
                writing.finish(best.tokens, best.token_log_probabilities, best.top)
                if writing.stopped:  # within the tokens that came with the answer
                    meter.ended(len(writing.tokens))
            meter.answered(result)
            return result

    async def _asked(
        self, message: m.Decode | m.Look, work: int, writing: OutputProcessor | None, meter: RequestMetrics
    ) -> Any:
        """Ask, and once more where that is possible, until the deadline."""
        deadline = time.monotonic() + self.timeout_s
        if isinstance(message, m.Decode):
            message = msgspec.structs.replace(message, siblings=_siblings.get())
        try:
            async with asyncio.timeout(self.timeout_s):  # begins before the deadline is told, so that it ends before it
                try:
                    return await self._ask(message, deadline, work, writing, meter)
                except WorkerLost:
                    if self.devices.least_busy(message.model) is None or not (writing is None or writing.restart()):
                        raise
                log.info("a request for %s goes to another device", m.plain_name(message.model))
                return await self._ask(message, deadline, work, writing, meter)
        except TimeoutError:
            raise errors.DeadlineExceeded(
                f"The answer did not come within {self.timeout_s:g} seconds; send a shorter text or try again later."
            ) from None

    async def _ask(
        self,
        message: m.Decode | m.Look,
        deadline: float,
        work: int,
        writing: OutputProcessor | None,
        meter: RequestMetrics,
    ) -> Any:
        device = self.devices.least_busy(message.model)
        if device is None or device.process is None:
            name = m.plain_name(message.model)
            raise errors.EngineUnavailable(f"No device has {name} ready right now; try again in a few seconds.")
        request, process = next(self._ids), device.process
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiters[request] = PendingRequest(device.name, message.model, future, meter, writing)
        device.outstanding_tokens += work
        answered = False
        meter.sent(device.name)
        try:
            process.send([msgspec.structs.replace(message, id=request, deadline=deadline)])
            result = await future
            answered = result is not None
            return result
        finally:
            del self._waiters[request]
            if device.process is process:  # its successor begins without our work
                device.outstanding_tokens = max(0, device.outstanding_tokens - work)
                if not answered:
                    process.send([m.Cancel(request)])

    def reply(self, message: m.FromDevice) -> None:
        match message:
            case m.Tokens():
                for request, tokens in message.tokens.items():
                    waiter = self._waiters.get(request)
                    if waiter is not None and waiter.writing is not None and not waiter.future.done():
                        waiter.meter.heard(len(tokens))
                        nats = message.log_probabilities.get(request, ())
                        self._hear(waiter, waiter.writing, tokens, nats, message.top.get(request, ()))
            case m.Failed():
                if waiter := self._waiters.get(message.id):
                    self._fail(waiter, self._error(message, waiter.model))
            case m.Finished() | m.Attention() | m.Walked() | m.Traced() | m.Scored() | m.Aligned():
                waiter = self._waiters.get(message.id)
                if waiter is not None and not waiter.future.done():
                    waiter.future.set_result(message)

    def _hear(
        self,
        waiter: PendingRequest,
        writing: OutputProcessor,
        tokens: list[int],
        nats: Sequence[float],
        top: Sequence[m.TopTokens],
    ) -> None:
        """What one listener cannot take fails its own request, not the reading of all answers."""
        try:
            if writing.feed(tokens, nats, top):
                waiter.meter.ended(len(writing.tokens))
                waiter.future.set_result(None)
        except errors.EngineFailed as error:
            self._fail(waiter, error)
        except Exception as error:
            log.exception("tokens %s could not be taken", tokens)
            self._fail(waiter, errors.EngineFailed(f"The tokens {tokens} could not be taken: {error}."))

    def _error(self, message: m.Failed, model: str) -> errors.EngineError:
        if message.code == errors.Overloaded.code:
            return errors.Overloaded(message.reason, retry_after_s=self.retry_after_s(m.plain_name(model)))
        return ERRORS.get(message.code, errors.EngineFailed)(message.reason, field=message.field)

    def _fail(self, waiter: PendingRequest, error: errors.EngineError) -> None:
        if not waiter.future.done():
            waiter.future.set_exception(error)

    def device_died(self, device: str) -> None:
        """Everything in flight there ends at once: somewhere else, or with an error that says to try again."""
        for waiter in list(self._waiters.values()):
            if waiter.device == device:
                self._fail(waiter, WorkerLost("The device process ended; please try again.", reason="device_died"))

    async def drain(self, timeout_s: float) -> None:
        """Wait for what is in flight, but not for ever: the rest is told to try again."""
        end = time.monotonic() + timeout_s
        while self._waiters and (left := end - time.monotonic()) > 0:  # one answer may need another question
            await asyncio.wait([waiter.future for waiter in self._waiters.values()], timeout=left)
        for waiter in list(self._waiters.values()):
            over = errors.EngineUnavailable("The service is shutting down; try again in a moment.", reason="draining")
            self._fail(waiter, over)


async def gather(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order; when one fails the others are cancelled, and its own error is raised."""
    begin_siblings()
    coroutines = list(work)
    if len(coroutines) == 1:  # most requests have one text, which needs no task of its own
        return [await coroutines[0]]
    _siblings.set(next(_requests))
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in coroutines]
    except* errors.EngineError as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
