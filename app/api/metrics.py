"""GET /metrics for Prometheus, and the counter of HTTP requests that surrounds all routes."""

from __future__ import annotations

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import documented
from app.api.route import JsonRoute
from app.api.services import ServicesDependency
from app.engine.metrics import Metrics

OPEN_METRICS = "application/openmetrics-text"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_PAGE: dict[str, object] = {
    "description": "Every series.",
    "content": {"text/plain": {"schema": {"type": "string"}}, OPEN_METRICS: {"schema": {"type": "string"}}},
}

router = APIRouter(tags=["Health"], route_class=JsonRoute)


@router.get("/metrics", summary="Metrics", response_class=Response, responses={200: _PAGE, **documented()})
async def metrics(request: Request, services: ServicesDependency) -> Response:
    """Prometheus' text format, or OpenMetrics where `Accept` asks for it; docs/serving.md lists every series."""
    registry = services.metrics.scrape()
    if OPEN_METRICS in request.headers.get("accept", ""):
        # without ALLOWUTF8 it writes the colons of samples as underscores, and keeps those of the lines above them
        page = openmetrics.generate_latest(registry, openmetrics.ALLOWUTF8)  # type: ignore[no-untyped-call]
        kind = openmetrics.CONTENT_TYPE_LATEST
    else:
        page, kind = generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4
    return Response(page, headers={"Content-Type": kind})


class HttpCounter:
    """Pure ASGI. Counts each answer by its route's template, never by a path: clients make those up."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in METHODS else "other"
                self.metrics.http(getattr(scope.get("route"), "path", "other"), method, message["status"])
            await send(message)

        await self.app(scope, receive, send_and_count)
