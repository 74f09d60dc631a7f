"""OpenTelemetry: one span per request, with what the engine did for it. Needs the extra `otel`. Spans hold what the
access log holds, and the engine's token counts and times; a caller's `traceparent` is continued. A child span of the
engine, and spans that grow while the request runs, cost a tenth of a short sentence's time."""

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
from starlette.types import Scope

from app.access.key_file import ANONYMOUS
from app.engine.metrics import RequestWork

EXPORT_LIMIT_S = 2  # an unreachable collector must not delay the end of the server
_CARRIED = {b"traceparent": "traceparent", b"tracestate": "tracestate"}
_ROOT = Context()
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_FINE, _FAILED = Status(StatusCode.UNSET), Status(StatusCode.ERROR)


def request_spans(endpoint: str, version: str) -> RequestSpans | None:
    """Spans are sent in batches, in a thread. None where OpenTelemetry's own variable switches it off."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    provider = TracerProvider(resource=Resource({"service.name": "parlance"}).merge(OTELResourceDetector().detect()))
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_LIMIT_S)
    return RequestSpans(provider, BatchSpanProcessor(exporter), version)


class RequestSpans:
    """Makes and exports the spans of `RequestLog`: FastAPI's own instrumentation misses the routes of `ApiRouting`.
    Each span is complete when it is made and needs no lock, copies or end: the library's own way costs three times as
    much. Sampler, ids, resource, encoding and sending are the library's, with its OTEL_ variables."""

    def __init__(self, provider: TracerProvider, processor: SpanProcessor, version: str) -> None:
        self._sampler, self._ids, self._resource = provider.sampler, provider.id_generator, provider.resource
        self._scope = InstrumentationScope("parlance", version)
        self._processor, self.close = processor, processor.shutdown
        self._propagator = TraceContextTextMapPropagator()

    def add(self, scope: Scope, method: str, began_ns: int, status: int, work: RequestWork) -> None:
        """The span of a finished request. status 0: the client left before there was one."""
        method = "_OTHER" if method == "other" else method
        state, route = scope.get("state", {}), getattr(scope.get("route"), "path", None)
        name = method if route is None else f"{method} {route}"
        attributes: dict[str, str | int | float] = {
            "http.request.method": method,
            "parlance.request_id": state.get("request_id", ""),
            "parlance.caller": state.get("caller", ANONYMOUS).name,
        }
        if status:
            attributes["http.response.status_code"] = status
        if route is not None:
            attributes["http.route"] = route
        if work.sequences:
            attributes |= _work_attributes(work)
        if work.failed and (status >= 400 or work.broken):
            attributes["error.type"] = work.failed
        carried = {_CARRIED[key]: value.decode("latin-1") for key, value in scope["headers"] if key in _CARRIED}
        parent = self._propagator.extract(carried, _ROOT) if carried else _ROOT
        remote = get_current_span(parent).get_span_context()
        trace_id = remote.trace_id if remote.is_valid else self._ids.generate_trace_id()
        sampled = self._sampler.should_sample(parent, trace_id, name, SpanKind.SERVER, attributes)
        if sampled.decision is not Decision.RECORD_AND_SAMPLE:
            return
        span = ReadableSpan(
            name,
            SpanContext(trace_id, self._ids.generate_span_id(), False, _SAMPLED, sampled.trace_state),
            remote if remote.is_valid else None,
            self._resource,
            sampled.attributes,
            kind=SpanKind.SERVER,
            status=_FAILED if status >= 500 or work.broken else _FINE,
            start_time=began_ns,
            end_time=time.time_ns(),
            instrumentation_scope=self._scope,
        )
        self._processor.on_end(span)


def _work_attributes(work: RequestWork) -> dict[str, str | int | float]:
    times = {"queued": work.queued_s, "first_token": work.first_token_s, "engine": work.total_s}
    return {
        "parlance.model": work.model,
        "parlance.sequences": work.sequences,
        "parlance.read_tokens": work.read_tokens,
        "parlance.new_tokens": work.new_tokens,
        **{f"parlance.{name}_ms": round(1000 * value, 3) for name, value in times.items() if value is not None},
    }
