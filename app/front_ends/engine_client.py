"""The engine as a front-end process sees it: every call crosses to the engine process."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from app.engine.admission import ORIGIN
from app.engine.interface import (
    AlignedWord,
    AttentionQuery,
    AttentionResult,
    Engine,
    GatesQuery,
    GatesResult,
    GenerationRequest,
    GenerationResult,
    ModelChange,
    ModelInfo,
    PoolStatus,
    ScoreQuery,
    ScoreResult,
    TranslationRequest,
    TranslationResult,
    WalkthroughQuery,
    WalkthroughResult,
)
from app.engine.metrics.collector import HttpSeries, Metrics
from app.engine.metrics.request_work import recorded
from app.engine.output.text_stream import ShowText, TextStream
from app.engine.registry.training_curves import TrainingCurves
from app.errors import EngineUnavailable, InvalidRequest
from app.front_ends import codec as c
from app.front_ends.link import Link

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
COUNT_INTERVAL_S = 1.0  # at most: the engine process takes the counters for a sign of life
FULL_S = 0.01  # for which a refusal for want of room is repeated here
STARTING = PoolStatus(False, {}, 0, ())


class CallBroken(Exception):
    """A call ended with an exception in the engine process, whose log shows it."""


@dataclass(slots=True)
class PendingCall:
    """A call without an answer yet. client: that it is for; show: takes streamed text."""

    method: c.Method
    client: str
    answer: asyncio.Future[Any]
    show: ShowText | None


@dataclass(slots=True)
class Full:
    """A refusal that is repeated until a time of the monotonic clock. client: of it alone; "": of all clients."""

    refusal: c.Failure
    until_s: float
    client: str


class EngineConnection:
    """The connection to the engine process, with the state that it pushes. metrics: of this process, whose HTTP
    counters are reported; on_drain: called when the service ends; on_loss: when the engine process is gone.
    hang_timeout_s: without a message, after which the engine process counts as hung. clock: seconds, monotonic."""

    def __init__(
        self,
        connection: socket.socket,
        metrics: Metrics,
        *,
        on_drain: Callable[[], None] = lambda: None,
        on_loss: Callable[[], None] = lambda: None,
        hang_timeout_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._socket, self._metrics, self.clock = connection, metrics, clock
        self.on_drain, self.on_loss = on_drain, on_loss
        self.link: Link[c.ToFrontEnd, c.FromFrontEnd] = Link(c.to_front_end, self._received, self._ended)
        self.status = STARTING
        self.models: list[ModelInfo] = []
        self.rooms: dict[tuple[str | None, str, str], int] = {}  # answers of `source_room` for these models
        self.refusal: c.Failure | None = None  # of every request
        self.full: Full | None = None
        self._hang_timeout_s, self.heard_at_s = hang_timeout_s, clock()
        self.silent = False  # for `hang_timeout_s`
        self._known = asyncio.Event()  # status and models have come
        self._numbers = count(1)
        self._calls: dict[int, PendingCall] = {}
        self._counted: dict[HttpSeries, float] = {}
        self._counting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns once the state of the engine is known. Raises ConnectionError if its process is gone before."""
        await self.link.connect(self._socket)
        await self._known.wait()
        if not self.link.open:
            raise ConnectionError("the engine process is gone")
        self._counting = asyncio.create_task(self._count_regularly())

    async def stop(self) -> None:
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.gather(self._counting, return_exceptions=True)
        self._send_counts(0)
        self.on_loss = lambda: None
        self.link.close()

    async def call(
        self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], /, *arguments: P.args, **named: P.kwargs
    ) -> T:
        """The result of a method of `Engine` or `ServiceParts`, with positional arguments. Raises its `EngineError`,
        EngineUnavailable when the engine process is gone, and CallBroken. Cancellation cancels it there."""
        assert not named
        result: T = await self.exchange(method.__name__, arguments)
        return result

    async def exchange(self, name: str, arguments: Sequence[object], show: ShowText | None = None) -> Any:
        """`call` by name. show: takes the text of a streamed method."""
        if not self.link.open:
            raise _gone()
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        origin = ORIGIN.get()
        try:
            encoded = msgspec.Raw(c.encode_value(arguments))
        except OverflowError:
            raise InvalidRequest("This request has a number that is too large for what it counts.") from None
        call = c.Call(number, name, origin.client, origin.deadline, encoded)
        self.link.send(call)
        self._calls[number] = PendingCall(c.METHODS[name], origin.client, answer, show)
        try:
            return await answer
        finally:
            if self._calls.pop(number, None) is not None:
                self.link.send(c.Cancel(number))

    def _received(self, message: c.ToFrontEnd) -> None:
        self.heard_at_s, self.silent = self.clock(), False
        match message:
            case c.Streamed():
                pending = self._calls.get(message.number)
                if pending is not None and pending.show is not None:
                    for delta in message.deltas:
                        pending.show(delta.text, delta.index, delta.tokens)
            case c.Answered() | c.Failed() | c.Broken():
                self._answered(message)
            case c.StatusChanged():
                self.status, self.refusal = message.status, message.refusal
            case c.ModelsChanged():
                self.models = message.models
                self.rooms.clear()
                self._known.set()
            case c.Report():
                self._send_counts(message.number)
            case c.Drain():
                self.on_drain()

    def _answered(self, message: c.Answered | c.Failed | c.Broken) -> None:
        pending = self._calls.pop(message.number, None)
        if pending is None or pending.answer.done():  # cancelled meanwhile
            return
        if isinstance(message, c.Failed) and message.full is not None:
            client = pending.client if message.of_client else ""
            self.full = Full(message.full, self.clock() + FULL_S, client)
        match message:
            case c.Answered():
                try:
                    pending.answer.set_result(pending.method.result.decode(message.value))
                except Exception as error:  # of this call alone
                    pending.answer.set_exception(error)
            case c.Failed():
                pending.answer.set_exception(message.failure.error())
            case c.Broken():
                pending.answer.set_exception(CallBroken("The log of the engine process shows the exception."))

    def _ended(self) -> None:
        self._known.set()
        for pending in self._calls.values():
            if not pending.answer.done():
                pending.answer.set_exception(_gone())
        self._calls.clear()
        self.on_loss()

    async def _count_regularly(self) -> None:
        interval_s = min(COUNT_INTERVAL_S, self._hang_timeout_s / 4)
        while True:
            await asyncio.sleep(interval_s)
            self._send_counts(0)
            self.silent = self.clock() - self.heard_at_s > self._hang_timeout_s

    def _send_counts(self, number: int) -> None:
        counts, before = self._metrics.http_counts(), self._counted
        increments = [(series, value - before.get(series, 0)) for series, value in counts.items()]
        self.link.send(c.Counted(number, [(series, more) for series, more in increments if more]))
        self._counted = counts


def _gone() -> EngineUnavailable:
    return EngineUnavailable("The service has stopped; try again in a moment.")


class EngineClient:
    """Implements `app.engine.interface.Engine` over a connection. Raises what the engine raises, EngineUnavailable when
    its process is gone, and CallBroken."""

    def __init__(self, connection: EngineConnection) -> None:
        self._connection = connection
        self._call = connection.call

    async def start(self) -> None:
        await self._connection.start()

    async def stop(self) -> None:
        await self._connection.stop()

    def status(self) -> PoolStatus:
        status = self._connection.status
        if not self._connection.silent:
            return status
        problem = "The engine process has not been heard of for a while; it may have to be restarted."
        return replace(status, ready=False, problems=(problem, *status.problems))

    @property
    def alive(self) -> bool:
        """Whether the engine process gives signs of life."""
        return not self._connection.silent

    def models(self) -> list[ModelInfo]:
        return list(self._connection.models)

    def check_room(self) -> None:
        """The engine process decides; here are repeated the refusal of a service that drains, and for `FULL_S` that of
        a full one, so that a flood does not cross to the engine process request by request."""
        connection = self._connection
        if connection.refusal is not None:
            raise connection.refusal.error()
        full = connection.full
        if full is not None and connection.clock() < full.until_s and full.client in ("", ORIGIN.get().client):
            raise full.refusal.error()

    async def curves(self, name: str) -> TrainingCurves:
        return await self._call(Engine.curves, name)

    @recorded
    async def translate(self, requests: Sequence[TranslationRequest]) -> list[TranslationResult]:
        return await self._call(Engine.translate, requests)

    async def source_room(self, model: str | None, source_language: str, target_language: str) -> int:
        """Asked for once: the answer holds until the models change, which is told before the next request."""
        key, rooms = (model, source_language, target_language), self._connection.rooms
        if key not in rooms:
            models, room = self._connection.models, await self._call(Engine.source_room, *key)
            if models is not self._connection.models:
                return room
            rooms[key] = room
        return rooms[key]

    async def source_tokens(
        self, model: str | None, source_language: str, target_language: str, texts: Sequence[str]
    ) -> list[int]:
        return await self._call(Engine.source_tokens, model, source_language, target_language, texts)

    async def align(
        self, model: str | None, source_language: str, target_language: str, pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[AlignedWord, ...]]:
        return await self._call(Engine.align, model, source_language, target_language, pairs)

    @recorded
    async def generate(self, request: GenerationRequest) -> GenerationResult:
        return await self._call(Engine.generate, request)

    def stream_translation(
        self, request: TranslationRequest
    ) -> AbstractAsyncContextManager[TextStream[TranslationResult]]:
        @recorded
        async def translate(show: ShowText) -> list[TranslationResult]:
            return [await self._connection.exchange(Engine.stream_translation.__name__, (request,), show)]

        async def work(show: ShowText) -> TranslationResult:
            return (await translate(show))[0]

        return TextStream.opened(work)

    def stream_generation(
        self, request: GenerationRequest
    ) -> AbstractAsyncContextManager[TextStream[GenerationResult]]:
        @recorded
        async def work(show: ShowText) -> GenerationResult:
            result: GenerationResult = await self._connection.exchange(
                Engine.stream_generation.__name__, (request,), show
            )
            return result

        return TextStream.opened(work)

    async def attention(self, query: AttentionQuery) -> AttentionResult:
        return await self._call(Engine.attention, query)

    async def walkthrough(self, query: WalkthroughQuery) -> WalkthroughResult:
        return await self._call(Engine.walkthrough, query)

    async def gates(self, query: GatesQuery) -> GatesResult:
        return await self._call(Engine.gates, query)

    async def score(self, query: ScoreQuery) -> ScoreResult:
        return await self._call(Engine.score, query)

    async def load_model(self, name: str) -> ModelChange:
        return await self._call(Engine.load_model, name)

    async def reload_model(self, name: str) -> ModelChange:
        return await self._call(Engine.reload_model, name)

    async def unload_model(self, name: str) -> ModelChange:
        return await self._call(Engine.unload_model, name)
