"""GET /models and its curves, loading and unloading; /health, /health/live, /health/ready; /metrics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from app.access.authorization import KeyMissing, KeyWrong, ScopeMissing
from app.api.access_control import charge, given_keys
from app.api.errors import ErrorExample, Meaning, documented
from app.api.field_types import PathName
from app.api.operations.schemas import ChangeAnswer, CurvesAnswer, Health, ImportAnswer, ModelAnswer, Readiness
from app.api.route import ApiRoute
from app.api.services import ServicesDependency
from app.errors import EngineUnavailable

_OFF = (
    "Models cannot be changed here: start the server with PARLANCE_ADMIN_KEY to allow it, or give yourself a key of the"
    " scope admin: parlance keys add NAME --scope admin --file FILE, with the server's PARLANCE_KEYS_FILE as FILE."
)
_USE = "This key may use models and not change them: ask whoever runs the server for one of the scope admin."
_FIXED = (
    "Models of this server are changed where it is deployed (PARLANCE_MODEL_CHANGES is false): of replicas under Ray"
    " Serve by the user_config of the deployment."
)
_WRONG = "This needs the server's admin key: send it as Authorization: Bearer KEY, or as X-Api-Key: KEY."


class AdminRoute(ApiRoute):
    """A route that `require_admin` guards."""

    for_admins = True


async def require_admin(request: Request, services: ServicesDependency) -> None:
    """403 where no key has the scope, this one lacks it, or models are fixed; 401 for a missing or unknown key."""
    if not services.access.has_admin():
        raise HTTPException(403, _OFF)
    keys = list(given_keys(request, {}, ()))
    may = services.access.admin(keys)
    if may is None:
        raise ScopeMissing(_USE)
    if not may:
        await charge(request, 1, 0)  # guessing keys is limited as requests are
        raise KeyWrong(_WRONG) if keys else KeyMissing(_WRONG)
    if not services.model_changes and request.method != "GET":
        raise HTTPException(403, _FIXED)


models_router = APIRouter(tags=["Models"], route_class=ApiRoute)
admin_router = APIRouter(tags=["Models"], route_class=AdminRoute, dependencies=[Depends(require_admin)])
health_router = APIRouter(tags=["Health"], route_class=ApiRoute)

_GUARDED: dict[str, Meaning] = {
    "s401": ("The admin key is missing or unknown.", ErrorExample("key_missing", _WRONG)),
    "s403": (
        "The key lacks the scope admin, or the server was started without PARLANCE_ADMIN_KEY.",
        ErrorExample("scope_missing", _USE),
    ),
}
_NOT_LOADED = ErrorExample(
    "unknown_model", "No model demo is loaded. Loaded: demo-de-en, demo-en-es, lyrics-zh.", "name"
)
_LOADING: dict[str, Meaning] = {
    "s409": "It is loaded already.",
    "s422": (
        "The folder cannot be served: `error` says which file is wrong; what was served before goes on.",
        ErrorExample(
            "checkpoint_refused",
            "checkpoints/demo-de-en/model.safetensors does not match its checksum; the model was not loaded.",
        ),
    ),
    "s503": "No device can load a model right now; Retry-After says when to try again.",
}


@models_router.get("/models", summary="List models", responses=documented())
async def models(services: ServicesDependency) -> list[ModelAnswer]:
    """Every loaded model, in the order in which requests without a model take them."""
    return [ModelAnswer.model_validate(info) for info in services.engine.models()]


@models_router.get(
    "/models/{name}/curves",
    summary="Curves of a training",
    responses=documented(
        s404=("No such model is loaded.", _NOT_LOADED), s503="Models are still loading; try again in a few seconds."
    ),
)
async def curves(name: PathName, services: ServicesDependency) -> CurvesAnswer:
    """Loss, held-out scores and learning rate over updates: the `metrics.jsonl` of the model's folder as it is now, so
    those of a run that still writes there grow. Without one, or where it cannot be used, `curves` is empty and `reason`
    says why. A curve has at most 500 points; more are thinned, and the first, last, least and greatest stay."""
    return CurvesAnswer.model_validate(await services.engine.curves(name))


@admin_router.post(
    "/models/{name}/load",
    summary="Load a model",
    responses=documented(
        **_GUARDED,
        s404=(
            "There is no such folder.",
            ErrorExample("unknown_model", "There is no folder demo among the checkpoints.", "name"),
        ),
        **_LOADING,
    ),
)
async def load_model(name: PathName, services: ServicesDependency) -> ChangeAnswer:
    """Serve a checkpoint folder that has come since the start. Answers when all devices have it."""
    return ChangeAnswer.model_validate(await services.engine.load_model(name))


@admin_router.post(
    "/models/{name}/reload",
    summary="Reload a model",
    responses=documented(
        **_GUARDED, s404=("No such model is loaded.", _NOT_LOADED), s422=_LOADING["s422"], s503=_LOADING["s503"]
    ),
)
async def reload_model(name: PathName, services: ServicesDependency) -> ChangeAnswer:
    """Serve a folder's new content under the same name. Requests in flight end on the old weights, new ones get the
    new; none fails. Needs the memory of both for a while."""
    return ChangeAnswer.model_validate(await services.engine.reload_model(name))


@admin_router.post(
    "/models/{name}/unload",
    summary="Unload a model",
    responses=documented(**_GUARDED, s404=("No such model is loaded.", _NOT_LOADED), s503=_LOADING["s503"]),
)
async def unload_model(name: PathName, services: ServicesDependency) -> ChangeAnswer:
    """Serve it no more, until it is loaded again. Answers when the requests that have it are done."""
    return ChangeAnswer.model_validate(await services.engine.unload_model(name))


@admin_router.post(
    "/models/import",
    summary="Import a model",
    status_code=202,
    responses=documented(
        **_GUARDED,
        s409=(
            "It is being imported already.",
            ErrorExample("model_conflict", "Helsinki-NLP/opus-mt-de-en is being imported already.", "model"),
        ),
        s422=(
            "It is no name of a model on the hub.",
            ErrorExample(
                "invalid_request",
                "'opus mt' is no name of a model on the hub: give one such as Helsinki-NLP/opus-mt-de-en or de-en.",
                "model",
            ),
        ),
    ),
)
async def import_model(
    services: ServicesDependency,
    model: Annotated[
        str,
        Query(
            description="A name on the Hugging Face Hub, the address of its page, or a pair that OPUS-MT has.",
            examples=["Helsinki-NLP/opus-mt-de-en", "de-en"],
            max_length=300,
        ),
    ],
) -> ImportAnswer:
    """Fetch a Marian model, such as one of OPUS-MT's, from the Hugging Face Hub, verify, convert and load it. Answers
    at once; GET /models/imports tells how far it is. A model that is there is fetched again only if it has changed."""
    return ImportAnswer.model_validate(await services.importer.start(model))


@admin_router.get("/models/imports", summary="List imports", responses=documented(**_GUARDED))
async def imports(services: ServicesDependency) -> list[ImportAnswer]:
    """The imports since the server's start, the newest first: at most the last 20."""
    return [ImportAnswer.model_validate(each) for each in await services.importer.imports()]


@admin_router.delete(
    "/models/imports/{number}",
    summary="Cancel an import",
    responses=documented(
        **_GUARDED, s404=("There is no such import.", ErrorExample("unknown_model", "There is no import 7.", "number"))
    ),
)
async def cancel_import(
    number: Annotated[int, Path(description="The `id` of the import.", ge=1, examples=[1])],
    services: ServicesDependency,
) -> ImportAnswer:
    """End an import that is running. What was downloaded completely stays in the hub's cache."""
    return ImportAnswer.model_validate(await services.importer.cancel(number))


@health_router.get(
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


@health_router.get(
    "/health/live", summary="Liveness", responses=documented(s503="The engine process of several front ends hangs.")
)
async def live(services: ServicesDependency) -> Health:
    """The server answers; when it does not, restart it."""
    if not getattr(services.engine, "alive", True):  # of an engine in another process
        raise EngineUnavailable("The engine process does not answer; restart the service.")
    return Health()


@health_router.get(
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


OPEN_METRICS = "application/openmetrics-text"

_PAGE: dict[str, object] = {
    "description": "Every series.",
    "content": {"text/plain": {"schema": {"type": "string"}}, OPEN_METRICS: {"schema": {"type": "string"}}},
}


@health_router.get("/metrics", summary="Metrics", response_class=Response, responses={200: _PAGE, **documented()})
async def metrics(request: Request, services: ServicesDependency) -> Response:
    """Prometheus' text format, or OpenMetrics where `Accept` asks for it; docs/serving.md lists every series."""
    open_metrics = OPEN_METRICS in request.headers.get("accept", "")
    page = await services.metrics.page(open_metrics)
    return Response(page, headers={"Content-Type": CONTENT_TYPE_LATEST if open_metrics else CONTENT_TYPE_PLAIN_0_0_4})


routers = (models_router, admin_router, health_router)
