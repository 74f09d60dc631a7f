"""Server-sent events.

https://html.spec.whatwg.org/multipage/server-sent-events.html

    event: token   {"text": the new text, "index": its continuation, where there are several, "tokens": the tokens
                   whose texts join to this text, where they were requested}
    event: done    the whole answer with its totals; the texts of all token events join to its text
    event: error   the body that an error has elsewhere, if something fails midway

A failure before the first text is answered with its own status, as if nothing had been streamed.

Not with sse-starlette, whose handler in uvicorn ends every stream at SIGTERM; ours have the drain to finish in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

import msgspec
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.errors import HttpError, Responses, http_error, internal_error
from app.api.request_body import ClientDisconnected, while_connected
from app.api.responses import WrittenTokenAnswer
from app.engine.metrics import CURRENT_WORK
from app.engine.output.text_stream import TextDelta, TextStream
from app.errors import EngineError

logger = logging.getLogger(__name__)

T = TypeVar("T")
SLICE_S = 0.002  # of writing events, before others have their turn: a stream may have hundreds of texts
LARGE_STREAM_BYTES = 65_536  # the last event has all of a stream again, and is then made in a thread
_NAMES = ("token", "done", "error")
_EVENTS = "Events `token`, then `done`, or `error` if something goes wrong."


class EventStream(Response, Generic[T]):
    """done: makes the last event's data of the stream's result. indexed: `token` events name their continuation."""

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
        self._begun, self._written_bytes = False, 0
        self._write_began_s: float | None = None  # of the write that waits now
        self._timer: asyncio.TimerHandle
        self.on_refusal: Callable[[], Awaitable[None]] | None = None  # for a stream that fails before its first text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(Request(scope, receive), self._stream(scope, send))
        except Exception as error:
            if not self._begun and self.on_refusal is not None:
                await self.on_refusal()
            if not self._begun or not isinstance(error, ClientDisconnected):
                raise

    async def _stream(self, scope: Scope, send: Send) -> None:
        """Sends the stream's events. A `send` waits while the client's buffers are full; meanwhile the engine
        continues."""
        async with self._opened as stream:
            self._begun = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            try:
                async with asyncio.timeout(None) as limit:
                    self._check_writes(limit)
                    ended = False
                    while not ended:
                        deltas, ended = await stream.taken(), stream.ended
                        events, began_s = list[bytes](), time.perf_counter()
                        for event in self._token_events(deltas):
                            events.append(event)
                            if time.perf_counter() - began_s > SLICE_S:
                                await self._write(send, events)
                                await asyncio.sleep(0)  # others' turn, which a write alone need not give them
                                events, began_s = [], time.perf_counter()
                        if ended and self._written_bytes > LARGE_STREAM_BYTES:
                            events.append(await run_in_threadpool(self._last_events, scope, stream))
                        elif ended:
                            events.append(self._last_events(scope, stream))
                        if events:
                            await self._write(send, events, more=not ended)
            except TimeoutError:
                sentence = "request %s: its reader took nothing for %g s and is left"
                logger.warning(sentence, scope["state"]["request_id"], self._write_timeout_s)
            finally:
                self._timer.cancel()

    async def _write(self, send: Send, events: list[bytes], *, more: bool = True) -> None:
        self._write_began_s = asyncio.get_running_loop().time()
        body = b"".join(events)
        self._written_bytes += len(body)
        await send({"type": "http.response.body", "body": body, "more_body": more})
        self._write_began_s = None

    def _check_writes(self, limit: asyncio.Timeout) -> None:
        """Makes `limit` expire once a write has waited for `_write_timeout_s`. One timer serves all writes of the
        stream; a timer for each write would double the cost of a write."""
        loop = asyncio.get_running_loop()
        end = (self._write_began_s or loop.time()) + self._write_timeout_s
        if end > loop.time():
            self._timer = loop.call_at(end, self._check_writes, limit)
        else:
            limit.reschedule(end)

    def _token_events(self, deltas: list[TextDelta]) -> Iterator[bytes]:
        """One event for each continuation that has grown."""
        for delta in deltas:
            fields: dict[str, object] = {"text": delta.text}
            if self._indexed:
                fields["index"] = delta.index
            if delta.tokens:
                fields["tokens"] = [WrittenTokenAnswer.of(token) for token in delta.tokens]
            yield format_event("token", fields)

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
        return format_event("error", error.body)


def format_event(name: str, data: object) -> bytes:
    """A server-sent event. One `data` line suffices: JSON has no line ends, since those within strings are escaped."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def documented_stream(example: str, events: str = _EVENTS, names: tuple[str, ...] = _NAMES) -> Responses:
    """OpenAPI's 200 for a route that also streams. Before 3.2 OpenAPI has no form for streams: the schema is that of
    one event, as tools take it that know server-sent events. names: of events; () where they have none."""
    fields: dict[str, object] = {"event": {"type": "string", "enum": list(names)}} if names else {}
    fields["data"] = {"type": "string"}
    schema = {"description": events, "type": "object", "required": list(fields), "properties": fields}
    description = 'The answer; with `"stream": true` server-sent events.'
    return {200: {"description": description, "content": {"text/event-stream": {"schema": schema, "example": example}}}}
