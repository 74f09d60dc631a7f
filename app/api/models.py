"""GET /models: what is loaded."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.errors import documented
from app.api.route import JsonRoute
from app.api.schemas.models import ModelAnswer
from app.api.services import ServicesDependency

router = APIRouter(tags=["Models"], route_class=JsonRoute)


@router.get("/models", summary="List models", responses=documented())
async def models(services: ServicesDependency) -> list[ModelAnswer]:
    """Every loaded model, in the order in which requests without a model take them."""
    return [ModelAnswer.model_validate(info) for info in services.engine.models()]
