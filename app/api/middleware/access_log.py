"""One log line for each answered request."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.key_file import ANONYMOUS
from app.api.operations.operations_routes import METHODS

logger = logging.getLogger("app.requests")
_LINE = "%(method)s %(route)s %(status)d %(ms).1f ms %(bytes)d bytes, %(caller)s, %(request_id)s"


class AccessLog:
    """Pure ASGI. Says nothing that a client has sent but a usable request id: no path, query, text, key or address."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not logger.isEnabledFor(logging.INFO):
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status, size_bytes = 0, 0

        async def counted(message: Message) -> None:
            nonlocal status, size_bytes
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                size_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, counted)
        finally:
            _log_request(scope, status, 1000 * (time.perf_counter() - began), size_bytes)


def _log_request(scope: Scope, status: int, ms: float, size_bytes: int) -> None:
    """status 0: the client left before there was one."""
    state = scope.get("state", {})
    fields = {
        "method": scope["method"] if scope["method"] in METHODS else "other",
        "route": getattr(scope.get("route"), "path", "other"),
        "status": status,
        "ms": round(ms, 1),
        "bytes": size_bytes,
        "caller": state.get("caller", ANONYMOUS).name,
        "request_id": state.get("request_id", ""),
    }
    # not logger.info: it walks the stack for the place of its call, which is always this one
    record = logging.getLogRecordFactory()(logger.name, logging.INFO, __file__, 0, _LINE, (fields,), None, "_say")
    record.fields = fields
    logger.handle(record)
