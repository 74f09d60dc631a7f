"""The engine process's side of the front ends: answers their calls, and pushes what they know without a call."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

import msgspec

from app.api.services import SharedParts
from app.engine.admission import ORIGIN, RequestOrigin
from app.engine.interface import Engine, ModelInfo
from app.errors import EngineError, EngineUnavailable, Overloaded
from app.front_ends import codec as c
from app.front_ends.link import Link
from app.front_ends.service_parts import OwnParts

log = logging.getLogger(__name__)

POLL_S = 0.05
REPORT_S = 0.5  # that a page of metrics waits for the counters of a front end
_CHANGES = (Engine.load_model.__name__, Engine.reload_model.__name__, Engine.unload_model.__name__)


class EngineServer:
    """An engine and the shared parts of a service, for any number of front ends."""

    def __init__(self, engine: Engine, shared: SharedParts) -> None:
        self.engine, self.metrics = engine, shared.metrics
        self.parts = OwnParts(shared, self.collect_counts)
        self.front_ends = set[FrontEndConnection]()
        self._status: c.StatusChanged | None = None
        self._models: list[ModelInfo] = []
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
            except Exception:
                log.exception("the state of the engine could not be pushed")

    def push(self) -> None:
        """Tells every front end what has changed in the engine since the last push."""
        models, status = list(self.engine.models()), c.StatusChanged(self.engine.status(), self._refusal())
        new_models, new_status = models != self._models, status != self._status
        self._models, self._status = models, status
        for front_end in list(self.front_ends):
            if new_models or new_status or front_end.behind:
                self._push_to(front_end, models=new_models or front_end.behind)

    def _push_to(self, front_end: FrontEndConnection, *, models: bool) -> None:
        front_end.behind = not front_end.link.has_room  # it gets what is new then when it reads again
        if front_end.behind or self._status is None:
            return
        front_end.link.send(self._status)
        if models:
            front_end.link.send(c.ModelsChanged([sendable(model) for model in self._models]))
        front_end.link.flush()

    def _refusal(self) -> c.Failure | None:
        """Of every request while the service drains; room is decided request by request."""
        try:
            self.engine.check_room()
        except EngineUnavailable as error:
            return c.Failure.of(error)
        except EngineError:
            pass
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
                if (task_ := self._calls.get(message.number)) is not None:
                    task_.cancel()
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
            if call.method in _CHANGES:
                self._server.push()  # a client that loads a model and then lists the models sees it
            self.link.send(c.Answered(call.number, msgspec.Raw(c.encode_value(result))))
        except EngineError as error:
            self._fail(call, error)
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
                full, of_client = c.Failure.of(refusal), refusal.reason == "overloaded_client"
        try:
            self.link.send(c.Failed(call.number, c.Failure.of(error), full, of_client))
        except Exception:
            self._break(call)

    def _break(self, call: c.Call) -> None:
        log.exception("%s, which a front end called, failed", call.method)
        self.link.send(c.Broken(call.number))


def sendable(model: ModelInfo) -> ModelInfo:
    """The model, without scores that msgpack cannot express, as a stranger's checkpoint may have."""
    with suppress(Exception):
        c.encode_value(model.scores)
        return model
    return replace(model, scores={})
