"""No log line or metric label contains a text, key or address of a client, also after failures."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.errors import EngineFailed, EngineUnavailable
from app.logs import JsonFormatter, TextFormatter, set_up_logging
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine
from tests.app.api.keyed_client import USE, bearer, keys_file
from tests.combinations import slow_but

SECRET = "Geheimnis-Schmetterling"
ADDRESS = "198.51.100.77"


@pytest.fixture(params=[TextFormatter, pytest.param(JsonFormatter, marks=pytest.mark.slow)])
def written(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """Everything that any logger says from DEBUG on, in our form."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(request.param())
    handler.addFilter(lambda record: not record.name.startswith("httpx"))  # the client's own
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def quoting() -> list[BaseException]:
    """What Python and libraries raise about a value, with the value in it."""
    results: list[BaseException] = [ValueError(SECRET), KeyError(SECRET), TypeError(f"bad {SECRET}")]
    try:
        f"{SECRET}\ud800".encode()
    except UnicodeEncodeError as error:
        results.append(error)
    try:
        raise EngineFailed("The model failed on this request.") from ValueError(SECRET)
    except EngineFailed as error:
        results.append(error)
    results.append(ExceptionGroup("several", [ValueError(SECRET), EngineUnavailable("No device is ready.")]))
    return results


def everything_is_asked(client: Client) -> None:
    def ask(method: str, path: str, **options: Any) -> None:
        for failure in (client.engine.failure, client.engine.late_failure):
            if failure is not None:
                failure.__traceback__ = None  # it is raised again and again, and would grow
        answer = client.request(method, path, **options)
        assert USE not in answer.text + str(answer.headers), "people paste answers into reports"

    texts = {"q": SECRET, "source": "de", "target": "en"}
    for key in ({}, bearer(USE), {"X-API-Key": SECRET}):
        headers = {**key, "X-Forwarded-For": ADDRESS, "User-Agent": SECRET, "X-Request-Id": f"{SECRET} {SECRET}"}
        for body in (texts, {**texts, "source": SECRET}, {**texts, "q": {SECRET: SECRET}}, {**texts, SECRET: 5}):
            ask("POST", "/translate", json={**body, "api_key": USE}, headers=headers)
        ask("POST", "/translate", params={**texts, "api_key": SECRET}, headers=headers)
        ask("POST", "/translate", data={**texts, "api_key": SECRET}, headers=headers)
        ask("POST", "/translate", json={**texts, "stream": True, "api_key": USE}, headers=headers)
        ask("POST", "/generate", json={"prompt": SECRET, "model": SECRET, "n": SECRET}, headers=headers)
        ask("POST", "/generate", json={"prompt": SECRET, "stream": True}, headers=headers)
        ask("POST", "/attention", json={"source": SECRET, "layers": SECRET}, headers=headers)
        ask("POST", "/score", content=f'{{"text": "{SECRET}'.encode(), headers=headers)
        ask("GET", f"/{SECRET}", headers=headers)
        ask("GET", f"/models/{SECRET}/curves", headers=headers)
        ask("POST", f"/models/{SECRET}/load?{SECRET}={USE}", headers=headers)
        # keys where no key belongs, and misspelt ones
        for fields in ({"apikey": USE}, {"api-key": USE}, {"api_key": [USE]}, {"api_key": {"key": USE}}, {"key": USE}):
            ask("POST", "/translate", json={**texts, **fields}, headers=headers)
            ask("POST", "/generate", json={"prompt": "a", **fields}, headers=headers)
        ask("GET", "/language/translate/v2", params={"q": SECRET, "target": "en", "key": USE}, headers=headers)
        ask("POST", "/v2/translate", data={"text": SECRET, "target_lang": "EN", "auth_key": USE}, headers=headers)
        ask("POST", "/v1/completions", json={"prompt": SECRET, "user": USE}, headers=headers)
        ask("GET", f"/models?api_key={USE}", headers=headers)
        ask("GET", f"/nothing?api_key={USE}", headers={**headers, "Cookie": f"key={USE}", "Origin": f"https://{USE}"})
        ask(SECRET.upper().replace("-", ""), "/translate", headers=headers)


def failures() -> list[Any]:
    """No failure and one of each kind; in the fast suite one that brings other errors with it."""
    made = quoting()
    return slow_but([None, *made], None, *(each for each in made if isinstance(each, ExceptionGroup)))


@pytest.mark.parametrize("failure", failures(), ids=lambda each: type(each).__name__)
def test_logs_and_metrics_contain_nothing_of_a_request(
    written: io.StringIO, tmp_path: Path, failure: BaseException | None
) -> None:
    keyed = {"keys_file": str(keys_file(tmp_path)), "rate_limit": "1000/minute"}
    for settings, engine in (({}, FakeEngine(failure=failure)), (keyed, FakeEngine(late_failure=failure))):
        client = Client(engine, admin_key="a-key-of-the-operators", trusted_proxies="127.0.0.1", **settings)
        everything_is_asked(client)
        assert client.engine.calls > 5
        metrics = client.get("/metrics").text
        for hidden in (SECRET, USE, ADDRESS, "a-key-of-the-operators"):
            assert hidden.lower() not in metrics.lower()
    text = written.getvalue()
    assert text.count("/translate") > 20
    for hidden in (SECRET, SECRET.replace("-", ""), USE, ADDRESS, "a-key-of-the-operators"):
        assert hidden.lower() not in text.lower()


def test_failure_log_has_the_place_and_the_machine_message_only(written: io.StringIO) -> None:
    client = Client(FakeEngine(failure=RuntimeError("CUDA out of memory")))
    client.post("/generate", json={"prompt": "雨"})
    assert "RuntimeError: CUDA out of memory" in written.getvalue()
    client = Client(FakeEngine(failure=ValueError(SECRET)))
    client.post("/generate", json={"prompt": "雨"})
    text = written.getvalue()
    assert "ValueError: its message is left out: it may quote a text" in text
    assert "fake_engine.py" in text


def test_json_log_line_describes_the_answer(written: io.StringIO, tmp_path: Path) -> None:
    if written.getvalue():
        pytest.fail("nothing has been asked yet")
    client = Client(keys_file=str(keys_file(tmp_path)))
    headers = {**bearer(USE), "X-Request-Id": "abc-1"}
    answer = client.post("/translate?target=en", json={"q": "bier", "source": "de", "target": "en"}, headers=headers)
    line = next(line for line in written.getvalue().splitlines() if "app.requests" in line)
    if not line.startswith("{"):
        assert "POST /translate 200 " in line
        assert line.endswith(f" ms {len(answer.content)} bytes, shop, abc-1")
        return
    fields: dict[str, Any] = json.loads(line)
    assert 0 <= fields.pop("ms") < 10_000
    assert fields.pop("time").endswith("+00:00")
    assert fields.pop("message").startswith("POST /translate 200 ")
    assert fields == {
        "level": "info",
        "logger": "app.requests",
        "method": "POST",
        "route": "/translate",
        "status": 200,
        "bytes": len(answer.content),
        "caller": "shop",
        "request_id": "abc-1",
    }


def test_access_log_can_be_disabled(written: io.StringIO) -> None:
    client = Client(request_log=False)
    client.get("/languages")
    assert "app.requests" not in written.getvalue()


def test_answered_probes_are_counted_and_not_logged(written: io.StringIO) -> None:
    client = Client()
    for path in ("/health", "/health/live", "/metrics"):
        assert client.get(path).status_code == 200
    assert "app.requests" not in written.getvalue()
    assert client.post("/health/live", json={}).status_code == 405
    assert client.get("/languages").status_code == 200
    lines = [line for line in written.getvalue().splitlines() if "app.requests" in line]
    assert ["405" in lines[0], "GET /languages 200" in lines[1]] == [True, True]
    assert 'route="/health/live",status="200"' in client.get("/metrics").text


def test_uvicorn_access_log_is_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    access = logging.getLogger("uvicorn.access")
    monkeypatch.setattr(access, "propagate", True)
    access.addHandler(logging.NullHandler())
    set_up_logging("info", "text")
    assert not access.hasHandlers(), "which is how uvicorn asks whether to write it"


def test_spans_contain_nothing_of_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector is another program, of other people perhaps."""
    pytest.importorskip("opentelemetry.sdk", reason="the extra `otel`")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from app.api import telemetry

    kept = InMemorySpanExporter()
    spans = telemetry.RequestSpans(TracerProvider(), SimpleSpanProcessor(kept), "1")
    monkeypatch.setattr(telemetry, "request_spans", lambda *_: spans)
    for failure in (None, ValueError(SECRET)):
        client = Client(
            FakeEngine(failure=failure),
            keys_file=str(keys_file(tmp_path)),
            admin_key="a-key-of-the-operators",
            otlp_endpoint="http://localhost:4318/v1/traces",
        )
        everything_is_asked(client)
    exported = "".join(span.to_json() for span in kept.get_finished_spans())
    assert exported.count("/translate") > 20
    for hidden in (SECRET, SECRET.replace("-", ""), USE, ADDRESS, "api_key=", "a-key-of-the-operators"):
        assert hidden.lower() not in exported.lower()
