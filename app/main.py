"""The only place where the service is wired: settings, engine, limits, routes and middleware.

`python -m app` serves it; `uvicorn --factory app.main:create_app` does too, but ends with the signal's status.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app import logs
from app.access.authorization import AccessControl
from app.access.key_file import Caller, KeyRing, KeysUnreadable, stored_key
from app.access.memory_store import MemoryStore, UsageStore
from app.access.rate_limits import parse_quotas, parse_rates
from app.api import access_control
from app.api.deepl import deepl_routes, glossary_routes
from app.api.document_jobs import DocumentJobs
from app.api.errors import install_error_handlers
from app.api.extensions import extensions_routes
from app.api.generation import generation_routes
from app.api.google import google_routes
from app.api.inspection import inspection_routes
from app.api.libretranslate import libretranslate_routes
from app.api.middleware.access_log import AccessLog
from app.api.middleware.body_limit import BodyLimit
from app.api.middleware.fair_start import FairStart
from app.api.middleware.head_requests import HeadRequests
from app.api.middleware.request_id import REQUEST_ID_HEADER, RequestId
from app.api.openai import openai_routes
from app.api.operations import operations_routes
from app.api.operations.operations_routes import RequestCounter
from app.api.operations.web_pages import add_docs, add_page
from app.api.route import DirectRouting
from app.api.services import KeylessUsage, Limits, Services
from app.engine.interface import Engine
from app.engine.metrics.collector import Metrics
from app.engine.metrics.request_work import CountingEngine
from app.settings import Settings, SettingsError, load_settings
from app.storage.glossary_store import GlossaryStore
from app.storage.suggestion_store import SuggestionStore
from app.storage.translated_file_store import TranslatedFileStore
from app.text.language_detection import Detector
from app.translation.cached_engine import TranslationCache
from app.translation.text_translator import Translator


class Telemetry(NamedTuple):
    """engine: counts what it does for each request. around: what surrounds the routes. close: sends what is left."""

    engine: Engine
    around: Callable[[ASGIApp], ASGIApp]
    close: Callable[[], None]


def telemetry_of(settings: Settings, engine: Engine, version: str) -> Telemetry | None:
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
    spans = telemetry.request_spans(settings.otlp_endpoint, version)
    if spans is None:
        return None
    around = partial(telemetry.TracedRequests, spans=spans)
    return Telemetry(cast(Engine, CountingEngine(engine)), around, spans.close)


VERSION = "0.1.0"
_LARGEST_BEAM = 64
_DEEPL_ROUTERS = (
    deepl_routes.router,
    deepl_routes.account_router,
    glossary_routes.router,
    glossary_routes.multilingual_router,
    deepl_routes.document_router,
)
_EXTENSION_ROUTERS = (
    extensions_routes.imme_router,
    extensions_routes.kiss_router,
    extensions_routes.hcfy_router,
    extensions_routes.deeplx_router,
    extensions_routes.deepl_router,
    google_routes.router,
)
_ROUTERS = (
    libretranslate_routes.router,
    libretranslate_routes.language_router,
    libretranslate_routes.file_router,
    libretranslate_routes.suggestion_router,
    generation_routes.router,
    inspection_routes.attention_router,
    inspection_routes.walkthrough_router,
    inspection_routes.gates_router,
    inspection_routes.score_router,
    openai_routes.router,
    openai_routes.models_router,
    operations_routes.models_router,
    operations_routes.health_router,
    operations_routes.metrics_router,
    *_DEEPL_ROUTERS,
    *_EXTENSION_ROUTERS,
)

_DESCRIPTION = """\
Translate between your own language pairs, let character models write on, and look inside both.

Every error is one sentence that says what to change, in the same body:
`{"error", "code", "field", "request_id"}`. Every answer has the header `X-Request-Id`, the caller's own where
it sends one.
"""
_TAGS = [
    {"name": "Translate", "description": "What every LibreTranslate client speaks."},
    {"name": "DeepL", "description": "What DeepL's clients speak, and stored glossaries."},
    {"name": "Extensions", "description": "What translators in browsers speak."},
    {"name": "Generate", "description": "Continue a text with a character model."},
    {"name": "OpenAI", "description": "What OpenAI's clients speak, for the lyricists."},
    {"name": "Inspect", "description": "Look at what a model does with a sentence."},
    {"name": "Models", "description": "What is loaded; load, reload and unload it."},
    {"name": "Health", "description": "For those who operate the server."},
]


def create_app(settings: Settings | None = None, engine: Engine | None = None) -> FastAPI:
    """The service. Without arguments: settings from the environment, and a pool of device processes."""
    settings = settings or load_settings_or_exit()
    logs.set_up_logging(settings.log_level, settings.log_format)
    counted = Metrics()
    gate = _gate(settings, counted)
    engine = engine or _engine(settings, counted)
    counted.watch(engine)
    tracing = telemetry_of(settings, engine, VERSION)
    if tracing is not None:
        engine = tracing.engine
    app = FastAPI(
        title="Parlance",
        version=VERSION,
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,  # short names in generated clients
        redirect_slashes=False,  # a redirect would be built from a Host header that anyone can send
        lifespan=_lifespan,
    )
    kept = TranslatedFileStore(settings.data, settings.file_retention_s, settings.max_kept_files_bytes)
    app.state.services = Services(
        engine,
        Translator(engine, TranslationCache(settings.cache_mb * 1_000_000)),
        Detector(),
        _limits(settings),
        settings.request_timeout_s,
        counted,
        gate,
        kept,
        GlossaryStore(settings.data),
        KeylessUsage(),
        DocumentJobs(kept),
        SuggestionStore(settings.data) if settings.suggestions else None,
        settings.public_url,
    )
    app.state.close_tracing = tracing.close if tracing else None
    for router in _ROUTERS:
        app.include_router(router)
    add_docs(app)
    add_page(app)
    install_error_handlers(app)
    _add_middleware(app, settings, counted, tracing)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the engine (models load in the background) and drain it at the end; test engines need neither."""
    engine = app.state.services.engine
    if start := getattr(engine, "start", None):
        await start()
    freeze_garbage_collector()
    expiring = asyncio.create_task(app.state.services.files.expire())
    try:
        yield
    finally:
        expiring.cancel()
        await app.state.services.documents.close()
        if stop := getattr(engine, "stop", None):
            await stop()
        await app.state.services.gate.close()
        if close := app.state.close_tracing:
            await run_in_threadpool(close)


def freeze_garbage_collector() -> None:
    """What is there now stays to the end. A full collection would walk through all of it, 65 ms in which nobody is
    answered, and a burst of requests sets one off."""
    gc.collect()
    gc.freeze()


def load_settings_or_exit() -> Settings:
    """A server that is set up wrongly ends with the sentence alone: nobody needs the traceback."""
    try:
        return load_settings()
    except SettingsError as error:
        raise SystemExit(str(error)) from None


def _gate(settings: Settings, counted: Metrics) -> AccessControl:
    """A keys file that is wrong at the start ends it: nobody would know that no key works."""
    admin_key = settings.admin_key.get_secret_value()
    operator = Caller("admin", scopes=frozenset({"use", "admin"}), rates=(), quotas=())
    try:
        path = Path(settings.keys_file) if settings.keys_file else None
        keys = KeyRing(path, [stored_key(admin_key, operator)] if admin_key else ())
    except KeysUnreadable as error:
        raise SystemExit(f"Parlance cannot start: {error}") from None
    return AccessControl(
        _counts(settings, counted),
        keys,
        keys_used=bool(settings.keys_file),
        key_required=settings.key_required,
        rates=parse_rates(settings.rate_limit),
        quotas=parse_quotas(settings.quota),
    )


def _counts(settings: Settings, counted: Metrics) -> UsageStore:
    if url := settings.redis_url.get_secret_value():
        from app.access.redis_store import RedisStore  # imported here: few servers are several

        return RedisStore(url, counted.sharing_failed)
    return MemoryStore()


def _engine(settings: Settings, counted: Metrics) -> Engine:
    # Imported here, because tests and documentation need no device processes.
    from app.engine.async_engine import AsyncEngine
    from app.engine.engine_settings import EngineSettings

    return AsyncEngine(
        EngineSettings(
            checkpoints=settings.checkpoints,
            devices=settings.devices,
            cpu_threads=settings.cpu_threads,
            cpu_workers=settings.cpu_workers,
            precision=settings.precision,
            slots_per_model=settings.slots_per_model,
            max_inflight_requests=settings.max_inflight_requests,
            max_queued_source_tokens=settings.max_queued_source_tokens,
            max_queue_age_s=settings.max_queue_age_s,
            request_timeout_s=settings.request_timeout_s,
            stream_interval_ms=settings.stream_interval_ms,
            beam_size=settings.beam_size,
            length_penalty=settings.length_penalty,
            max_new_tokens=settings.max_new_tokens,
            drain_timeout_s=settings.drain_timeout_s,
            worker_start_timeout_s=settings.worker_start_timeout_s,
            worker_hang_timeout_s=settings.worker_hang_timeout_s,
            prefill_tokens=settings.prefill_tokens,
            log_level=settings.log_level,
            log_format=settings.log_format,
        ),
        counted,
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        max_batch_texts=settings.max_batch_texts,
        max_text_characters=settings.max_text_characters,
        max_alternatives=settings.max_alternatives,
        max_new_tokens=settings.max_new_tokens,
        max_samples=settings.max_samples,
        max_attention_values=settings.max_attention_values,
        max_beam_size=min(_LARGEST_BEAM, settings.slots_per_model),  # each hypothesis takes a slot
    )


def _add_middleware(app: FastAPI, settings: Settings, counted: Metrics, tracing: Telemetry | None) -> None:
    """From the inside out: refusals of large bodies have a request id, and all of it is open to allowed pages."""
    app.add_middleware(
        DirectRouting,
        routers=[
            libretranslate_routes.router,
            generation_routes.router,
            openai_routes.router,
            *_DEEPL_ROUTERS,
            *_EXTENSION_ROUTERS,
        ],
    )
    uploads = dict.fromkeys(("/translate_file", "/v2/document"), settings.max_file_bytes)
    app.add_middleware(
        BodyLimit,
        max_body_bytes=settings.max_body_bytes,
        max_pause_s=settings.request_timeout_s,
        uploads=uploads,
        routers=_ROUTERS,
    )
    app.add_middleware(RequestId)
    app.add_middleware(RequestCounter, metrics=counted)
    app.add_middleware(FairStart)
    app.add_middleware(HeadRequests)
    if settings.request_log:
        app.add_middleware(AccessLog)
    if tracing is not None:
        app.add_middleware(tracing.around)
    if settings.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=settings.trusted_proxies)
    if origins := [origin for origin in settings.cors_origins.split(",") if origin]:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],  # OpenAI's client sends a dozen of its own; which pages may ask is said above
            expose_headers=[REQUEST_ID_HEADER, "Retry-After", *access_control.RATE_LIMIT_HEADERS],
        )
