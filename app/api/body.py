"""The byte limit of request bodies, kept before anything parses them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import error_answer
from app.api.request_id import header


class BodyLimit:
    """Pure ASGI. Answers 413 from Content-Length alone where there is one, or else as soon as too much came.

    The body is read here and replayed: an exception raised inside `receive` would be taken by the framework for
    a malformed body.
    """

    def __init__(self, app: ASGIApp, *, max_body_bytes: int, uploads: Mapping[str, int] = MappingProxyType({})) -> None:
        """uploads: paths that take larger bodies, in bytes."""
        self.app = app
        self.max_body_bytes = max_body_bytes
        self.uploads = uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = header(scope, b"content-length")
        limit = self.uploads.get(scope["path"], self.max_body_bytes)
        messages = None if _too_many(declared, limit) else await _read(receive, limit)
        if messages is None:
            sentence = (
                f"This request's body is larger than the {limit:,} bytes that this server takes; send it in parts."
            )
            await error_answer(scope, 413, "body_too_large", sentence)(scope, receive, send)
            return

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        await self.app(scope, replay, send)


def _too_many(declared: str, limit: int) -> bool:
    # By its length first: a number of thousands of digits cannot be parsed.
    return declared.isdecimal() and (len(declared) > 18 or int(declared) > limit)


async def _read(receive: Receive, limit: int) -> list[Message] | None:
    """Messages up to the end of the body (or the client's leaving); None when they exceed the limit."""
    chunks: list[bytes] = []
    size_bytes, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return [message]
        chunks.append(message.get("body", b""))
        size_bytes += len(chunks[-1])
        if size_bytes > limit:
            return None
        more = message.get("more_body", False)
    return [{"type": "http.request", "body": b"".join(chunks), "more_body": False}]
