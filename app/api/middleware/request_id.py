"""An id for every request, in its answer and in the log; the last handler of unexpected exceptions."""

from __future__ import annotations

import logging
import random
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import error_response, internal_error

logger = logging.getLogger(__name__)

REQUEST_ID_HEADER = "X-Request-Id"
_NAME = REQUEST_ID_HEADER.lower().encode()
# A client's id goes into our log and into headers: only characters that break no line of either.
_ACCEPTED = re.compile(r"[A-Za-z0-9._:\-]{1,128}")


class RequestId:
    """Pure ASGI. Echoes a usable X-Request-Id, or else makes one; answers unexpected exceptions with 500."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = next((value.decode("latin-1") for name, value in scope["headers"] if name == _NAME), "")
        request_id = given if _ACCEPTED.fullmatch(given) else f"{random.getrandbits(128):032x}"
        scope.setdefault("state", {})["request_id"] = request_id
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                limits = scope["state"].get("limit_headers", ())
                message["headers"] = [*message.get("headers", ()), (_NAME, request_id.encode("ascii")), *limits]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception:
            path = getattr(scope.get("route"), "path", "an unknown path")  # its template: a path may hold anything
            logger.exception("request %s: %s %s failed", request_id, scope["method"], path)
            if started:  # too late to answer anything else: the connection has to break
                raise
            await error_response(scope, 500, internal_error(scope))(scope, receive, send_with_id)
