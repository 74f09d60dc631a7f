"""Server-sent events: an answer that grows. https://html.spec.whatwg.org/multipage/server-sent-events.html

    event: token   {"text": what was added, "index": of which continuation, where there are several}
    event: done    the whole answer with its totals; the texts of all token events join to its text
    event: error   the body that an error has elsewhere, if something goes wrong on the way

Whatever goes wrong before the first text is answered with its own status, as if nothing had been streamed.

Not with sse-starlette: it puts its own handler into uvicorn for the whole process, which ends every stream at
SIGTERM, where ours have the drain to finish in; and all that it would save us is `event`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.disconnect import ClientLeft, while_connected
from app.api.errors import OUR_FAULT, error_body, meaning
from app.engine.errors import EngineError
from app.engine.streaming import TextStream

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pace:
    """interval_s: at least so long between two rounds of tokens; write_timeout_s: a reader that takes nothing for so
    long is left."""

    interval_s: float = 0.0
    write_timeout_s: float = 60.0


class ReaderStuck(Exception):
    """The client has taken nothing for too long."""


class EventStream(Response, Generic[T]):
    """opened: what is streamed; done: the data of the last event; indexed: whether tokens say whose they are."""

    media_type = "text/event-stream"

    def __init__(
        self,
        opened: AbstractAsyncContextManager[TextStream[T]],
        done: Callable[[T], Any],
        pace: Pace,
        *,
        indexed: bool = False,
    ) -> None:
        # not to be kept, and not to be collected by proxies until it is whole
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._opened, self._done, self._pace, self._indexed = opened, done, pace, indexed
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(Request(scope, receive), self._stream(scope, send))
        except ClientLeft:
            if not self._begun:
                raise
        except ReaderStuck:
            logger.warning(
                "request %s: its reader took nothing for %g s and is left",
                scope["state"]["request_id"],
                self._pace.write_timeout_s,
            )

    async def _stream(self, scope: Scope, send: Send) -> None:
        async with self._opened as stream:
            self._begun = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            try:
                async for delta in stream.deltas(self._pace.interval_s):
                    token = {"text": delta.text, "index": delta.index} if self._indexed else {"text": delta.text}
                    await self._write(send, event("token", token))
                last = event("done", self._done(stream.result))
            except EngineError as error:
                case = meaning(scope, error)
                last = event("error", error_body(scope, case.code, case.message, case.field))
            except (ReaderStuck, OSError):  # nobody is there to be told
                raise
            except Exception:
                logger.exception("request %s failed in its stream", scope["state"]["request_id"])
                last = event("error", error_body(scope, "internal_error", OUR_FAULT))
            await self._write(send, last, more=False)

    async def _write(self, send: Send, body: bytes, *, more: bool = True) -> None:
        """The server waits here while the client's buffers are full; the engine goes on without us meanwhile."""
        try:
            async with asyncio.timeout(self._pace.write_timeout_s):
                await send({"type": "http.response.body", "body": body, "more_body": more})
        except TimeoutError:
            raise ReaderStuck from None


def event(name: str, data: Any) -> bytes:
    """JSON has no bare line ends, so that one line holds it."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def documented_stream(example: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's 200 for a route that also streams."""
    text = {"type": "string", "description": "Events `token`, then `done`, or `error` if something goes wrong."}
    description = 'The answer; with `"stream": true` server-sent events.'
    return {200: {"description": description, "content": {"text/event-stream": {"schema": text, "example": example}}}}
