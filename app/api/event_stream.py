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
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, TypeVar

import msgspec
from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.errors import HttpError, Responses, http_error, internal_error
from app.api.request_body import ClientDisconnected
from app.api.shared_schemas import WrittenTokenAnswer
from app.engine.metrics.request_work import CURRENT_WORK
from app.engine.output.text_stream import TextDelta, TextStream
from app.errors import EngineError

logger = logging.getLogger(__name__)

T = TypeVar("T")
_EVENTS = "Events `token`, then `done`, or `error` if something goes wrong."


async def while_connected(request: Request, work: Coroutine[object, object, T]) -> T:
    """The result of `work`, which is cancelled as soon as the client of `request` has disconnected.

    `work` runs in the caller's own task, so that its result is there in the same iteration of the event loop; the
    watcher cancels this task, as `asyncio.timeout` does.
    """
    worker = asyncio.current_task()
    assert worker is not None
    cancellations, disconnected, over = worker.cancelling(), False, False

    def cancel_work(watcher: asyncio.Task[None]) -> None:
        nonlocal disconnected
        if not (watcher.cancelled() or watcher.exception() or over):
            disconnected = True
            worker.cancel()

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    watcher = asyncio.create_task(wait_for_disconnect())
    watcher.add_done_callback(cancel_work)
    try:
        return await work
    except asyncio.CancelledError:
        if disconnected and worker.uncancel() <= cancellations:
            raise ClientDisconnected from None
        raise
    finally:
        over = True
        watcher.cancel()


class ReaderStalled(Exception):
    """The client has read nothing for too long."""


class TimedWriter:
    """The body of one answer, written in parts. A context, which raises ReaderStalled once a write has waited for
    `timeout_s`: one timer for all writes, because a timer for each would cost as much as the write does."""

    def __init__(self, send: Send, timeout_s: float) -> None:
        self._send, self._timeout_s = send, timeout_s
        self._loop = asyncio.get_running_loop()
        self._limit = asyncio.timeout(None)
        self._write_began_s: float | None = None  # of the write that waits now
        self._timer: asyncio.TimerHandle

    async def __aenter__(self) -> TimedWriter:
        await self._limit.__aenter__()
        self._timer = self._loop.call_later(self._timeout_s, self._check)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        try:
            await self._limit.__aexit__(kind, error, traceback)
        except TimeoutError:
            raise ReaderStalled from None

    async def write(self, body: bytes, *, more: bool = True) -> None:
        """Waits here while the client's buffers are full; the engine goes on meanwhile."""
        self._write_began_s = self._loop.time()
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
        self._write_began_s = None

    def _check(self) -> None:
        now = self._loop.time()
        end = (now if self._write_began_s is None else self._write_began_s) + self._timeout_s
        if end > now:
            self._timer = self._loop.call_at(end, self._check)
        else:
            self._limit.reschedule(now)


class EventStream(Response, Generic[T]):
    """opened: the stream of texts. done: the data of the last event, from the stream's result. write_timeout_s: after
    which a client that reads nothing is left. indexed: whether `token` events name their continuation."""

    media_type = "text/event-stream"

    def __init__(
        self,
        opened: AbstractAsyncContextManager[TextStream[T]],
        done: Callable[[T], object],
        write_timeout_s: float,
        *,
        indexed: bool = False,
    ) -> None:
        # not to be stored, nor to be buffered by proxies until it is whole
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._opened, self._done, self._indexed = opened, done, indexed
        self._write_timeout_s = write_timeout_s
        self._begun = False
        self.on_refusal: Callable[[], Awaitable[None]] | None = (
            None  # awaited if the stream fails before its first text
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(Request(scope, receive), self._stream(scope, send))
        except ReaderStalled:
            logger.warning(
                "request %s: its reader took nothing for %g s and is left",
                scope["state"]["request_id"],
                self._write_timeout_s,
            )
        except Exception as error:
            if not self._begun and self.on_refusal is not None:
                await self.on_refusal()
            if not self._begun or not isinstance(error, ClientDisconnected):
                raise

    async def _stream(self, scope: Scope, send: Send) -> None:
        async with self._opened as stream:
            self._begun = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async with TimedWriter(send, self._write_timeout_s) as body:
                events = self._token_events(await stream.taken())
                while not stream.ended:
                    await body.write(events)
                    events = self._token_events(await stream.taken())
                await body.write(events + self._last_events(scope, stream), more=False)

    def _token_events(self, deltas: list[TextDelta]) -> bytes:
        """One event for each continuation that has grown."""
        return b"".join([format_event("token", self._token_fields(delta)) for delta in deltas])

    def _token_fields(self, delta: TextDelta) -> Mapping[str, object]:
        fields: dict[str, object] = {"text": delta.text}
        if self._indexed:
            fields["index"] = delta.index
        if delta.tokens:
            fields["tokens"] = [WrittenTokenAnswer.fields_of(token) for token in delta.tokens]
        return fields

    def _last_events(self, scope: Scope, stream: TextStream[T]) -> bytes:
        try:
            return self._done_events(stream.result)
        except Exception as error:
            if (work := CURRENT_WORK.get()) is not None:
                work.broken = True
            if isinstance(error, EngineError):
                return self._error_events(http_error(scope, error))
            logger.exception("request %s failed in its stream", scope["state"]["request_id"])
            return self._error_events(HttpError(500, internal_error(scope), {}))

    def _done_events(self, result: T) -> bytes:
        return format_event("done", self._done(result))

    def _error_events(self, error: HttpError) -> bytes:
        return format_event("error", error.body.model_dump(exclude_unset=True))


def format_event(name: str, data: object) -> bytes:
    """JSON has no line ends outside of strings, where they are escaped, so that one line holds it."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def documented_stream(example: str, events: str = _EVENTS) -> Responses:
    """OpenAPI's 200 for a route that also streams. Before 3.2 OpenAPI has no form for streams: some tools take the
    schema for that of the whole stream, some for that of one event."""
    text = {"type": "string"}
    event = {"type": "object", "required": ["data"], "properties": {"event": text, "data": text}}
    schema = {"description": events, "anyOf": [text, event]}
    description = 'The answer; with `"stream": true` server-sent events.'
    return {200: {"description": description, "content": {"text/event-stream": {"schema": schema, "example": example}}}}
