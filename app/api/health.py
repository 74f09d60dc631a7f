"""Health: for LibreTranslate's clients (/health), for restarts (/health/live), for traffic (/health/ready)."""

from __future__ import annotations

from fastapi import APIRouter, Response

from app.api.errors import documented
from app.api.route import JsonRoute
from app.api.schemas.health import Health, Readiness
from app.api.services import ServicesDependency
from app.engine.errors import EngineUnavailable

router = APIRouter(tags=["Health"], route_class=JsonRoute)


@router.get(
    "/health",
    summary="Health",
    responses=documented(s503="No device has its models; Retry-After says when to try again."),
)
async def health(services: ServicesDependency) -> Health:
    """LibreTranslate's health check, but honest: "ok" when texts can be translated, and not before."""
    status = services.engine.status()
    if not status.ready:
        raise EngineUnavailable(" ".join(status.problems) or "No device is ready; try again in a few seconds.")
    return Health()


@router.get("/health/live", summary="Liveness", responses=documented())
async def live() -> Health:
    """The server answers; when it does not, restart it."""
    return Health()


@router.get(
    "/health/ready",
    summary="Readiness",
    responses={
        **documented(),
        503: {"model": Readiness, "description": "Not ready; `problems` and `devices` say why."},
    },
)
async def ready(response: Response, services: ServicesDependency) -> Readiness:
    """Whether requests can be answered. 200 as soon as one device has its models, also while others are down: the
    rest serves, and `problems` says what is missing. 503 before that, without any device, and from SIGTERM on."""
    status = services.engine.status()
    response.status_code = 200 if status.ready else 503
    return Readiness.model_validate(status)
