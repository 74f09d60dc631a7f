"""OpenTelemetry: a span of each request, and within it one of the engine's work. Needs the extra `otel`.

Spans have what the request log has, and of the engine's answer how many tokens and how long it waited: no texts, keys
or addresses. A caller's `traceparent` is gone on with.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

from opentelemetry import context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.caller import ANONYMOUS
from app.api.metrics import METHODS
from app.engine.jobs import Engine, Generation, GenerationJob, Translation, TranslationJob, Usage
from app.engine.streaming import TextStream

EXPORT_LIMIT_S = 2  # a collector that is gone must not hold up the end of the server
_CARRIED = {b"traceparent": "traceparent", b"tracestate": "tracestate"}


def provider_to(endpoint: str) -> TracerProvider:
    """Spans go out in batches, in a thread."""
    provider = TracerProvider(resource=Resource({"service.name": "parlance"}).merge(OTELResourceDetector().detect()))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_LIMIT_S)))
    return provider


class TracedRequests:
    """Pure ASGI, for some routes never reach the framework."""

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        self.app, self._tracer = app, tracer
        self._parents = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        carried = {_CARRIED[name]: value.decode("latin-1") for name, value in scope["headers"] if name in _CARRIED}
        method = scope["method"] if scope["method"] in METHODS else "_OTHER"
        parent = self._parents.extract(carried) if carried else None
        span = self._tracer.start_span(method, parent, SpanKind.SERVER, {"http.request.method": method})

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                _answered(span, scope, method, message["status"])
            await send(message)

        # By hand: the library's context managers cost as much as the spans, and note messages that may quote a text.
        current = context.attach(set_span_in_context(span))
        try:
            await self.app(scope, receive, watched)
        finally:
            context.detach(current)
            span.end()


def _answered(span: Span, scope: Scope, method: str, status: int) -> None:
    state, route = scope.get("state", {}), getattr(scope.get("route"), "path", None)
    told: dict[str, str | int] = {
        "http.response.status_code": status,
        "parlance.request_id": state.get("request_id", ""),
        "parlance.caller": state.get("caller", ANONYMOUS).name,
    }
    if route is not None:
        span.update_name(f"{method} {route}")
        told["http.route"] = route
    span.set_attributes(told)
    if status >= 500:
        span.set_status(StatusCode.ERROR)


class TracedEngine:
    """An engine whose translations and generations are spans; everything else is the engine's own."""

    def __init__(self, engine: Engine, tracer: Tracer) -> None:
        self._engine, self._tracer = engine, tracer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def translate(self, jobs: Sequence[TranslationJob]) -> list[Translation]:
        with self._span("engine.translate", len(jobs)) as span:
            found = await self._engine.translate(jobs)
            _took(span, [each.usage for each in found], found[0].model if found else "")
            return found

    async def generate(self, job: GenerationJob) -> Generation:
        with self._span("engine.generate", job.n) as span:
            found = await self._engine.generate(job)
            _took(span, [found.usage], found.model)
            return found

    @asynccontextmanager
    async def stream_translation(self, job: TranslationJob) -> AsyncIterator[TextStream[Translation]]:
        async with self._streamed("engine.translate", 1, self._engine.stream_translation(job)) as stream:
            yield stream

    @asynccontextmanager
    async def stream_generation(self, job: GenerationJob) -> AsyncIterator[TextStream[Generation]]:
        async with self._streamed("engine.generate", job.n, self._engine.stream_generation(job)) as stream:
            yield stream

    @asynccontextmanager
    async def _streamed(
        self, name: str, sequences: int, opened: AbstractAsyncContextManager[Any]
    ) -> AsyncIterator[Any]:
        with self._span(name, sequences) as span:
            async with opened as stream:
                yield stream
                if stream.ended:
                    _streamed_usage(span, stream)

    @contextmanager
    def _span(self, name: str, sequences: int) -> Iterator[Span]:
        """Within the request's; nothing has a span within this one."""
        span = self._tracer.start_span(name, attributes={"parlance.sequences": sequences})
        try:
            yield span
        except Exception as error:
            span.set_attribute("error.type", getattr(error, "code", type(error).__name__))
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            span.end()


def _took(span: Span, usages: Sequence[Usage], model: str) -> None:
    """Times of the sequence that took longest; they count from its admission."""
    if not usages:
        return
    told: dict[str, str | int | float] = {
        "parlance.model": model,
        "parlance.read_tokens": sum(each.read_tokens for each in usages),
        "parlance.new_tokens": sum(each.new_tokens for each in usages),
    }
    queued = [each.queued_s for each in usages if each.queued_s is not None]
    first = [each.first_token_s for each in usages if each.first_token_s is not None]
    for name, values in (("queued", queued), ("first_token", first), ("total", [each.total_s for each in usages])):
        if values:
            told[f"parlance.{name}_ms"] = round(1000 * max(values), 3)
    span.set_attributes(told)


def _streamed_usage(span: Span, stream: TextStream[Any]) -> None:
    """What ended a stream late was told to its reader, and is not raised a second time."""
    try:
        found = stream.result
    except Exception as error:
        span.set_attribute("error.type", getattr(error, "code", type(error).__name__))
        span.set_status(StatusCode.ERROR)
    else:
        _took(span, [found.usage], found.model)
