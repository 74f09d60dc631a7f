"""The byte limit of request bodies, kept before anything parses them."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import error_answer
from app.api.request_id import header


class BodyLimit:
    """Pure ASGI. Answers 413 from Content-Length alone where there is one, or else as soon as too much came.

    The body is read here and replayed: an exception raised inside `receive` would be taken by the framework for
    a malformed body.
    """

    def __init__(self, app: ASGIApp, *, max_body_bytes: int) -> None:
        self.app = app
        self.max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = header(scope, b"content-length")
        messages = None if self._too_many(declared) else await self._read(receive)
        if messages is None:
            sentence = (
                f"This request's body is larger than the {self.max_body_bytes:,} bytes that this server takes;"
                " send it in parts."
            )
            await error_answer(scope, 413, "body_too_large", sentence)(scope, receive, send)
            return

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        await self.app(scope, replay, send)

    def _too_many(self, declared: str) -> bool:
        # By its length first: a number of thousands of digits cannot be parsed.
        return declared.isdecimal() and (len(declared) > 18 or int(declared) > self.max_body_bytes)

    async def _read(self, receive: Receive) -> list[Message] | None:
        """Messages up to the end of the body (or the client's leaving); None when they exceed the limit."""
        chunks: list[bytes] = []
        size_bytes, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return [message]
            chunks.append(message.get("body", b""))
            size_bytes += len(chunks[-1])
            if size_bytes > self.max_body_bytes:
                return None
            more = message.get("more_body", False)
        return [{"type": "http.request", "body": b"".join(chunks), "more_body": False}]
