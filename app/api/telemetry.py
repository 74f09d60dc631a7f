"""OpenTelemetry: a span of each request, with what the engine did for it. Needs the extra `otel`.

Spans have what the request log has, and of the engine's answers how many tokens they were and how long they took: no
texts, keys or addresses. A caller's `traceparent` is gone on with.

There is one span and no second one of the engine within it, and it is made when the request is over, from all that is
known then: two that grow while it runs cost a tenth of what a short sentence does.
"""

from __future__ import annotations

import os
import time

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import Attributes
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.caller import ANONYMOUS
from app.api.metrics import METHODS
from app.engine.work import CURRENT, Work

EXPORT_LIMIT_S = 2  # a collector that is gone must not hold up the end of the server
_CARRIED = {b"traceparent": "traceparent", b"tracestate": "tracestate"}
_ROOT = Context()
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_FINE, _FAILED = Status(StatusCode.UNSET), Status(StatusCode.ERROR)


class Spans:
    """Where the spans of requests go. Each is whole when it is made, so that it needs no lock, no copies and nothing
    to end: the library's own way, made for spans that grow, costs three times as much. Its sampler, ids, resource,
    encoding and sending are the library's, with their OTEL_ variables; limits of attributes nobody needs for these."""

    def __init__(self, provider: TracerProvider, processor: SpanProcessor, version: str) -> None:
        self._sampler, self._ids, self._resource = provider.sampler, provider.id_generator, provider.resource
        self._scope = InstrumentationScope("parlance", version)
        self._processor, self.close = processor, processor.shutdown

    def add(self, name: str, parent: Context, told: Attributes, began_ns: int, *, failed: bool) -> None:
        """The span of a request that is over."""
        caller = get_current_span(parent).get_span_context()
        trace_id = caller.trace_id if caller.is_valid else self._ids.generate_trace_id()
        sampled = self._sampler.should_sample(parent, trace_id, name, SpanKind.SERVER, told)
        if sampled.decision is not Decision.RECORD_AND_SAMPLE:
            return
        span = ReadableSpan(
            name,
            SpanContext(trace_id, self._ids.generate_span_id(), False, _SAMPLED, sampled.trace_state),
            caller if caller.is_valid else None,
            self._resource,
            sampled.attributes,
            kind=SpanKind.SERVER,
            status=_FAILED if failed else _FINE,
            start_time=began_ns,
            end_time=time.time_ns(),
            instrumentation_scope=self._scope,
        )
        self._processor.on_end(span)


def spans_to(endpoint: str, version: str) -> Spans | None:
    """Spans go out in batches, in a thread. None where OpenTelemetry's own variable says that nothing is traced."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    provider = TracerProvider(resource=Resource({"service.name": "parlance"}).merge(OTELResourceDetector().detect()))
    return Spans(provider, BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_LIMIT_S)), version)


class TracedRequests:
    """Pure ASGI, for some routes never reach the framework."""

    def __init__(self, app: ASGIApp, spans: Spans) -> None:
        self.app, self._spans = app, spans
        self._parents = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began_ns, status = time.time_ns(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        work = Work()
        token = CURRENT.set(work)
        try:
            await self.app(scope, receive, watched)
        finally:
            CURRENT.reset(token)
            self._write(scope, began_ns, status, work)

    def _write(self, scope: Scope, began_ns: int, status: int, work: Work) -> None:
        """status 0: the client left before there was one."""
        method = scope["method"] if scope["method"] in METHODS else "_OTHER"
        state, route = scope.get("state", {}), getattr(scope.get("route"), "path", None)
        told: dict[str, str | int | float] = {
            "http.request.method": method,
            "parlance.request_id": state.get("request_id", ""),
            "parlance.caller": state.get("caller", ANONYMOUS).name,
        }
        if status:
            told["http.response.status_code"] = status
        if route is not None:
            told["http.route"] = route
        if work.sequences:
            told |= _of_work(work)
        if work.failed and (status >= 400 or work.broken):
            told["error.type"] = work.failed
        name = method if route is None else f"{method} {route}"
        self._spans.add(name, self._parent(scope), told, began_ns, failed=status >= 500 or work.broken)

    def _parent(self, scope: Scope) -> Context:
        carried = {_CARRIED[name]: value.decode("latin-1") for name, value in scope["headers"] if name in _CARRIED}
        return self._parents.extract(carried, _ROOT) if carried else _ROOT


def _of_work(work: Work) -> dict[str, str | int | float]:
    told: dict[str, str | int | float] = {
        "parlance.model": work.model,
        "parlance.sequences": work.sequences,
        "parlance.read_tokens": work.read_tokens,
        "parlance.new_tokens": work.new_tokens,
    }
    for name, value in (("queued", work.queued_s), ("first_token", work.first_token_s), ("engine", work.total_s)):
        if value is not None:
            told[f"parlance.{name}_ms"] = round(1000 * value, 3)
    return told
