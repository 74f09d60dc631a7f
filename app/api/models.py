"""GET /models: what is loaded, and how it was trained; POST /models/{name}/load, reload and unload change it."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.admin import AdminDependency
from app.api.errors import documented
from app.api.fields import PathName
from app.api.route import JsonRoute
from app.api.schemas.curves import CurvesAnswer
from app.api.schemas.models import ChangeAnswer, ModelAnswer
from app.api.services import ServicesDependency

router = APIRouter(tags=["Models"], route_class=JsonRoute)

_GUARDED = {
    "s401": "The admin key is missing or wrong.",
    "s403": "The server was started without PARLANCE_ADMIN_KEY.",
}
_LOADING = {
    "s409": "It is loaded already.",
    "s422": "The folder cannot be served: `error` says which file is wrong; what was served before goes on.",
    "s503": "No device can load a model right now; Retry-After says when to try again.",
}


@router.get("/models", summary="List models", responses=documented())
async def models(services: ServicesDependency) -> list[ModelAnswer]:
    """Every loaded model, in the order in which requests without a model take them."""
    return [ModelAnswer.model_validate(info) for info in services.engine.models()]


@router.get(
    "/models/{name}/curves",
    summary="Curves of a training",
    responses=documented(s404="No such model is loaded.", s503="Models are still loading; try again in a few seconds."),
)
async def curves(name: PathName, services: ServicesDependency) -> CurvesAnswer:
    """Loss, held-out scores and learning rate over updates: the `metrics.jsonl` of the model's folder as it is now, so
    those of a run that still writes there grow. Without one, or where it cannot be used, `curves` is empty and `reason`
    says why. A curve has at most 500 points; more are thinned, and the first, last, least and greatest stay."""
    return CurvesAnswer.model_validate(await services.engine.curves(name))


@router.post(
    "/models/{name}/load",
    summary="Load a model",
    dependencies=[AdminDependency],
    responses=documented(**_GUARDED, s404="There is no such folder.", **_LOADING),
)
async def load_model(name: PathName, services: ServicesDependency) -> ChangeAnswer:
    """Serve a checkpoint folder that has come since the start. Answers when all devices have it."""
    return ChangeAnswer.model_validate(await services.engine.load_model(name))


@router.post(
    "/models/{name}/reload",
    summary="Reload a model",
    dependencies=[AdminDependency],
    responses=documented(**_GUARDED, s404="No such model is loaded.", s422=_LOADING["s422"], s503=_LOADING["s503"]),
)
async def reload_model(name: PathName, services: ServicesDependency) -> ChangeAnswer:
    """Serve a folder's new content under the same name. Requests in flight end on the old weights, new ones get the
    new; none fails. Needs the memory of both for a while."""
    return ChangeAnswer.model_validate(await services.engine.reload_model(name))


@router.post(
    "/models/{name}/unload",
    summary="Unload a model",
    dependencies=[AdminDependency],
    responses=documented(**_GUARDED, s404="No such model is loaded.", s503=_LOADING["s503"]),
)
async def unload_model(name: PathName, services: ServicesDependency) -> ChangeAnswer:
    """Serve it no more, until it is loaded again. Answers when the requests that have it are done."""
    return ChangeAnswer.model_validate(await services.engine.unload_model(name))
