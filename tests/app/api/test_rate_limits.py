"""Rates and quotas over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from app.access.authorization import KeyUsage
from app.access.key_file import Caller
from app.errors import EngineUnavailable
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine
from tests.app.api.keyed_client import OTHER, TEXTS, USE, bearer, keys_file, with_gate

THREE = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")


def left(answer: httpx.Response) -> list[str]:
    return [answer.headers[name] for name in THREE]


def test_every_answer_says_how_much_is_left_and_the_last_how_long_to_wait() -> None:
    client = Client()
    clock = with_gate(client, rates="3/minute")
    assert [left(client.post("/translate", json=TEXTS)) for _ in range(3)] == [
        ["3", "2", "60"],
        ["3", "1", "60"],
        ["3", "0", "61"],
    ]
    refused = client.post("/translate", json=TEXTS)
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert refused.json()["error"] == "That is more than 3 requests per minute; try again in 61 s."
    assert (refused.headers["Retry-After"], *left(refused)) == ("61", "3", "0", "61")
    assert refused.headers["RateLimit"] == '"minute";r=0;t=61'
    assert refused.headers["RateLimit-Policy"] == '"minute";q=3;w=60'
    clock.now_s += 60
    assert client.post("/translate", json=TEXTS).status_code == 429
    clock.now_s += 1
    assert client.post("/translate", json=TEXTS).status_code == 200
    assert client.engine.calls == 4


def test_reset_is_within_the_window_while_requests_remain() -> None:
    client = Client()
    clock = with_gate(client, rates="7/minute")
    seen = set()
    for seconds in (0.5, 3, 0.25, 20, 30, 1, 1, 1, 1, 1, 1, 45, 10, 59, 0.1, 0.1, 130):
        clock.now_s += seconds
        answer = client.post("/translate", json=TEXTS)
        _, remaining, reset = map(int, left(answer))
        assert answer.headers["RateLimit"] == f'"minute";r={remaining};t={reset}'
        assert answer.headers.get("Retry-After", str(reset)) == str(reset)
        assert 0 < reset <= 60
        seen.add(remaining)
    assert {0, 6} <= seen


def test_rate_limit_headers_name_the_tightest_rate() -> None:
    client = Client()
    with_gate(client, rates="60/minute;4/hour")
    answer = client.post("/translate", json=TEXTS)
    assert left(answer)[:2] == ["4", "3"]
    assert answer.headers["RateLimit-Policy"] == '"minute";q=60;w=60, "hour";q=4;w=3600'
    assert answer.headers["RateLimit"] == '"minute";r=59;t=60, "hour";r=3;t=3600'


def test_refusal_names_the_rate_that_refuses() -> None:
    client = Client()
    clock = with_gate(client, rates="2/second;3/minute")
    assert [client.post("/translate", json=TEXTS).status_code for _ in range(2)] == [200, 200]
    refused = client.post("/translate", json=TEXTS)
    assert (refused.headers["Retry-After"], *left(refused)) == ("2", "2", "0", "2")
    assert refused.headers["RateLimit"] == '"second";r=0;t=2, "minute";r=1;t=60'
    clock.now_s += 2
    assert client.post("/translate", json=TEXTS).status_code == 200
    refused = client.post("/translate", json=TEXTS)
    assert (refused.headers["Retry-After"], *left(refused)) == ("59", "3", "0", "59")


def test_without_limits_there_are_no_rate_limit_headers() -> None:
    answer = Client().post("/translate", json=TEXTS)
    assert not [name for name in answer.headers if name.startswith("ratelimit")]


def test_each_text_of_a_batch_is_charged() -> None:
    client = Client()
    with_gate(client, rates="10/minute")
    batch = {**TEXTS, "q": ["a", "b", "c"]}
    assert [left(client.post("/translate", json=batch))[1] for _ in range(3)] == ["7", "4", "1"]
    refused = client.post("/translate", json=batch)
    assert refused.status_code == 429
    assert left(refused)[1:] == ["1", refused.headers["Retry-After"]], "until three more fit"
    assert left(client.post("/translate", json=TEXTS))[1] == "0"


def test_batch_beyond_the_limit_is_refused_without_retry() -> None:
    client = Client()
    with_gate(client, rates="2/minute")
    answer = client.post("/translate", json={**TEXTS, "q": ["a", "b", "c"]})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert answer.json()["error"] == (
        "This request has 3 texts, each of which counts; at most 2 go into one minute. Send them in several."
    )


def test_other_routes_cost_one_and_pages_nothing() -> None:
    client = Client()
    with_gate(client, rates="5/minute")
    assert left(client.get("/models"))[1] == "4"
    assert left(client.post("/generate", json={"prompt": "雨"}))[1] == "3"
    assert left(client.post("/generate", json={"prompt": 5}))[1] == "2", "what is invalid costs one too"
    assert left(client.post("/attention", json={"source": "bier"}))[1] == "1"
    for path in ("/", "/health", "/metrics", "/languages", "/openapi.json", "/docs"):
        answer = client.get(path)
        assert (answer.status_code, "RateLimit-Limit" in answer.headers) == (200, False), path


def test_streams_have_rate_limit_headers() -> None:
    client = Client()
    with_gate(client, rates="5/minute")
    answer = client.post("/translate", json={**TEXTS, "stream": True})
    assert answer.text.startswith("event: token")
    assert left(answer)[1] == "4"


def test_concurrent_requests_never_exceed_the_limit() -> None:
    client = Client(rate_limit="20/day")

    async def all_at_once() -> list[int]:
        transport = httpx.ASGITransport(app=client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://parlance") as http:
            answers = await asyncio.gather(*(http.post("/translate", json=TEXTS) for _ in range(100)))
        return [answer.status_code for answer in answers]

    statuses = asyncio.run(all_at_once())
    assert (statuses.count(200), statuses.count(429)) == (20, 80)


def test_keys_have_their_own_counts_and_their_own_limits(tmp_path: Path) -> None:
    client = Client()
    with_gate(client, keys_file(tmp_path, rate_limit="5/minute"), rates="2/minute")
    assert left(client.post("/translate", json=TEXTS, headers=bearer(USE)))[:2] == ["2", "1"]
    assert left(client.post("/translate", json=TEXTS, headers=bearer(OTHER)))[:2] == ["5", "4"]
    assert left(client.post("/translate", json=TEXTS, headers=bearer(USE)))[:2] == ["2", "0"]
    assert client.post("/translate", json=TEXTS, headers=bearer(USE)).status_code == 429
    assert client.post("/translate", json=TEXTS, headers=bearer(OTHER)).status_code == 200


def test_a_key_may_be_without_limit(tmp_path: Path) -> None:
    client = Client()
    with_gate(client, keys_file(tmp_path, rate_limit="none"), rates="1/minute")
    for _ in range(3):
        answer = client.post("/translate", json=TEXTS, headers=bearer(OTHER))
        assert (answer.status_code, "RateLimit-Limit" in answer.headers) == (200, False)


def test_guessing_keys_is_rate_limited_by_address(tmp_path: Path) -> None:
    client = Client(admin_key="correct-horse-battery")
    with_gate(client, keys_file(tmp_path), rates="3/minute")
    body = {"prompt": "雨"}
    statuses = [client.post("/generate", json=body, headers=bearer(f"no-{n}")).status_code for n in range(5)]
    assert statuses == [401, 401, 401, 429, 429]
    assert client.post("/generate", json={"prompt": "雨"}, headers=bearer(USE)).status_code == 200


def test_guessing_the_admin_key_is_rate_limited() -> None:
    client = Client(admin_key="correct-horse-battery", rate_limit="6/day")
    path = "/models/tiny-de-en/reload"
    statuses = [client.post(path, headers=bearer(f"no-{n}")).status_code for n in range(4)]
    assert statuses == [401, 401, 401, 429]
    assert client.engine.calls == 0


def ask_from(client: Client, address: str, **headers: str) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=client.app, client=(address, 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://parlance") as http:
            return await http.post("/translate", json=TEXTS, headers=headers)

    return asyncio.run(send())


def test_addresses_are_separate_but_ipv6_networks_are_not() -> None:
    client = Client(rate_limit="1/day")
    assert ask_from(client, "192.0.2.1").status_code == 200
    assert ask_from(client, "192.0.2.1").status_code == 429
    assert ask_from(client, "192.0.2.2").status_code == 200
    assert ask_from(client, "2001:db8::1").status_code == 200
    assert ask_from(client, "2001:db8::2").status_code == 429
    assert ask_from(client, "2001:db8:0:1::1").status_code == 200


def test_forwarded_headers_are_ignored() -> None:
    client = Client(rate_limit="1/day")
    assert ask_from(client, "127.0.0.1").status_code == 200
    assert ask_from(client, "127.0.0.1", **{"X-Forwarded-For": "198.51.100.7"}).status_code == 429


def test_a_trusted_proxy_is_believed_and_what_its_client_invented_is_not() -> None:
    client = Client(rate_limit="1/day", trusted_proxies="10.0.0.0/8, 192.0.2.9")

    def ask(forwarded: str, proxy: str = "10.1.2.3") -> int:
        return ask_from(client, proxy, **{"X-Forwarded-For": forwarded}).status_code

    assert ask("198.51.100.7") == 200
    assert ask("198.51.100.7") == 429
    assert ask("203.0.113.1, 198.51.100.7") == 429, "only the last that no proxy of ours has written counts"
    assert ask("198.51.100.8, 192.0.2.9") == 200, "two proxies"
    assert ask("198.51.100.8, 10.9.9.9", "192.0.2.9") == 429
    assert ask("198.51.100.9", "203.0.113.50") == 200, "not a proxy of ours: counted as what it is"
    assert ask("198.51.100.10", "203.0.113.50") == 429


def test_a_quota_of_characters(tmp_path: Path) -> None:
    client = Client()
    clock = with_gate(client, keys_file(tmp_path, quota="20/month"), quotas="10/day")
    batch = {**TEXTS, "q": ["bier", "\U0001f37a"]}
    assert client.post("/translate", json=batch, headers=bearer(USE)).status_code == 200
    refused = client.post("/translate", json={**TEXTS, "q": "123456"}, headers=bearer(USE))
    assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
    assert refused.json()["error"] == (
        "This key's quota is 10 characters per day, of which 5 are left; this request has 6. The next day begins at"
        " 00:00 UTC."
    )
    assert (refused.headers["Retry-After"], *left(refused)) == ("43200", "10", "5", "43200")
    assert refused.headers["RateLimit"] == '"characters-day";r=5;t=43200'
    assert refused.headers["RateLimit-Policy"] == '"characters-day";q=10;qu="characters"'
    assert client.post("/translate", json={**TEXTS, "q": "12345"}, headers=bearer(USE)).status_code == 200
    assert client.post("/translate", json={**TEXTS, "q": "1" * 20}, headers=bearer(OTHER)).status_code == 200
    assert client.post("/translate", json={**TEXTS, "q": "1"}, headers=bearer(OTHER)).status_code == 429
    clock.now_s += 43_200
    assert client.post("/translate", json={**TEXTS, "q": "1"}, headers=bearer(USE)).status_code == 200
    clock.now_s += 8 * 86_400
    assert client.post("/translate", json={**TEXTS, "q": "1"}, headers=bearer(OTHER)).status_code == 200


def test_failed_request_costs_no_characters(tmp_path: Path) -> None:
    client = Client(FakeEngine(failure=EngineUnavailable("No device is ready.")))
    with_gate(client, keys_file(tmp_path), quotas="4/month")
    for _ in range(3):
        assert client.post("/translate", json=TEXTS, headers=bearer(USE)).status_code == 503
    client.engine.failure = None
    assert client.post("/translate", json=TEXTS, headers=bearer(USE)).status_code == 200
    assert client.post("/translate", json=TEXTS, headers=bearer(USE)).status_code == 429


@pytest.mark.parametrize(
    ("path", "body", "characters"),
    [
        ("/translate", {**TEXTS, "q": ["ab", "c"]}, 3),
        ("/generate", {"prompt": "雨停"}, 2),
        ("/attention", {"source": "bier", "target": "beer"}, 8),
        ("/score", {"text": "分开"}, 2),
        ("/gates", {"text": "分开"}, 2),
        ("/walkthrough", {"source": "bier"}, 4),
    ],
)
def test_usage(tmp_path: Path, path: str, body: dict[str, object], characters: int) -> None:
    client = Client()
    with_gate(client, keys_file(tmp_path, quota="500/month;100/day"))
    gate = client.app.state.services.access
    for key in (USE, OTHER):
        assert client.post(path, json=body, headers=bearer(key)).status_code == 200
    use, other = gate.caller([USE], ""), gate.caller([OTHER], "")
    assert asyncio.run(gate.usage(use)) == KeyUsage(characters, None)
    assert asyncio.run(gate.usage(other)) == KeyUsage(characters, 100)
    assert asyncio.run(gate.usage(Caller("anonymous"))) == KeyUsage(0, None)


def test_unreadable_body_is_charged_to_its_key_or_address(tmp_path: Path) -> None:
    client = Client()
    with_gate(client, keys_file(tmp_path, rate_limit="2/minute"), rates="3/minute")
    broken = {"content": b"{", "headers": {"Content-Type": "application/json"}}
    assert [client.post("/translate", **broken).status_code for _ in range(4)] == [400, 400, 400, 429]
    broken["headers"] = {"Content-Type": "image/png", **bearer(OTHER)}
    assert [client.post("/translate", **broken).status_code for _ in range(3)] == [415, 415, 429]
    assert client.post("/translate", json=TEXTS, headers=bearer(OTHER)).status_code == 429
    assert client.engine.calls == 0


def test_a_stream_that_is_refused_costs_no_characters(tmp_path: Path) -> None:
    engine = FakeEngine(failure=EngineUnavailable("Try again."))
    client = Client(engine)
    with_gate(client, keys_file(tmp_path, quota="8/day"))
    stream = {"json": {**TEXTS, "stream": True}, "headers": bearer(OTHER)}
    assert [client.post("/translate", **stream).status_code for _ in range(4)] == [503] * 4
    engine.failure = None
    assert [client.post("/translate", **stream).status_code for _ in range(3)] == [200, 200, 429]
