"""OpenTelemetry: a span of each request with the engine's work, and nothing of what was said."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from app.api import telemetry
from app.engine.interface import GenerationRequest, GenerationResult, TranslationRequest, TranslationResult, Usage
from app.engine.metrics import recorded
from app.engine.output.text_stream import ShowText, TextStream
from app.errors import EngineUnavailable, Overloaded
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine
from tests.app.api.keyed_client import TEXTS, USE, bearer, keys_file
from tests.readme import ROOT

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Timed(FakeEngine):
    """Says what its answers took."""

    def _translation(self, request: TranslationRequest) -> TranslationResult:
        return replace(super()._translation(request), usage=Usage(3, 4, 0.001, 0.002, 0.25))

    def _generation(self, request: GenerationRequest) -> GenerationResult:
        return replace(super()._generation(request), usage=Usage(2, 8, None, None, 0.5))


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    kept = InMemorySpanExporter()
    monkeypatch.setattr(
        telemetry, "request_spans", lambda *_: telemetry.RequestSpans(TracerProvider(), SimpleSpanProcessor(kept), "1")
    )
    return kept


def traced(engine: FakeEngine | None = None, **settings: Any) -> Client:
    return Client(engine or Timed(), otlp_endpoint="http://localhost:4318/v1/traces", **settings)


def only(exporter: InMemorySpanExporter) -> tuple[ReadableSpan, dict[str, Any]]:
    (span,) = exporter.get_finished_spans()
    exporter.clear()
    return span, dict(span.attributes or {})


def test_a_request_and_the_engines_work(exporter: InMemorySpanExporter, tmp_path: Path) -> None:
    client = traced(keys_file=str(keys_file(tmp_path)))
    headers = {**bearer(USE), "X-Request-Id": "abc-1", "traceparent": f"00-{TRACE}-{PARENT}-01"}
    before = time.time_ns()
    assert client.post("/translate", json={**TEXTS, "q": ["bier", "wein"]}, headers=headers).status_code == 200
    span, attributes = only(exporter)
    assert (span.name, span.kind) == ("POST /translate", SpanKind.SERVER)
    assert attributes == {
        "http.request.method": "POST",
        "http.route": "/translate",
        "http.response.status_code": 200,
        "parlance.request_id": "abc-1",
        "parlance.caller": "shop",
        "parlance.sequences": 2,
        "parlance.model": "tiny-de-en",
        "parlance.read_tokens": 6,
        "parlance.new_tokens": 8,
        "parlance.queued_ms": 1.0,
        "parlance.first_token_ms": 2.0,
        "parlance.engine_ms": 250.0,
    }
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert span.start_time is not None and span.end_time is not None
    assert before <= span.start_time < span.end_time <= time.time_ns()


def test_a_request_without_a_parent_begins_a_trace(exporter: InMemorySpanExporter) -> None:
    client = traced()
    client.get("/health/live")
    client.get("/health/live", headers={"traceparent": "00-nonsense"})
    first, second = exporter.get_finished_spans()
    assert first.parent is None and second.parent is None
    assert first.context is not None and second.context is not None
    assert first.context.trace_id != second.context.trace_id


def test_the_sampler_of_the_environment_decides(
    exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    client = traced()
    client.get("/health/live")
    client.get("/health/live", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    client.get("/health/live", headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    span, _ = only(exporter)
    assert span.parent is not None and f"{span.parent.span_id:016x}" == PARENT, "the caller wanted this one"


def test_streams_and_generations(exporter: InMemorySpanExporter) -> None:
    client = traced()
    assert client.post("/generate", json={"prompt": "雨", "n": 2}).status_code == 200
    span, attributes = only(exporter)
    assert span.name == "POST /generate"
    assert (attributes["parlance.sequences"], attributes["parlance.engine_ms"]) == (2, 500.0)
    assert "parlance.queued_ms" not in attributes, "the engine has not said it"
    client.post("/translate", json={**TEXTS, "stream": True})
    span, attributes = only(exporter)
    assert (span.name, attributes["parlance.new_tokens"]) == ("POST /translate", 4)


def test_requests_at_the_same_time_are_not_mixed_up(exporter: InMemorySpanExporter) -> None:
    class Slow(Timed):
        async def translate(self, requests: Sequence[TranslationRequest]) -> list[TranslationResult]:
            await asyncio.sleep(0.01 * len(requests))
            return await super().translate(requests)

    client = traced(Slow())

    async def all_of_them() -> None:
        transport = httpx.ASGITransport(app=client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as asking:
            lists = (["eins", "zwei", "drei"], ["vier"], ["fünf", "sechs"])
            asked = [asking.post("/translate", json={**TEXTS, "q": each}) for each in lists]
            assert [answer.status_code for answer in await asyncio.gather(*asked)] == [200] * 3

    asyncio.run(all_of_them())
    results = [(span.attributes or {}) for span in exporter.get_finished_spans()]
    assert sorted((one["parlance.sequences"], one["parlance.new_tokens"]) for one in results) == [
        (1, 4),
        (2, 8),
        (3, 12),
    ]


def test_failures_are_named_and_not_quoted(exporter: InMemorySpanExporter) -> None:
    client = traced(FakeEngine(failure=EngineUnavailable("secret words")))
    assert client.post("/translate", json={**TEXTS, "q": "secret words"}).status_code == 503
    (span,) = exporter.get_finished_spans()
    assert span.attributes is not None
    assert (span.attributes["error.type"], span.status.status_code) == ("engine_unavailable", StatusCode.ERROR)
    client.engine.failure = ValueError("secret words")
    client.post("/translate?q=secret+words", json={**TEXTS, "q": "secret words"})
    client.get("/secret words")
    client.request("SECRET", "/secret words")
    assert "secret" not in "".join(span.to_json() for span in exporter.get_finished_spans()).lower()
    assert [span.name for span in exporter.get_finished_spans()[-2:]] == ["GET", "_OTHER"]


def test_successful_retry_is_no_failed_span(exporter: InMemorySpanExporter) -> None:
    class Busy(Timed):
        def _record(self, *requests: object) -> None:
            super()._record(*requests)
            if self.calls == 2:
                raise Overloaded("busy", retry_after_s=1)

    engine = Busy()
    client = traced(engine)
    text = "\n\n".join(f"bier {number}" for number in range(300)).encode()
    form = {"source": "de", "target": "en"}
    assert client.post("/translate_file", data=form, files={"file": ("a.txt", text)}).status_code == 200
    _, attributes = only(exporter)
    assert (engine.calls > 2, "error.type" in attributes, attributes["parlance.sequences"]) == (True, False, 300)


def test_a_stream_that_broke_off_is_a_failure_whatever_its_status(exporter: InMemorySpanExporter) -> None:
    class Breaking(FakeEngine):
        def stream_generation(
            self, request: GenerationRequest
        ) -> AbstractAsyncContextManager[TextStream[GenerationResult]]:
            @recorded
            async def work(show: ShowText) -> GenerationResult:
                show("a", 0)
                raise EngineUnavailable("secret words")

            return TextStream.opened(work)

    answer = traced(Breaking()).post("/generate", json={"prompt": "雨", "stream": True})
    assert (answer.status_code, "event: error" in answer.text) == (200, True)
    span, attributes = only(exporter)
    assert (attributes["error.type"], span.status.status_code) == ("engine_unavailable", StatusCode.ERROR)


def test_a_document_is_not_the_work_of_the_request_that_brought_it(exporter: InMemorySpanExporter) -> None:
    client = traced(Timed())
    form = {"source_lang": "DE", "target_lang": "EN"}

    async def until_it_is_done() -> None:
        transport = httpx.ASGITransport(app=client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as asking:
            made = (await asking.post("/v2/document", data=form, files={"file": ("a.txt", b"bier")})).json()
            key = {"document_key": made["document_key"]}
            while (await asking.post(f"/v2/document/{made['document_id']}", json=key)).json()["status"] != "done":
                await asyncio.sleep(0.01)

    asyncio.run(until_it_is_done())
    spans = exporter.get_finished_spans()
    assert spans[0].name == "POST /v2/document"
    assert all("parlance.sequences" not in (span.attributes or {}) for span in spans)


def test_opentelemetrys_own_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert telemetry.request_spans("http://localhost:4318/v1/traces", "1") is None
    assert traced().get("/health/live").status_code == 200


def test_untraced_parts_use_the_engine_itself(exporter: InMemorySpanExporter) -> None:
    client = traced()
    assert client.get("/models").json()[0]["name"] == "tiny-de-en"
    assert client.post("/attention", json={"source": "bier"}).status_code == 200
    assert [span.name for span in exporter.get_finished_spans()] == ["GET /models", "POST /attention"]


@pytest.mark.slow
def test_a_collector_that_is_gone_does_not_hold_up_the_end(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(otlp_endpoint="http://127.0.0.1:9/v1/traces")

    async def run() -> None:
        async with client.app.router.lifespan_context(client.app):
            assert (await asyncio.to_thread(client.get, "/health/live")).status_code == 200

    asyncio.run(run())
    messages = [record.getMessage() for record in caplog.records]
    assert any("Failed to export spans" in message for message in messages)
    # OpenTelemetry alone tries three times and more, with pauses that double
    assert sum("retrying" in message for message in messages) <= 1


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
