"""The only place where things are wired: settings, engine, detector, limits, routes and what surrounds them.

`python -m app` serves it; `uvicorn --factory app.main:create_app` does too, but ends with the signal's status.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app import logs
from app.access.caller import Caller
from app.access.counts import Counts, LocalCounts
from app.access.gate import Gate
from app.access.keys import KeyRing, KeysUnreadable, stored
from app.access.rates import parse_quotas, parse_rates
from app.api import (
    access,
    attention,
    files,
    gates,
    generate,
    health,
    languages,
    metrics,
    models,
    score,
    suggest,
    translate,
    walkthrough,
)
from app.api.body import BodyLimit
from app.api.deepl import family as deepl
from app.api.direct import Direct
from app.api.docs import add_docs
from app.api.document_jobs import DocumentJobs
from app.api.errors import install_error_handlers
from app.api.extensions import family as extensions
from app.api.heads import Heads
from app.api.limits import Limits
from app.api.metrics import HttpCounter
from app.api.openai import completions
from app.api.openai import models as openai_models
from app.api.page import add_page
from app.api.request_id import HEADER, RequestIds
from app.api.request_log import RequestLog
from app.api.services import Services
from app.api.turns import Turns
from app.api.usage import CountedHere
from app.engine.jobs import Engine
from app.engine.metrics import Metrics
from app.settings import Settings, SettingsError, load_settings
from app.storage.glossaries import Glossaries
from app.storage.suggestions import Suggestions
from app.storage.translated_files import TranslatedFiles
from app.text.detection import Detector
from app.tracing import Tracing, tracing_of
from app.translation.cache import Cache
from app.translation.translator import Translator

VERSION = "0.1.0"
_LARGEST_BEAM = 64
_ROUTERS = (
    *(family.router for family in (translate, languages, files, suggest, generate, attention, walkthrough)),
    *(family.router for family in (gates, score, completions, openai_models, models, health, metrics)),
    *deepl.routers,
    *extensions.routers,
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
    settings = settings or settings_or_exit()
    logs.set_up(settings.log_level, settings.log_format)
    counted = Metrics()
    gate = _gate(settings, counted)
    engine = engine or _pool(settings, counted)
    counted.watch(engine)
    tracing = tracing_of(settings, engine, VERSION)
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
    kept = TranslatedFiles(settings.data, settings.file_retention_s, settings.max_kept_files_bytes)
    app.state.services = Services(
        engine,
        Translator(engine, Cache(settings.cache_mb * 1_000_000)),
        Detector(),
        _limits(settings),
        settings.request_timeout_s,
        counted,
        gate,
        kept,
        Glossaries(settings.data),
        CountedHere(),
        DocumentJobs(kept),
        Suggestions(settings.data) if settings.suggestions else None,
        settings.public_url,
    )
    app.state.close_tracing = tracing.close if tracing else None
    for router in _ROUTERS:
        app.include_router(router)
    add_docs(app)
    add_page(app)
    install_error_handlers(app)
    _surround(app, settings, counted, tracing)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the engine (models load in the background) and drain it at the end; test engines need neither."""
    engine = app.state.services.engine
    if start := getattr(engine, "start", None):
        await start()
    spare_garbage_collector()
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


def spare_garbage_collector() -> None:
    """What is there now stays to the end. A full collection would walk through all of it, 65 ms in which nobody is
    answered, and a burst of requests sets one off."""
    gc.collect()
    gc.freeze()


def settings_or_exit() -> Settings:
    """A server that is set up wrongly ends with the sentence alone: nobody needs the traceback."""
    try:
        return load_settings()
    except SettingsError as error:
        raise SystemExit(str(error)) from None


def _gate(settings: Settings, counted: Metrics) -> Gate:
    """A keys file that is wrong at the start ends it: nobody would know that no key works."""
    admin_key = settings.admin_key.get_secret_value()
    operator = Caller("admin", scopes=frozenset({"use", "admin"}), rates=(), quotas=())
    try:
        path = Path(settings.keys_file) if settings.keys_file else None
        keys = KeyRing(path, [stored(admin_key, operator)] if admin_key else ())
    except KeysUnreadable as error:
        raise SystemExit(f"Parlance cannot start: {error}") from None
    return Gate(
        _counts(settings, counted),
        keys,
        keys_used=bool(settings.keys_file),
        key_required=settings.key_required,
        rates=parse_rates(settings.rate_limit),
        quotas=parse_quotas(settings.quota),
    )


def _counts(settings: Settings, counted: Metrics) -> Counts:
    if url := settings.redis_url.get_secret_value():
        from app.access.shared import SharedCounts  # imported here: few servers are several

        return SharedCounts(url, counted.sharing_failed)
    return LocalCounts()


def _pool(settings: Settings, counted: Metrics) -> Engine:
    # Imported here, because tests and documentation need no device processes.
    from app.engine.pool import Pool, PoolOptions

    return Pool(
        PoolOptions(
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


def _surround(app: FastAPI, settings: Settings, counted: Metrics, tracing: Tracing | None) -> None:
    """From the inside out: refusals of large bodies have a request id, and all of it is open to allowed pages."""
    app.add_middleware(
        Direct, routers=[translate.router, generate.router, completions.router, *deepl.routers, *extensions.routers]
    )
    uploads = dict.fromkeys(("/translate_file", "/v2/document"), settings.max_file_bytes)
    app.add_middleware(
        BodyLimit,
        max_body_bytes=settings.max_body_bytes,
        max_pause_s=settings.request_timeout_s,
        uploads=uploads,
        routers=_ROUTERS,
    )
    app.add_middleware(RequestIds)
    app.add_middleware(HttpCounter, metrics=counted)
    app.add_middleware(Turns)
    app.add_middleware(Heads)
    if settings.request_log:
        app.add_middleware(RequestLog)
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
            expose_headers=[HEADER, "Retry-After", *access.HEADERS],
        )
