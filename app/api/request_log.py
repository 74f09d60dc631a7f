"""An id, one count, one log line and one span for each request; the last handler of unexpected exceptions."""

from __future__ import annotations

import logging
import random
import re
import time
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.key_file import ANONYMOUS
from app.api.errors import error_response, internal_error
from app.engine.metrics import CURRENT_WORK, Metrics, RequestWork

if TYPE_CHECKING:
    from app.api.telemetry import RequestSpans  # needs the extra `otel`

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REQUEST_ID_HEADER = "X-Request-Id"
_NAME = REQUEST_ID_HEADER.lower().encode()
# A client's id goes into our log and into headers: only characters that break no line of either.
_ACCEPTED = re.compile(r"[A-Za-z0-9._:\-]{1,128}")
MONITORED_PATHS = frozenset({"/health", "/health/live", "/health/ready", "/metrics"})
logger = logging.getLogger("app.requests")
_LINE = "%(method)s %(route)s %(status)d %(ms).1f ms %(bytes)d bytes, %(caller)s, %(request_id)s"


class RequestLog:
    """Pure ASGI. Echoes a usable X-Request-Id, or else makes one. Logs and counts the route's template, never
    a path, query, text, key or address: clients make those up, and they may be private. Answered probes are counted and
    not logged: every few seconds they say nothing new. spans: None without traces."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, enabled: bool, spans: RequestSpans | None = None) -> None:
        self.app, self.metrics, self.enabled, self.spans = app, metrics, enabled, spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, began_ns = time.perf_counter(), time.time_ns()
        method = scope["method"] if scope["method"] in METHODS else "other"
        given = next((value.decode("latin-1") for name, value in scope["headers"] if name == _NAME), "")
        request_id = given if _ACCEPTED.fullmatch(given) else f"{random.getrandbits(128):032x}"
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status, size_bytes = 0, 0  # status 0: the client left before there was one
        work = None if self.spans is None else RequestWork()
        token = CURRENT_WORK.set(work)

        async def log_and_send(message: Message) -> None:
            nonlocal status, size_bytes
            if message["type"] == "http.response.start":
                status = message["status"]
                limits = state.get("limit_headers", ())
                message["headers"] = [*message.get("headers", ()), (_NAME, request_id.encode("ascii")), *limits]
                answered = scope["method"] if scope["method"] in METHODS else "other"  # GET for a HEAD
                path = getattr(scope.get("route"), "path", "other")
                self.metrics.http_series(path, answered, str(status)).inc()
            elif message["type"] == "http.response.body":
                size_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, log_and_send)
        except Exception:
            path = getattr(scope.get("route"), "path", "an unknown path")
            logging.getLogger(__name__).exception("request %s: %s %s failed", request_id, scope["method"], path)
            if status:  # too late for another answer: the connection has to break
                raise
            await error_response(scope, 500, internal_error(scope))(scope, receive, log_and_send)
        finally:
            CURRENT_WORK.reset(token)
            if self.spans is not None and work is not None:
                self.spans.add(scope, method, began_ns, status, work)
            route = getattr(scope.get("route"), "path", "other")
            if (
                self.enabled
                and logger.isEnabledFor(logging.INFO)
                and not (route in MONITORED_PATHS and 200 <= status < 300)
            ):
                fields = {
                    "method": method,
                    "route": route,
                    "status": status,
                    "ms": round(1000 * (time.perf_counter() - began), 1),
                    "bytes": size_bytes,
                    "caller": state.get("caller", ANONYMOUS).name,
                    "request_id": request_id,
                }
                # not logger.info: it walks the stack for the place of its call, which is always this one
                place = (logger.name, logging.INFO, __file__, 0, _LINE, (fields,), None, "__call__")
                record = logging.getLogRecordFactory()(*place)
                record.fields = fields
                logger.handle(record)
