"""The wiring of the service: settings, engine, limits, routes and middleware. `python -m app` serves it; `uvicorn
--factory app.main:create_app` does too, but ends with the signal's status."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app import logs
from app.access.authorization import AccessControl
from app.access.key_file import Caller, KeyRing, KeysUnreadable, key_digest
from app.access.memory_store import MemoryStore
from app.access.rate_limits import parse_quotas, parse_rates
from app.api.access_control import RATE_LIMIT_HEADERS
from app.api.deepl import glossary_routes
from app.api.deepl import routes as deepl
from app.api.deepl.schemas import DeepLError
from app.api.document_jobs import DocumentJobs
from app.api.errors import FamilyError, install_error_handlers
from app.api.extensions import routes as extensions
from app.api.foreign_pages import ForeignPages
from app.api.generation import routes as generation
from app.api.google import routes as google
from app.api.google.schemas import GoogleError
from app.api.inspection import routes as inspection
from app.api.libretranslate import routes as libretranslate
from app.api.middleware.fair_start import FairStart
from app.api.middleware.request_log import REQUEST_ID_HEADER, RequestLog
from app.api.openai import routes as openai
from app.api.openai.schemas import OpenAIErrorAnswer
from app.api.openapi_document import add_document, build_routes, complete_document
from app.api.operations import routes as operations
from app.api.operations.web_pages import add_docs, add_page
from app.api.request_body import RequestLimits
from app.api.responses import JsonAnswer
from app.api.route import ApiRouting
from app.api.services import KeylessUsage, Services, SharedParts
from app.engine.interface import Engine
from app.engine.metrics.collector import Metrics
from app.engine.registry.model_import import ModelImporter
from app.interpreter import shared_interpreter
from app.settings import Settings, load_settings
from app.storage.document_job_store import DocumentJobStore
from app.storage.glossary_store import GlossaryStore
from app.storage.suggestion_store import SuggestionStore
from app.storage.translated_file_store import TranslatedFileStore
from app.text.language_detection import Detector
from app.translation.cached_engine import TranslationCache
from app.translation.language_routes import LanguageRoutes
from app.translation.pivot_translator import PivotTranslator
from app.translation.text_translator import Translator
from parlance import __version__

if TYPE_CHECKING:
    from app.api.middleware.telemetry import RequestSpans  # needs the extra `otel`
    from app.engine.async_engine import AsyncEngine

ONE_FRONT_END = (
    "Parlance cannot start: PARLANCE_FRONT_ENDS is more than 1, and this program serves with one front end: leave the"
    " variable out, or serve with `python -m app` or `parlance serve`."
)
_ROUTERS = (
    libretranslate.router,
    generation.router,
    inspection.router,
    *operations.routers,
    libretranslate.settings_router,
    openai.router,
    deepl.router,
    glossary_routes.router,
    deepl.document_router,
    google.router,
    extensions.router,
    extensions.deeplx_router,
    extensions.deepl_router,
)
_ERROR_FORMS: dict[str, type[FamilyError]] = {  # below these paths, of unknown paths too
    "/v1": OpenAIErrorAnswer,
    "/v2": DeepLError,
    "/v3": DeepLError,
    "/v3/projects": GoogleError,  # as version 3 of Google's API has it
    "/language": GoogleError,
    "/google": GoogleError,
}

_DESCRIPTION = """\
Translate between your own language pairs, let character models write on, and look inside both. Every example here
works as it stands with the demo models: choose a route, "Try it out", "Execute".

**Keys.** A server with a keys file asks for a key: send it as the header `Authorization: Bearer KEY`. 401 means that
the key is missing or unknown, 403 that it is known and lacks the right.

**Errors.** Every error is one sentence that says what is wrong and what to change, in the same body:
`{"error", "code", "field", "request_id"}`; the routes of other protocols use their own bodies. `code` is stable, and
`request_id` is the header `X-Request-Id` of every answer: the one that the request has, or else a new one.

**Fields.** A field that a route does not have is refused with the nearest name; the routes of other protocols ignore
it, and LibreTranslate's `/translate` and `/detect` refuse it only where they take it for a misspelt one. null is the
same as a field that is left out. Places in texts count code points from 0, and ends are exclusive; log-probabilities
are in nats; times are in milliseconds where a name ends in `_ms`, and in seconds otherwise.

**Other programs.** Clients of LibreTranslate, OpenAI, DeepL and Google Translate and extensions of browsers work once
they point here: their groups are at the end, closed at first.
"""


def _protocol(name: str, description: str) -> dict[str, object]:
    """A group of the routes of another protocol, which /docs shows closed."""
    return {"name": name, "description": description, "x-protocol": True}


_TAGS: list[dict[str, object]] = [
    {"name": "Translate", "description": "Texts and files, and the languages that are loaded."},
    {"name": "Generate", "description": "Continue a text with a character model."},
    {
        "name": "Inspect",
        "description": "What a model does with a text: attention, gates, every number of a pass, scores.",
    },
    {"name": "Models", "description": "What is loaded; load, reload and unload it."},
    {"name": "Health", "description": "Whether the server is well, for monitors and orchestrators."},
    _protocol("LibreTranslate", "What its clients ask beside the routes of Translate, which are its own."),
    _protocol("OpenAI", "What the SDKs of OpenAI ask of character models."),
    _protocol("DeepL", "What the SDKs of DeepL ask: texts, documents, glossaries."),
    _protocol("Google", "What clients of Google's Translation API v2 ask."),
    _protocol("Extensions", "What translators in browsers ask."),
]


def create_app(
    settings: Settings | None = None, engine: Engine | None = None, shared: SharedParts | None = None
) -> FastAPI:
    """The service. Without arguments: settings from the environment, and an engine of device processes. shared: of a
    front-end process, whose engine is in another one; by default this app has them for itself."""
    settings = settings or load_settings()
    logs.set_up_logging(settings.log_level, settings.log_format)
    metrics = Metrics() if shared is None else shared.metrics
    counts = usage_counts(settings, metrics) if shared is None else shared.counts
    access = _access_control(settings, counts)
    if engine is None:
        if settings.front_ends > 1:
            raise SystemExit(ONE_FRONT_END)
        engine = create_engine(settings, metrics)
    metrics.watch(engine)
    if shared is None:
        shared = shared_parts(settings, engine, metrics, counts)
    spans = _request_spans(settings)
    app = FastAPI(
        title="Parlance",
        version=__version__,
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,  # short names in generated clients
        redirect_slashes=False,  # a redirect would be built from a Host header that anyone can send
        lifespan=_lifespan,
        default_response_class=JsonAnswer,
    )
    files = TranslatedFileStore(settings.data, settings.file_retention_s, settings.max_kept_files_bytes)
    routes = LanguageRoutes(engine, pivoting=settings.pivot)
    services = app.state.services = Services(
        engine=engine,
        importer=shared.importer,
        routes=routes,
        translator=PivotTranslator(Translator(engine, TranslationCache(settings.cache_mb * 1_000_000)), routes),
        detector=Detector(),
        limits=settings.section(RequestLimits),
        metrics=metrics,
        access=access,
        files=files,
        glossaries=GlossaryStore(settings.data),
        usage=shared.usage,
        documents=DocumentJobs(files, DocumentJobStore(settings.data, settings.file_retention_s), settings.front_ends),
        suggestions=SuggestionStore(settings.data) if settings.suggestions else None,
        model_changes=settings.model_changes,
        public_url=settings.public_url,
    )
    app.state.spans = spans
    for router in _ROUTERS:
        app.include_router(router)
    complete_document(app, _routes(), keys_used=services.access.keys_used, key_required=services.access.key_required)
    add_document(app)
    add_docs(app)
    add_page(app)
    install_error_handlers(app, _ERROR_FORMS)
    _add_middleware(app, settings, services, spans)
    return app


def create_engine(settings: Settings, metrics: Metrics) -> AsyncEngine:
    """An engine of device processes, which `start` starts. SystemExit where the settings name no usable device, or pin
    processes that cannot be pinned."""
    from app.engine.async_engine import AsyncEngine  # here: tests and front-end processes need no device processes
    from app.engine.dispatch.cpu_pinning import CannotPin
    from app.engine.dispatch.placement import NoDevice
    from app.engine.interface import EngineSettings

    try:
        return AsyncEngine(settings.section(EngineSettings), metrics)
    except (NoDevice, CannotPin) as error:
        print(f"Parlance cannot start: {error}", file=sys.stderr)  # noqa: T201
        raise SystemExit(2) from None


def usage_counts(settings: Settings, metrics: Metrics) -> MemoryStore:
    """What limits and quotas are counted in: in memory, or in the Redis that the settings name."""
    if url := settings.redis_url.get_secret_value():
        from app.access.redis_store import RedisStore  # few services have several servers

        return RedisStore(url, metrics.sharing_failed)
    return MemoryStore()


def shared_parts(settings: Settings, engine: Engine, metrics: Metrics, counts: MemoryStore) -> SharedParts:
    """The parts of a service whose engine is in this process."""
    importer = ModelImporter(
        settings.checkpoints,
        load=lambda name: engine.load_model(name),
        reload=lambda name: engine.reload_model(name),
        loaded=lambda name: any(model.name == name for model in engine.models()),
    )
    return SharedParts(metrics, counts, KeylessUsage(), importer)


def _routes() -> list[BaseRoute]:
    return [route for router in _ROUTERS for route in router.routes]


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the engine (models load in the background) and drain it at the end; engines of tests need neither."""
    services: Services = app.state.services
    if start := getattr(services.engine, "start", None):
        await start()
    await run_in_threadpool(build_routes, app)
    expiring = asyncio.create_task(services.files.expire())
    try:
        async with shared_interpreter():
            yield
    finally:
        expiring.cancel()
        await services.importer.stop()
        await services.documents.close()
        if stop := getattr(services.engine, "stop", None):
            await stop()
        await services.access.close()
        if app.state.spans is not None:
            await run_in_threadpool(app.state.spans.close)


def _access_control(settings: Settings, counts: MemoryStore) -> AccessControl:
    """A wrong keys file ends the start: otherwise no key would work, and no operator would know."""
    admin_key = settings.admin_key.get_secret_value()
    operator = Caller("admin", key_digest(admin_key), frozenset({"use", "admin"}), rates=(), quotas=())
    try:
        keys = KeyRing(Path(settings.keys_file) if settings.keys_file else None, [operator] if admin_key else ())
    except KeysUnreadable as error:
        raise SystemExit(f"Parlance cannot start: {error}") from None
    return AccessControl(
        counts,
        keys,
        keys_used=bool(settings.keys_file),
        key_required=settings.key_required,
        rates=parse_rates(settings.rate_limit),
        quotas=parse_quotas(settings.quota),
    )


def _request_spans(settings: Settings) -> RequestSpans | None:
    """None where the settings name no collector. SystemExit with a sentence where OpenTelemetry is missing."""
    if not settings.otlp_endpoint:
        return None
    try:
        from app.api.middleware import telemetry
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("opentelemetry"):
            raise
        raise SystemExit(
            "Parlance cannot start: PARLANCE_OTLP_ENDPOINT needs OpenTelemetry; install it with"
            " pip install 'parlance[otel]'."
        ) from None
    return telemetry.request_spans(settings.otlp_endpoint, __version__)


def _add_middleware(app: FastAPI, settings: Settings, services: Services, spans: RequestSpans | None) -> None:
    """From the inside out: every refusal has a request id and is logged, and allowed pages can read all of it."""
    foreign = ForeignPages(
        origins=settings.cors_origins,
        public_url=settings.public_url,
        hosts=settings.allowed_hosts,
        proxied=bool(settings.trusted_proxies),
    )
    app.add_middleware(ApiRouting, routes=_routes(), limits=services.limits, foreign=foreign)
    app.add_middleware(FairStart)
    app.add_middleware(RequestLog, metrics=services.metrics, enabled=settings.request_log, spans=spans)
    if settings.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=settings.trusted_proxies)
    if origins := [origin for origin in settings.cors_origins.split(",") if origin]:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],  # OpenAI's client sends a dozen of its own; `allow_origins` is the restriction
            expose_headers=[REQUEST_ID_HEADER, "Retry-After", *RATE_LIMIT_HEADERS],
        )
