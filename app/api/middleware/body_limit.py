"""Limits of a request's body, in bytes and in seconds without data, enforced before anything parses it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fastapi.routing import APIRouter
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import error_response
from app.api.middleware.request_id import get_header


class BodyLimit:
    """Pure ASGI. Answers 413 from Content-Length alone where there is one, or else as soon as too much came; 408 once
    nothing came for `max_pause_s`: what has come is held in memory for as long.

    The body is read here and replayed: an exception raised inside `receive` would be taken by the framework for
    a malformed body.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_body_bytes: int,
        max_pause_s: float,
        uploads: Mapping[str, int] = MappingProxyType({}),
        routers: Sequence[APIRouter] = (),
    ) -> None:
        """uploads: paths that take larger bodies, in bytes. routers: all whose routes have a form of their own for
        refusals."""
        self.app = app
        self.max_body_bytes = max_body_bytes
        self.max_pause_s = max_pause_s
        self.routers = routers
        self.uploads = uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = get_header(scope, b"content-length")
        limit = self.uploads.get(scope["path"], self.max_body_bytes)
        try:
            messages = None if _is_too_long(declared, limit) else await _read_body(receive, limit, self.max_pause_s)
        except TimeoutError:
            sentence = f"Nothing of this request's body came for {self.max_pause_s:g} seconds; send it again."
            headers = {"Connection": "close"}  # the rest of the body would be read as the next request
            await error_response(self._routed(scope), 408, "body_too_slow", sentence, headers=headers)(
                scope, receive, send
            )
            return
        if messages is None:
            sentence = (
                f"This request's body is larger than the {limit:,} bytes that this server takes; send it in parts."
            )
            await error_response(self._routed(scope), 413, "body_too_large", sentence)(scope, receive, send)
            return

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        await self.app(scope, replay, send)

    def _routed(self, scope: Scope) -> Scope:
        """With the route that would have answered: clients of other services get a refusal in their own form."""
        for route in (route for router in self.routers for route in router.routes):
            if route.matches(scope)[0] is Match.FULL:
                scope["route"] = route
                break
        return scope


def _is_too_long(declared: str, limit: int) -> bool:
    # By its length first: a number of thousands of digits cannot be parsed.
    return declared.isdecimal() and (len(declared) > 18 or int(declared) > limit)


async def _read_body(receive: Receive, limit: int, max_pause_s: float) -> list[Message] | None:
    """Messages up to the end of the body (or the client's leaving); None when they exceed the limit."""
    chunks: list[bytes] = []
    size_bytes, more = 0, True
    while more:
        async with asyncio.timeout(max_pause_s):
            message = await receive()
        if message["type"] != "http.request":
            return [message]
        chunks.append(message.get("body", b""))
        size_bytes += len(chunks[-1])
        if size_bytes > limit:
            return None
        more = message.get("more_body", False)
    return [{"type": "http.request", "body": b"".join(chunks), "more_body": False}]
