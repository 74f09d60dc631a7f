"""HEAD wherever there is a GET (RFC 9110, 9.1), as monitors and load balancers ask for it."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadRequests:
    """Pure ASGI. The routes see a GET, and nobody the body of its answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        asked = {**scope, "method": "GET"}
        try:
            await self.app(asked, receive, without_body)
        finally:  # for the log and the traces around this
            scope.update({name: asked[name] for name in ("route", "state") if name in asked})
