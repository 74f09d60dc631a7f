"""One log line and one count for each answered request."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.key_file import ANONYMOUS
from app.engine.metrics.collector import Metrics

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
logger = logging.getLogger("app.requests")
_LINE = "%(method)s %(route)s %(status)d %(ms).1f ms %(bytes)d bytes, %(caller)s, %(request_id)s"


class AccessLog:
    """Pure ASGI. Names the route's template and never a path, query, text, key or address: clients make those up, and
    they may be private."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, enabled: bool) -> None:
        self.app, self.metrics, self.enabled = app, metrics, enabled

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, method = time.perf_counter(), scope["method"]
        status, size_bytes = 0, 0

        async def count_and_send(message: Message) -> None:
            nonlocal status, size_bytes
            if message["type"] == "http.response.start":
                status = message["status"]
                path = getattr(scope.get("route"), "path", "other")
                self.metrics.http_series(path, _known(scope["method"]), str(status)).inc()
            elif message["type"] == "http.response.body":
                size_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, count_and_send)
        finally:
            if self.enabled and logger.isEnabledFor(logging.INFO):
                _log_request(scope, method, status, 1000 * (time.perf_counter() - began), size_bytes)


def _known(method: str) -> str:
    return method if method in METHODS else "other"


def _log_request(scope: Scope, method: str, status: int, ms: float, size_bytes: int) -> None:
    """status 0: the client left before there was one."""
    state = scope.get("state", {})
    fields = {
        "method": _known(method),
        "route": getattr(scope.get("route"), "path", "other"),
        "status": status,
        "ms": round(ms, 1),
        "bytes": size_bytes,
        "caller": state.get("caller", ANONYMOUS).name,
        "request_id": state.get("request_id", ""),
    }
    # not logger.info: it walks the stack for the place of its call, which is always this one
    place = (logger.name, logging.INFO, __file__, 0, _LINE, (fields,), None, "_log_request")
    record = logging.getLogRecordFactory()(*place)
    record.fields = fields
    logger.handle(record)
