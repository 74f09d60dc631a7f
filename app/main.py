"""The wiring of the service: settings, engine, limits, routes and middleware. `python -m app` serves it; `uvicorn
--factory app.main:create_app` does too, within the same limits of connections, but ends with the signal's status."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app import logs
from app.access.authorization import AccessControl
from app.access.key_file import Caller, KeyRing, KeysUnreadable, key_digest
from app.access.rate_limits import MemoryStore, parse_quotas, parse_rates
from app.api.access_control import RATE_LIMIT_HEADERS
from app.api.document_jobs import DocumentJobs
from app.api.errors import install_error_handlers
from app.api.families import FAMILIES, all_routes, error_form
from app.api.foreign_pages import ForeignPages
from app.api.openapi_document import add_document, build_routes, complete_document
from app.api.request_body import RequestLimits
from app.api.request_log import REQUEST_ID_HEADER, RequestLog
from app.api.responses import JsonAnswer
from app.api.route import ApiRouting, FairStart
from app.api.services import KeylessUsage, Services
from app.api.web_pages import add_docs, add_page
from app.connection_limits import ConnectionLimits, guard_running_server
from app.engine.interface import Engine
from app.engine.metrics import Metrics
from app.engine.registry.model_import import ModelImporter
from app.interpreter import shared_interpreter
from app.settings import Settings, load_settings
from app.storage.data_folder import data_folder_problem
from app.storage.document_job_store import DocumentJobStore
from app.storage.glossary_store import GlossaryStore
from app.storage.translated_file_store import TranslatedFileStore
from app.text.language_detection import Detector
from app.translation.cached_engine import TranslationCache
from app.translation.driver import Translator
from app.translation.pivot import LanguageRoutes, PivotTranslator
from parlance import __version__

if TYPE_CHECKING:
    from app.api.telemetry import RequestSpans  # needs the extra `otel`
    from app.engine.async_engine import AsyncEngine

log = logging.getLogger(__name__)

UNGUARDED = (
    "Parlance cannot guard the connections of the program that serves it here: nothing limits their number, their"
    " headers and the time that these take. Serve with `parlance serve` or `python -m app`, with uvicorn over HTTP/1.1,"
    " or behind a proxy that has such limits."
)
_DESCRIPTION = """\
Translate between your own language pairs, let character models write on, and look inside both. Every example here
works as it stands with the models that come with Parlance: choose a route, "Try it out", "Execute".

**Keys.** A server with a keys file asks for a key: send it as the header `Authorization: Bearer KEY`. 401 means that
the key is missing or unknown, 403 that it is known and lacks the right.

**Errors.** Every error is one sentence that says what is wrong and what to change, in the same body:
`{"error", "code", "field", "request_id"}`; the routes of other protocols use their own bodies. `code` is stable, and
`request_id` is the header `X-Request-Id` of every answer: the one that the request has, or else a new one.

**Fields.** A misspelt field, and an option of another program that could change the answer, are refused everywhere; any
other field that a route does not have is refused by our own routes, and ignored by those of other protocols,
`/translate` and `/detect` among them. null is the same as a field that is left out. Places in texts count code points
from 0, and ends are exclusive; log-probabilities are in nats; times are in milliseconds where a name ends in `_ms`,
and in seconds otherwise.

**Other programs.** Clients of LibreTranslate, OpenAI, DeepL and Google Translate and extensions of browsers work once
they point here: their groups are at the end, closed at first.
"""


def create_app(settings: Settings | None = None, engine: Engine | None = None) -> FastAPI:
    """The service. Without arguments: settings from the environment, and an engine of device processes."""
    started_by_another_program = settings is None
    settings = settings or load_settings()
    logs.set_up_logging(settings.log_level, settings.log_format)
    metrics = Metrics()
    access = _access_control(settings, metrics)
    engine = engine or create_engine(settings, metrics)
    metrics.watch(engine)
    spans = _request_spans(settings)
    app = FastAPI(
        title="Parlance",
        version=__version__,
        description=_DESCRIPTION,
        openapi_tags=[
            {"name": each.name, "description": each.description} | ({"x-protocol": True} if each.protocol else {})
            for each in FAMILIES
        ],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,  # short names in generated clients
        redirect_slashes=False,  # a redirect would be built from a Host header that anyone can send
        lifespan=_lifespan,
        default_response_class=JsonAnswer,
    )
    if storage_problem := data_folder_problem(settings.data):
        log.error("%s", storage_problem)
    files = TranslatedFileStore(settings.data, settings.file_retention_s, settings.max_kept_files_bytes)
    routes = LanguageRoutes(engine, pivoting=settings.pivot)
    services = app.state.services = Services(
        engine=engine,
        importer=_importer(settings, engine),
        routes=routes,
        translator=PivotTranslator(Translator(engine, TranslationCache(settings.cache_mb * 1_000_000)), routes),
        detector=Detector(),
        limits=settings.section(RequestLimits),
        metrics=metrics,
        access=access,
        files=files,
        glossaries=GlossaryStore(settings.data),
        usage=KeylessUsage(),
        documents=DocumentJobs(files, DocumentJobStore(settings.data, settings.file_retention_s)),
        model_changes=settings.model_changes,
        public_url=settings.public_url,
        storage_problem=storage_problem,
    )
    app.state.spans = spans
    app.state.guarded_by = settings.section(ConnectionLimits) if started_by_another_program else None
    for family in FAMILIES:
        for router in family.routers:
            app.include_router(router, tags=[family.name])
    complete_document(app, all_routes(), keys_used=services.access.keys_used, key_required=services.access.key_required)
    add_document(app)
    add_docs(app)
    add_page(app)
    install_error_handlers(app, error_form)
    _add_middleware(app, settings, services, spans)
    return app


def create_engine(settings: Settings, metrics: Metrics) -> AsyncEngine:
    """An engine of device processes, which `start` starts. SystemExit where the settings name no usable device."""
    from app.engine.async_engine import AsyncEngine  # here: most tests need no device processes
    from app.engine.dispatch.placement import NoDevice
    from app.engine.interface import EngineSettings

    try:
        return AsyncEngine(settings.section(EngineSettings), metrics)
    except NoDevice as error:
        print(f"Parlance cannot start: {error}", file=sys.stderr)  # noqa: T201
        raise SystemExit(2) from None


def _usage_counts(settings: Settings, metrics: Metrics) -> MemoryStore:
    """What limits and quotas are counted in: in memory, or in the Redis that the settings name."""
    if url := settings.redis_url.get_secret_value():
        from app.access.redis_store import RedisStore  # few services have several servers

        return RedisStore(url, metrics.sharing_failed)
    return MemoryStore()


def _importer(settings: Settings, engine: Engine) -> ModelImporter:
    return ModelImporter(
        settings.checkpoints,
        load=lambda name: engine.load_model(name),
        reload=lambda name: engine.reload_model(name),
        loaded=lambda name: any(model.name == name for model in engine.models()),
    )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the engine (models load in the background) and drain it at the end; engines of tests need neither."""
    services: Services = app.state.services
    limits: ConnectionLimits | None = app.state.guarded_by
    if limits is not None and not guard_running_server(limits, services.metrics):
        logging.getLogger(__name__).warning(UNGUARDED)
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


def _access_control(settings: Settings, metrics: Metrics) -> AccessControl:
    """A wrong keys file ends the start: otherwise no key would work, and no operator would know."""
    admin_key = settings.admin_key.get_secret_value()
    operator = Caller("admin", key_digest(admin_key), frozenset({"use", "admin"}), rates=(), quotas=())
    try:
        keys = KeyRing(Path(settings.keys_file) if settings.keys_file else None, [operator] if admin_key else ())
    except KeysUnreadable as error:
        raise SystemExit(f"Parlance cannot start: {error}") from None
    return AccessControl(
        _usage_counts(settings, metrics),
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
        from app.api import telemetry
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
    app.add_middleware(ApiRouting, routes=all_routes(), limits=services.limits, foreign=foreign)
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
