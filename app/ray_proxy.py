"""What Ray Serve's proxies answer where a replica has ended: the service's own errors instead of Ray's plain text or a
connection that breaks. Nodes start with

    RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=app.ray_proxy:middlewares

Without it such a request gets 500 with a plain text, and a stream ends without an event."""

from __future__ import annotations

import msgspec
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import ErrorAnswer
from app.api.families import error_form

_RETRY_AFTER_S = 1  # another replica has room, or a new one is started within seconds
_ENDED = "The server that had this request ended; send it again."
_REFUSALS = {
    408: (504, "deadline_exceeded", "The answer did not come in time; send less text, or try again later."),
    429: (429, "overloaded", "All replicas have more requests than they take; try again in a second."),
    503: (503, "engine_unavailable", "No replica can take the request now; try again in a second."),
}


def middlewares() -> list[Middleware]:
    """For Ray's callback."""
    return [Middleware(ErrorsOfReplicas)]


class ErrorsOfReplicas:
    """Around Ray's proxy. Answers of replicas pass unchanged."""

    def __init__(self, proxy: ASGIApp) -> None:
        self._proxy = proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._proxy(scope, receive, send)
            return
        answer = _Answer(scope, send)
        await self._proxy(scope, receive, answer.send)
        await answer.complete()


class _Answer:
    """What the proxy has sent of one answer."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope, self._send = scope, send
        self._begun = self._ended = self._replaced = self._events = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            kind = Headers(raw=message["headers"]).get("content-type", "")
            self._events = kind.startswith("text/event-stream")
            if message["status"] in _REFUSALS and kind.startswith("text/plain"):  # a replica's refusal is JSON
                self._replaced = True
                await self._refuse(*_REFUSALS[message["status"]])
        elif message["type"] == "http.response.body":
            self._ended = not message.get("more_body", False)
        if not self._replaced:
            await self._send(message)

    async def complete(self) -> None:
        if not self._begun:
            await self._refuse(503, "engine_unavailable", _ENDED)
        elif self._events and not self._ended:
            error = self._body(503, "engine_unavailable", _ENDED)
            openai = self._scope["path"].startswith("/v1/")
            event = b"data: %b\n\ndata: [DONE]\n\n" if openai else b"event: error\ndata: %b\n\n"
            await self._send({"type": "http.response.body", "body": event % error})

    async def _refuse(self, status: int, code: str, sentence: str) -> None:
        body = self._body(status, code, sentence)
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        if status in (429, 503):
            headers["retry-after"] = str(_RETRY_AFTER_S)
        if self._request_id:
            headers["x-request-id"] = self._request_id
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})
        await self._send({"type": "http.response.body", "body": body})

    def _body(self, status: int, code: str, sentence: str) -> bytes:
        """In the form of the route's protocol."""
        error = ErrorAnswer(error=sentence, code=code, field=None, request_id=self._request_id or "")
        return msgspec.json.encode(error_form(self._scope["path"]).from_error(status, error))

    @property
    def _request_id(self) -> str | None:
        """The client's, or the one that Ray has added."""
        return Headers(scope=self._scope).get("x-request-id")
