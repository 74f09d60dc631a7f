"""Answers to a connected client: work that a disconnect cancels, and server-sent events.

https://html.spec.whatwg.org/multipage/server-sent-events.html

    event: token   {"text": the new text, "index": its continuation, where there are several, "tokens": the tokens
                   whose texts join to this text, where they were requested}
    event: done    the whole answer with its totals; the texts of all token events join to its text
    event: error   the body that an error has elsewhere, if something fails midway

A failure before the first text is answered with its own status, as if nothing had been streamed.

Not with sse-starlette: it puts its own handler into uvicorn for the whole process, which ends every stream at
SIGTERM, where ours have the drain to finish in; and all that it would save is `format_event`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

import msgspec
from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.errors import INTERNAL_ERROR_MESSAGE, error_body, http_error
from app.api.expectations import written_token_fields
from app.engine.errors import EngineError
from app.engine.output.text_stream import TextDelta, TextStream

T = TypeVar("T")


class ClientDisconnected(HTTPException):
    """The client closed the connection before the answer was there."""

    def __init__(self) -> None:
        super().__init__(499, "The client closed the connection before the answer was there.")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled as soon as the client of `request` has disconnected.

    `work` runs in the caller's own task, so that its result is there in the same turn of the loop: it is this task that
    the watcher cancels, as `asyncio.timeout` does it.
    """
    working = asyncio.current_task()
    assert working is not None
    cancellations, left = working.cancelling(), False

    def leave(watch: asyncio.Task[None]) -> None:
        nonlocal left
        if not (watch.cancelled() or watch.exception() or over):
            left = True
            working.cancel()

    over = False
    watching = asyncio.create_task(_wait_for_disconnect(request))
    watching.add_done_callback(leave)
    try:
        return await work
    except asyncio.CancelledError:
        if left and working.uncancel() <= cancellations:
            raise ClientDisconnected from None
        raise
    finally:
        over = True
        watching.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


logger = logging.getLogger(__name__)

_EVENTS = "Events `token`, then `done`, or `error` if something goes wrong."


class ReaderStalled(Exception):
    """The client has taken nothing for too long."""


class TimedWriter:
    """The body of one answer, written bit by bit. A context, which raises ReaderStuck once a write has waited for
    `timeout_s`: one timer for all writes, because one for each would cost as much as the writes do."""

    def __init__(self, send: Send, timeout_s: float) -> None:
        self._send, self._timeout_s = send, timeout_s
        self._loop = asyncio.get_running_loop()
        self._limit = asyncio.timeout(None)
        self._since: float | None = None  # when the write began that waits now
        self._look: asyncio.TimerHandle

    async def __aenter__(self) -> TimedWriter:
        await self._limit.__aenter__()
        self._look = self._loop.call_later(self._timeout_s, self._check)
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._look.cancel()
        try:
            await self._limit.__aexit__(*error)
        except TimeoutError:
            raise ReaderStalled from None

    async def write(self, body: bytes, *, more: bool = True) -> None:
        """The server waits here while the client's buffers are full; the engine goes on without us meanwhile."""
        self._since = self._loop.time()
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
        self._since = None

    def _check(self) -> None:
        now = self._loop.time()
        end = (now if self._since is None else self._since) + self._timeout_s
        if end > now:
            self._look = self._loop.call_at(end, self._check)
        else:
            self._limit.reschedule(now)


class EventStream(Response, Generic[T]):
    """opened: what is streamed; done: the data of the last event; write_timeout_s: a reader that takes nothing for so
    long is left; indexed: whether tokens say whose they are."""

    media_type = "text/event-stream"

    def __init__(
        self,
        opened: AbstractAsyncContextManager[TextStream[T]],
        done: Callable[[T], Any],
        write_timeout_s: float,
        *,
        indexed: bool = False,
    ) -> None:
        # not to be kept, and not to be collected by proxies until it is whole
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._opened, self._done, self._indexed = opened, done, indexed
        self._write_timeout_s = write_timeout_s
        self._begun = False
        self.on_refusal: Callable[[], Awaitable[None]] | None = None  # awaited if it ends before its first text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(Request(scope, receive), self._stream(scope, send))
        except ClientDisconnected:
            if not self._begun:
                await self._refused()
                raise
        except ReaderStalled:
            logger.warning(
                "request %s: its reader took nothing for %g s and is left",
                scope["state"]["request_id"],
                self._write_timeout_s,
            )
        except Exception:
            if not self._begun:
                await self._refused()
            raise

    async def _refused(self) -> None:
        if self.on_refusal is not None:
            await self.on_refusal()

    async def _stream(self, scope: Scope, send: Send) -> None:
        async with self._opened as stream:
            self._begun = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async with TimedWriter(send, self._write_timeout_s) as body:
                tokens = self._tokens(await stream.taken())
                while not stream.ended:
                    await body.write(tokens)
                    tokens = self._tokens(await stream.taken())
                await body.write(tokens + self._last(scope, stream), more=False)

    def _tokens(self, deltas: list[TextDelta]) -> bytes:
        """One event for each continuation that has grown."""
        return b"".join([format_event("token", self._fields(each)) for each in deltas])

    def _fields(self, delta: TextDelta) -> dict[str, Any]:
        fields: dict[str, Any] = {"text": delta.text}
        if self._indexed:
            fields["index"] = delta.index
        if delta.tokens:
            fields["tokens"] = [written_token_fields(each) for each in delta.tokens]
        return fields

    def _last(self, scope: Scope, stream: TextStream[T]) -> bytes:
        """The event that ends it, well or not."""
        try:
            return format_event("done", self._done(stream.result))
        except EngineError as error:
            case = http_error(scope, error)
            return format_event("error", error_body(scope, case.code, case.message, case.field))
        except Exception:
            logger.exception("request %s failed in its stream", scope["state"]["request_id"])
            return format_event("error", error_body(scope, "internal_error", INTERNAL_ERROR_MESSAGE))


def format_event(name: str, data: Any) -> bytes:
    """JSON has no bare line ends, so that one line holds it."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def documented_stream(example: str, told: str = _EVENTS) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's 200 for a route that also streams. Before 3.2 it has no form for streams: some tools take the schema
    for that of all of it, some for that of each event."""
    text = {"type": "string"}
    each = {"type": "object", "required": ["data"], "properties": {"event": text, "data": text}}
    schema = {"description": told, "anyOf": [text, each]}
    description = 'The answer; with `"stream": true` server-sent events.'
    return {200: {"description": description, "content": {"text/event-stream": {"schema": schema, "example": example}}}}
