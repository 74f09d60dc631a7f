"""GET /models and its curves, loading and unloading; /health, /health/live, /health/ready; /metrics."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from app.access.authorization import KeyMissing, KeyWrong, ScopeMissing
from app.api.access_control import charge, given_keys
from app.api.errors import ErrorExample, Meaning, documented
from app.api.request_fields import PathName, doc, example_of
from app.api.responses import Answer, copied, round_floats
from app.api.route import ApiRoute
from app.api.services import ServicesDependency
from app.engine.interface import ModelChange, ModelInfo
from app.errors import EngineUnavailable

SCORE_DECIMALS = 6


class Health(Answer):
    """The process answers."""

    status: Literal["ok"] = doc('Always "ok".', "ok", default="ok")


class Readiness(Answer):
    """Whether requests can be answered, and what is less than whole."""

    ready: bool = doc("Whether at least one device can answer requests.", True)
    devices: dict[str, str] = doc(
        'State of each device: "ready", "starting", "restarting" or "stopped".', {"cpu": "ready"}
    )
    models: int = doc("Number of loaded models.", 2)
    problems: list[str] = doc(
        "One sentence for each checkpoint that was not loaded and each device that is down.",
        ["checkpoints/everyday/model.safetensors does not match its checksum; the model was not loaded."],
    )


class LanguagePairAnswer(Answer):
    """One direction of a translator."""

    source: str = doc("Code, as POST /translate takes it.", "de")
    target: str = doc("Code, as POST /translate takes it.", "en")


class DemoAnswer(Answer):
    """What a model that comes with Parlance knows, and how to get others."""

    summary: str = doc("One sentence for people.", "It has read 43,395 everyday sentences in four languages.")
    words: int = doc("How many different words it was trained on; of a lyricist, characters.", 50_000)
    patterns: int = doc("How many sentences it was trained on; of a lyricist, songs.", 43_395)
    examples: list[str] = doc("Texts to try.", ["Guten Morgen, ich wohne in Berlin."])
    way_out: str = doc("How to get a model for real use, with the command.", "make serve MODEL=de-en")


class ModelAnswer(Answer):
    """One loaded checkpoint."""

    name: str = doc("Name to use in requests.", "everyday")
    version: int = doc("Counts how often this name was loaded since the server's start; a reload makes it grow.", 1)
    kind: Literal["translator", "lyrics"] = doc("What it does.", "translator")
    architecture: str = doc("What network it is.", "transformer")
    parameters: int = doc("Number of weights.", 44_140_544)
    source_language: str | None = doc("Code; null for lyricists and multilingual translators.", "de")
    target_language: str | None = doc("Code; null for lyricists and multilingual translators.", "en")
    language_pairs: list[LanguagePairAnswer] = doc(
        "Every pair that a translator serves; one, unless it is multilingual.", [{"source": "de", "target": "en"}]
    )
    vocabulary: int = doc("Number of tokens it knows.", 8000)
    max_source_tokens: int | None = doc("Longest source it takes, in tokens; null where nothing limits it.", 256)
    max_new_tokens: int = doc("Most tokens it writes for one request.", 256)
    devices: list[str] = doc("Where it is loaded.", ["cpu"])
    precision: str | None = doc(
        "What it decodes in: fp32, bf16, fp16 or int8, with `native` behind it where the kernels of this"
        " project compute it; of devices that differ all, with commas. Looks inside are in fp32. Null while no device"
        " has it.",
        "int8 native",
    )
    precision_reason: str | None = doc(
        "Which backend computes it and why; for the kernels in C, whether a vocabulary shortlist shortens a step or why"
        " there is none; and a warning where the code of its network is not that of its training. Null while no device"
        " has it.",
        "kernels in C, int8: it is exactly the network that our kernels compute; no vocabulary shortlist: an output"
        " matrix of 1,216 × 128 gains nothing from a shortlist",
    )
    licence: str | None = doc("As the model card in its folder (`README.md`) says; null where none does.", "cc-by-4.0")
    loaded_at: datetime = doc("When this version was read from its folder, in UTC.", "2026-11-22T05:12:09Z")
    scores: dict[str, Any] = doc("What it scored when it was trained, as its model card says.", {"BLEU": 39.1})
    demo: DemoAnswer | None = doc("Of a model that comes with Parlance, what it knows; null for others.", None)
    order: Literal["named", "name", "demo"] = doc(
        "Why it has this place in the list, whose first model of a pair answers requests that name none: those that"
        ' PARLANCE_MODELS names, in its order; then others by "name"; those that come with Parlance, "demo", last.',
        "name",
    )

    @classmethod
    def of(cls, info: ModelInfo) -> Self:
        fields = {name: getattr(info, name) for name in cls.model_fields}
        fields["scores"] = round_floats(info.scores, SCORE_DECIMALS)
        pairs = [LanguagePairAnswer(source=source, target=target) for source, target in info.language_pairs]
        return copied({**fields, "language_pairs": pairs}, cls)


class ChangeAnswer(Answer):
    """A model that was loaded, reloaded or unloaded."""

    model: ModelAnswer = doc(
        "The model as GET /models shows it; `devices` is empty when it was unloaded.",
        example_of(ModelAnswer, version=2),
    )
    seconds: float = doc("How long it took.", 0.31)

    @classmethod
    def of(cls, change: ModelChange) -> Self:
        return cls(model=ModelAnswer.of(change.model), seconds=round(change.seconds, 3))


class ImportAnswer(Answer):
    """An import of a model from the Hugging Face Hub."""

    id: int = doc("Number of the import, counted from the server's start.", 1)
    model: str = doc("As it was asked for.", "de-en")
    state: Literal["running", "done", "failed", "cancelled"] = doc('"done": it is loaded.', "running")
    stage: Literal["start", "look_up", "download", "verify", "convert", "load"] = doc(
        "What is being done, or was when it ended.", "download"
    )
    name: str | None = doc("Name to use in requests; null until it is known.", None)
    bytes: int = doc("Of this stage, so far; 0 where it is not counted in bytes.", 104_857_600)
    total: int = doc("Bytes of this stage; 0 where it is not counted in bytes.", 297_722_613)
    seconds: float = doc("Since the stage began.", 8.4)
    seconds_left: float | None = doc("Of this stage, at its mean speed; null while it is not known.", 15.4)
    error: str | None = doc("Why it failed, in one sentence; null otherwise.", None)
    note: str | None = doc("What one should know of it, such as a second download; usually null.", None)

    def __post_init__(self) -> None:
        self.seconds = round(self.seconds, 3)
        self.seconds_left = self.seconds_left and round(self.seconds_left, 1)


class CurveAnswer(Answer):
    """One quantity over updates; the n-th members of its lists belong together."""

    name: Literal["loss", "valid_loss", "valid_bleu", "rate"] = doc(
        "As the run wrote it: of training, of held-out data (`valid_`), or the learning rate.", "loss"
    )
    what: str = doc("The same in words.", "training loss")
    unit: str | None = doc("Unit of the values; null for the learning rate.", "nats per token")
    updates: list[int] = doc("After how many steps of the optimizer, in ascending order.", [50, 100, 111])
    epochs: list[int | None] = doc("In which epoch, counted from 0; null where the run did not say.", [0, 0, 0])
    values: list[float | None] = doc(
        "To 6 digits; null for what was not a number or not finite.", [5.14067, 2.19661, 0.691843]
    )
    measured: int = doc("How many points there were before thinning.", 3)


class CurvesAnswer(Answer):
    """How a model was trained."""

    model: str = doc("Which model.", "everyday")
    curves: list[CurveAnswer] = doc(
        "Those that the run measured, in the order loss, valid_loss, valid_bleu, rate; may be empty.",
        [example_of(CurveAnswer)],
    )
    left_out: int = doc("Lines of the file that are neither a measurement nor an event, such as a torn one.", 0)
    reason: str | None = doc(
        "Why there is no curve, and what to do; null where there is one.",
        "everyday has no metrics.jsonl, which a training run leaves in its folder; put it there.",
    )


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


models_router = APIRouter(route_class=ApiRoute)
admin_router = APIRouter(route_class=AdminRoute, dependencies=[Depends(require_admin)])
health_router = APIRouter(route_class=ApiRoute)

_GUARDED: dict[str, Meaning] = {
    "s401": ("The admin key is missing or unknown.", ErrorExample("key_missing", _WRONG)),
    "s403": (
        "The key lacks the scope admin, or the server was started without PARLANCE_ADMIN_KEY.",
        ErrorExample("scope_missing", _USE),
    ),
}
_NOT_LOADED = ErrorExample("unknown_model", "No model demo is loaded. Loaded: everyday, lyrics-zh.", "name")
_LOADING: dict[str, Meaning] = {
    "s409": "It is loaded already.",
    "s422": (
        "The folder cannot be served: `error` says which file is wrong; what was served before goes on.",
        ErrorExample(
            "checkpoint_refused",
            "checkpoints/everyday/model.safetensors does not match its checksum; the model was not loaded.",
        ),
    ),
    "s503": "No device can load a model right now; Retry-After says when to try again.",
}


@models_router.get("/models", summary="List models", responses=documented())
async def models(services: ServicesDependency) -> list[ModelAnswer]:
    """Every loaded model, in the order in which requests without a model take them."""
    return [ModelAnswer.of(info) for info in services.engine.models()]


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
    return copied(await services.engine.curves(name), CurvesAnswer)


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
    return ChangeAnswer.of(await services.engine.load_model(name))


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
    return ChangeAnswer.of(await services.engine.reload_model(name))


@admin_router.post(
    "/models/{name}/unload",
    summary="Unload a model",
    responses=documented(**_GUARDED, s404=("No such model is loaded.", _NOT_LOADED), s503=_LOADING["s503"]),
)
async def unload_model(name: PathName, services: ServicesDependency) -> ChangeAnswer:
    """Serve it no more, until it is loaded again. Answers when the requests that have it are done."""
    return ChangeAnswer.of(await services.engine.unload_model(name))


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
    return copied(await services.importer.start(model), ImportAnswer)


@admin_router.get("/models/imports", summary="List imports", responses=documented(**_GUARDED))
async def imports(services: ServicesDependency) -> list[ImportAnswer]:
    """The imports since the server's start, the newest first: at most the last 20."""
    return copied(await services.importer.imports(), list[ImportAnswer])


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
    return copied(await services.importer.cancel(number), ImportAnswer)


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


@health_router.get("/health/live", summary="Liveness", responses=documented())
async def live() -> Health:
    """The server answers; when it does not, restart it."""
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
    rest serves, and `problems` says what is missing. 503 before that, without any device, while a model that the server
    was told to serve cannot be had, and from SIGTERM on."""
    status = services.engine.status()
    response.status_code = 200 if status.ready else 503
    readiness = copied(status, Readiness)
    if services.storage_problem:
        readiness.problems.append(services.storage_problem)
    return readiness


OPEN_METRICS = "application/openmetrics-text"

_PAGE: dict[str, object] = {
    "description": "Every series.",
    "content": {"text/plain": {"schema": {"type": "string"}}, OPEN_METRICS: {"schema": {"type": "string"}}},
}


@health_router.get("/metrics", summary="Metrics", response_class=Response, responses={200: _PAGE, **documented()})
async def metrics(request: Request, services: ServicesDependency) -> Response:
    """Prometheus' text format, or OpenMetrics where `Accept` asks for it; docs/metrics.md lists every series."""
    open_metrics = OPEN_METRICS in request.headers.get("accept", "")
    page = services.metrics.page(open_metrics)
    return Response(page, headers={"Content-Type": CONTENT_TYPE_LATEST if open_metrics else CONTENT_TYPE_PLAIN_0_0_4})
