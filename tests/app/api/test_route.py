"""The short way to a route answers as the framework's way does."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest

from app.api import route
from app.api.request_body import parse_fields
from app.api.route import LARGE_BODY_BYTES, ApiRouting
from app.engine.admission import ORIGIN
from app.errors import EngineFailed, Overloaded
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine

BODIES: list[tuple[str, Any]] = [
    ("/translate", {"q": "hallo", "source": "de", "target": "en"}),
    ("/translate", {"q": ["hallo", " "], "source": "auto", "target": "en", "alternatives": 2}),
    ("/translate", {"q": 3, "source": "de", "target": ""}),
    ("/translate", {"q": "hallo", "source": "de", "target": "fr"}),
    ("/translate", {"q": "hallo", "source": "de", "target": "en", "stream": True}),
    ("/generate", {"prompt": "a", "n": 3, "seed": 4}),
    ("/generate", {"prompt": "a", "n": 3000}),
    ("/generate", {"prompt": "a", "stream": True}),
    ("/generate", []),
]


def routing(client: Client) -> ApiRouting:
    stack = client.app.middleware_stack = client.app.build_middleware_stack()
    while not isinstance(stack, ApiRouting):
        stack = stack.app
    return stack


def through_fastapi(client: Client) -> Client:
    routing(client).routes.clear()
    return client


@pytest.mark.slow
@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize("failure", [None, EngineFailed("It broke."), Overloaded("Full.", retry_after_s=7)])
def test_both_ways_answer_the_same(path: str, body: Any, failure: Exception | None) -> None:
    given = {"headers": {"X-Request-Id": "one"}, "json": body}
    short = Client(FakeEngine(failure=failure)).post(path, **given)
    long = through_fastapi(Client(FakeEngine(failure=failure))).post(path, **given)
    assert (short.status_code, short.text, short.headers) == (long.status_code, long.text, long.headers)
    assert short.headers["x-request-id"] == "one"


def test_the_short_way_is_taken_and_counted_under_its_route() -> None:
    client = Client()
    posted = "/deepl /deeplx /generate /hcfy /imme /kiss /language/translate/v2 /translate /v2/glossaries /v2/translate"
    assert {("POST", path) for path in posted.split()} < set(routing(client).routes)
    client.post("/translate", json=BODIES[0][1])
    page = client.get("/metrics").text
    assert 'parlance:http_requests_total{method="POST",route="/translate",status="200"} 1.0' in page


def test_a_full_service_refuses_before_it_parses() -> None:
    engine = FakeEngine(full=Overloaded("Try again in 3 seconds.", retry_after_s=3, reason="overloaded_requests"))
    client = Client(engine)
    answer = client.post_raw("/translate", b"{ this is not JSON")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert answer.json()["error"] == "Try again in 3 seconds."
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert 'parlance:request_refused_total{reason="overloaded_requests"} 1.0' in client.get("/metrics").text
    assert client.post("/health").status_code == 405  # a request without work for the engine is not refused
    assert client.get("/health").status_code == 200


def test_the_addresses_of_one_network_are_one_client() -> None:
    """Every address of a /64 had a share of its own of the queue, though not of the connections."""
    client, clients = Client(), []
    translate = client.engine.translate

    async def recorded(requests: Any) -> Any:
        clients.append(ORIGIN.get().client)
        return await translate(requests)

    client.engine.translate = recorded  # type: ignore[method-assign]

    async def session() -> None:
        for address in "2001:db8::1", "2001:db8::2:1", "2001:db8:0:1::1", "192.0.2.1":
            transport = httpx.ASGITransport(app=client.app, client=(address, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://parlance") as http:
                await http.post("/translate", json={"q": f"hallo {address}", "source": "de", "target": "en"})

    asyncio.run(session())
    assert clients[0] == clients[1]
    assert len(set(clients)) == 3


@pytest.mark.parametrize(("padding", "in_thread"), [(0, False), (LARGE_BODY_BYTES, True)])
def test_large_bodies_are_parsed_in_a_thread(padding: int, in_thread: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are the same; the event loop of these tests runs in the main thread."""
    threads: list[bool] = []

    def parse(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.current_thread() is not threading.main_thread())
        return parse_fields(*arguments, **options)

    monkeypatch.setattr(route, "parse_fields", parse)
    body = json.dumps({"q": "hallo", "source": "de", "target": "en"}) + " " * padding
    answer = Client().post_raw("/translate", body.encode())
    assert (answer.status_code, answer.json()["translatedText"]) == (200, "en:hallo")
    assert threads == [in_thread]
    wrong = Client().post_raw("/translate", b'{"q": 1, "source": "de", "target": "en"}' + b" " * padding)
    assert (wrong.status_code, wrong.json()["field"]) == (400, "q")
