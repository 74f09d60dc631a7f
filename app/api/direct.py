"""The way of a request to one of the routes that answer most of them, without a search through all routes."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request
from fastapi.routing import APIRouter
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.errors import answer_to
from app.api.route import JsonRoute


class Direct:
    """Pure ASGI, the innermost: what it does not know goes on to the framework, and so does what an operator traces
    with the framework's telemetry. Errors are answered by the same table on both ways."""

    def __init__(self, app: ASGIApp, *, routers: Sequence[APIRouter]) -> None:
        self.app = app
        self.routes: dict[tuple[str, str], JsonRoute] = {
            (method, route.path): route
            for router in routers
            for route in router.routes
            if isinstance(route, JsonRoute) and route.body_field is not None and not route.param_convertors
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.routes.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if route is None or scope.get("fastapi.telemetry") is not None:
            await self.app(scope, receive, send)
            return
        scope["route"] = route
        request = Request(scope, receive, send)
        try:
            request.app.state.services.engine.check_room()  # before any of it is parsed: a refusal has to be cheap
            answer = await route.answer(request)
            await answer(scope, receive, send)
        except Exception as error:
            refusal = await answer_to(request, error)
            await refusal(scope, receive, send)
