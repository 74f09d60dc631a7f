"""OpenTelemetry: a span of each request and of the engine's work, and nothing of what was said."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from app.api import telemetry
from app.engine.errors import EngineUnavailable
from app.engine.jobs import Generation, GenerationJob, Translation, TranslationJob, Usage
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine
from tests.app.api.keyed import TEXTS, USE, bearer, keys_file
from tests.readme import ROOT

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Timed(FakeEngine):
    """Says what its answers took."""

    def _translation(self, job: TranslationJob) -> Translation:
        return replace(super()._translation(job), usage=Usage(3, 4, 0.001, 0.002, 0.25))

    async def generate(self, job: GenerationJob) -> Generation:
        return replace(await super().generate(job), usage=Usage(2, 8, None, None, 0.5))


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(telemetry, "provider_to", lambda endpoint: provider)
    yield kept
    provider.shutdown()


def traced(engine: FakeEngine | None = None, **settings: Any) -> Client:
    return Client(engine or Timed(), otlp_endpoint="http://localhost:4318/v1/traces", **settings)


def spans(exporter: InMemorySpanExporter) -> tuple[ReadableSpan, ReadableSpan]:
    """The engine's, which ends first, and the request's."""
    inner, outer = exporter.get_finished_spans()
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id
    return inner, outer


def test_a_request_and_the_engines_work(exporter: InMemorySpanExporter, tmp_path: Path) -> None:
    client = traced(keys_file=str(keys_file(tmp_path)))
    headers = {**bearer(USE), "X-Request-Id": "abc-1", "traceparent": f"00-{TRACE}-{PARENT}-01"}
    assert client.post("/translate", json={**TEXTS, "q": ["bier", "wein"]}, headers=headers).status_code == 200
    inner, outer = spans(exporter)
    assert (outer.name, outer.kind) == ("POST /translate", SpanKind.SERVER)
    assert dict(outer.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/translate",
        "http.response.status_code": 200,
        "parlance.request_id": "abc-1",
        "parlance.caller": "shop",
    }
    assert inner.name == "engine.translate"
    assert dict(inner.attributes or {}) == {
        "parlance.sequences": 2,
        "parlance.model": "tiny-de-en",
        "parlance.read_tokens": 6,
        "parlance.new_tokens": 8,
        "parlance.queued_ms": 1.0,
        "parlance.first_token_ms": 2.0,
        "parlance.total_ms": 250.0,
    }
    assert outer.parent is not None
    assert (f"{outer.parent.trace_id:032x}", f"{outer.parent.span_id:016x}") == (TRACE, PARENT)


def test_streams_and_generations(exporter: InMemorySpanExporter) -> None:
    client = traced()
    assert client.post("/generate", json={"prompt": "雨", "n": 2}).status_code == 200
    inner, outer = spans(exporter)
    assert (inner.name, outer.name) == ("engine.generate", "POST /generate")
    assert inner.attributes is not None
    assert (inner.attributes["parlance.sequences"], inner.attributes["parlance.total_ms"]) == (2, 500.0)
    assert "parlance.queued_ms" not in inner.attributes, "the engine has not said it"
    exporter.clear()
    client.post("/translate", json={**TEXTS, "stream": True})
    inner, _ = spans(exporter)
    assert inner.attributes is not None
    assert (inner.name, inner.attributes["parlance.new_tokens"]) == ("engine.translate", len("en:bier"))


def test_failures_are_named_and_not_quoted(exporter: InMemorySpanExporter) -> None:
    client = traced(FakeEngine(failure=EngineUnavailable("secret words")))
    assert client.post("/translate", json={**TEXTS, "q": "secret words"}).status_code == 503
    inner, outer = spans(exporter)
    assert inner.attributes is not None
    assert (inner.attributes["error.type"], inner.status.status_code) == ("engine_unavailable", StatusCode.ERROR)
    assert outer.status.status_code is StatusCode.ERROR
    client.engine.failure = ValueError("secret words")
    client.post("/translate?q=secret+words", json={**TEXTS, "q": "secret words"})
    client.get("/secret words")
    client.request("SECRET", "/secret words")
    assert "secret" not in "".join(span.to_json() for span in exporter.get_finished_spans()).lower()
    assert [span.name for span in exporter.get_finished_spans()[-2:]] == ["GET", "_OTHER"]


def test_what_is_not_traced_is_the_engines_own(exporter: InMemorySpanExporter) -> None:
    client = traced()
    assert client.get("/models").json()[0]["name"] == "tiny-de-en"
    assert client.post("/attention", json={"source": "bier"}).status_code == 200
    assert [span.name for span in exporter.get_finished_spans()] == ["GET /models", "POST /attention"]


def test_a_collector_that_is_gone_does_not_hold_up_the_end() -> None:
    client = Client(otlp_endpoint="http://127.0.0.1:9/v1/traces")

    async def run() -> None:
        async with client.app.router.lifespan_context(client.app):
            pass

    asyncio.run(asyncio.wait_for(run(), 5))


@pytest.mark.slow
def test_without_the_extra_the_start_ends_with_a_sentence() -> None:
    code = (
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "from app.main import create_app; from app.settings import Settings\n"
        "create_app(Settings(otlp_endpoint='http://localhost:4318/v1/traces'), object())"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.strip() == (
        "Parlance cannot start: PARLANCE_OTLP_ENDPOINT needs OpenTelemetry; install it with pip install"
        " 'parlance[otel]'."
    )


@pytest.mark.slow
def test_without_the_setting_nothing_of_it_is_imported() -> None:
    check = "import sys, app.main; sys.exit('opentelemetry.sdk' in sys.modules or 'redis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT).returncode == 0
