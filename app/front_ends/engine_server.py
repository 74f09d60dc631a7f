"""The engine process's side of the front ends: answers their calls, and pushes what they know without a call."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import msgspec

from app.api.services import SharedParts
from app.engine.admission import ORIGIN, RequestOrigin
from app.engine.interface import Engine, ModelInfo
from app.errors import EngineError, Overloaded
from app.front_ends import codec as c
from app.front_ends.link import Link
from app.front_ends.service_parts import OwnParts

log = logging.getLogger(__name__)

POLL_S = 0.05
OF_CLIENT = "overloaded_client"  # the reason of refusals that other clients would not get
REPORT_S = 0.5  # that a page of metrics waits for the counters of a front end
ALIVE_S = 1.0  # between two signs of life, at most
_TELL_OF_MODELS = (  # calls after which a client may expect to see a model
    *(Engine.load_model.__name__, Engine.reload_model.__name__, Engine.unload_model.__name__),
    c.ServiceParts.imports.__name__,
)


class EngineServer:
    """An engine and the shared parts of a service, for any number of front ends. alive_s: between signs of life."""

    def __init__(self, engine: Engine, shared: SharedParts, alive_s: float = ALIVE_S) -> None:
        self._alive_s = alive_s
        self.engine, self.metrics = engine, shared.metrics
        self.parts = OwnParts(shared, self.collect_counts)
        self.front_ends = set[FrontEndConnection]()
        self._status: c.StatusChanged | None = None
        self._models: list[ModelInfo] = []
        self._sendable: list[ModelInfo] = []
        self._pushed_s = 0.0
        self._reports = count(1)

    async def connect(
        self,
        connection: socket.socket,
        start: c.Start | None = None,
        *,
        on_listening: Callable[[], None] = lambda: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> FrontEndConnection:
        """Serves a front end until its end of the connection is closed. start: sent before anything else."""
        front_end = FrontEndConnection(self, on_listening, on_end)
        await front_end.link.connect(connection)
        if start is not None:
            front_end.link.send(start)
            front_end.link.flush()  # a frame of its own
        self.push()
        self.front_ends.add(front_end)
        self._push_to(front_end, models=True)
        return front_end

    async def watch(self) -> None:
        """Pushes changes until it is cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            try:
                self.push()
                if time.monotonic() - self._pushed_s >= self._alive_s:
                    self._push_to_all(models=False)
            except Exception:
                log.exception("the state of the engine could not be pushed")

    def push(self) -> None:
        """Tells every front end what has changed in the engine since the last push."""
        models, status = list(self.engine.models()), c.StatusChanged(self.engine.status(), self._refusal())
        new_models, new_status = models != self._models, status != self._status
        if new_models:
            self._models, self._sendable = models, sendable(models)
        self._status = status
        if new_models or new_status:
            self._push_to_all(models=new_models)

    def _push_to_all(self, *, models: bool) -> None:
        self._pushed_s = time.monotonic()
        for front_end in list(self.front_ends):
            self._push_to(front_end, models=models or front_end.behind)

    def _push_to(self, front_end: FrontEndConnection, *, models: bool) -> None:
        front_end.behind = not front_end.link.has_room  # it gets what is new then when it reads again
        if front_end.behind or self._status is None:
            return
        front_end.link.send(self._status)
        if models:
            front_end.link.send(c.ModelsChanged(self._sendable))
        front_end.link.flush()

    def _refusal(self) -> c.Failure | None:
        """Of the smallest request of any client, while the service drains or is full."""
        try:
            self.engine.check_room()
        except EngineError as error:
            return None if error.reason == OF_CLIENT else c.Failure.of(error)
        return None

    def send_all(self, message: c.ToFrontEnd) -> None:
        for front_end in self.front_ends:
            front_end.link.send(message)

    async def collect_counts(self) -> None:
        """Returns once every front end that listens has reported its counters, or after `REPORT_S`."""
        number = next(self._reports)
        waiting = [front_end.report(number) for front_end in self.front_ends if front_end.listening]
        if waiting:
            await asyncio.wait(waiting, timeout=REPORT_S)


class FrontEndConnection:
    """One front end and its calls, all of which are cancelled when it is gone. heard_at_s: when its last message came.
    listening: it has said so. behind: it has missed a push."""

    def __init__(self, server: EngineServer, on_listening: Callable[[], None], on_end: Callable[[], None]) -> None:
        self._server, self._on_listening, self._on_end = server, on_listening, on_end
        self.link: Link[c.FromFrontEnd, c.ToFrontEnd] = Link(c.from_front_end, self._received, self._ended)
        self.heard_at_s = time.monotonic()
        self.listening = self.behind = False
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._reports: dict[int, asyncio.Future[None]] = {}

    def report(self, number: int) -> asyncio.Future[None]:
        """Resolved once the counters have come."""
        counted = self._reports[number] = asyncio.get_running_loop().create_future()
        counted.add_done_callback(lambda _: self._reports.pop(number, None))
        self.link.send(c.Report(number))
        return counted

    def _received(self, message: c.FromFrontEnd) -> None:
        self.heard_at_s = time.monotonic()
        match message:
            case c.Call():
                task = asyncio.create_task(self._answer(message))
                self._calls[message.number] = task
                task.add_done_callback(lambda _: self._calls.pop(message.number, None))
            case c.Cancel():
                if (cancelled := self._calls.pop(message.number, None)) is not None:
                    cancelled.cancel()
            case c.Counted():
                self._server.metrics.add_http_counts(dict(message.increments))
                if (counted := self._reports.get(message.number)) is not None and not counted.done():
                    counted.set_result(None)
            case c.Listening():
                self.listening = True
                self._on_listening()

    def _ended(self) -> None:
        self._server.front_ends.discard(self)
        for task in self._calls.values():
            task.cancel()
        for counted in list(self._reports.values()):
            counted.cancel()
        self._on_end()

    async def _answer(self, call: c.Call) -> None:
        ORIGIN.set(RequestOrigin(call.client, call.deadline))
        try:
            result = await self._result(call)
            if call.method in _TELL_OF_MODELS:
                self._server.push()  # a client that loads a model and then lists the models sees it
            self.link.send(c.Answered(call.number, msgspec.Raw(c.encode_value(result))))
        except EngineError as error:
            self._fail(call, error)
        except asyncio.CancelledError:
            if call.number in self._calls:  # in the engine, and not by the front end
                self._break(call)
            raise
        except Exception:
            self._break(call)

    async def _result(self, call: c.Call) -> Any:
        method = c.METHODS[call.method]
        arguments = method.arguments.decode(call.arguments)
        owner = self._server.engine if call.method in c.ENGINE_METHODS else self._server.parts
        function = getattr(owner, call.method)
        if not method.streamed:
            return await function(*arguments)
        async with function(*arguments) as stream:
            while not stream.ended:
                await self.link.room()  # meanwhile the stream merges its text
                if deltas := await stream.taken():
                    self.link.send(c.Streamed(call.number, deltas))
            return stream.result

    def _fail(self, call: c.Call, error: EngineError) -> None:
        full, of_client = None, False
        if isinstance(error, Overloaded):
            try:
                self._server.engine.check_room()
            except EngineError as refusal:
                full, of_client = c.Failure.of(refusal), refusal.reason == OF_CLIENT
        try:
            self.link.send(c.Failed(call.number, c.Failure.of(error), full, of_client))
        except Exception:
            self._break(call)

    def _break(self, call: c.Call) -> None:
        log.exception("%s, which a front end called, failed", call.method)
        self.link.send(c.Broken(call.number))


def sendable(models: Sequence[ModelInfo]) -> list[ModelInfo]:
    """The models as front ends can be told of them: without scores that cannot be sent, and without a model that cannot
    be sent at all, which a stranger's checkpoint might describe."""
    told = list[ModelInfo]()
    for model in models:
        for form in (model, replace(model, scores={})):
            try:
                told += c.model_infos(c.encode_value([form]))
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                break
        else:
            log.error("%s is not offered, for front ends cannot be told of it: %s", model.name, problem)
    return told
