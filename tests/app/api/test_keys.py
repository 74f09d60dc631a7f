"""API keys over HTTP: where they are read from, and what they open; test_route_access.py has every route."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Settings
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine
from tests.app.api.keyed_client import ADMIN, OTHER, TEXTS, USE, bearer, keys_file

MISSING = (
    "This server needs an API key: send yours as the header Authorization: Bearer KEY{}; whoever runs the server gives"
    " them out."
)


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(keys_file=str(keys_file(tmp_path)))


@pytest.mark.parametrize(
    "headers",
    [
        bearer(USE),
        {"authorization": f"bearer  {USE} "},
        {"Authorization": f"DeepL-Auth-Key {USE}"},
        {"X-API-Key": USE},
        {"KEY": USE},
        {"x-goog-api-key": USE},
        {"Authorization": "Bearer wrong", "X-API-Key": USE},
    ],
)
def test_a_key_in_a_header_opens(client: Client, headers: dict[str, str]) -> None:
    assert client.post("/translate", json=TEXTS, headers=headers).json() == {"translatedText": "en:bier"}
    assert client.post("/generate", json={"prompt": "雨"}, headers=headers).status_code == 200
    assert client.get("/models", headers=headers).status_code == 200


def test_libretranslates_clients_send_it_in_the_body_the_form_or_the_query(client: Client) -> None:
    keyed = {**TEXTS, "api_key": USE}
    assert client.post("/translate", json=keyed).json() == {"translatedText": "en:bier"}
    assert client.post("/translate", data=keyed).json() == {"translatedText": "en:bier"}
    assert client.post("/translate", params=keyed).json() == {"translatedText": "en:bier"}
    assert client.post(f"/translate?api_key={USE}", json=TEXTS).json() == {"translatedText": "en:bier"}
    assert client.post(f"/generate?api_key={USE}", json={"prompt": "雨"}).status_code == 401, "not of that family"
    assert client.post("/translate", json={**TEXTS, "api_key": [USE]}).status_code == 400


def test_missing_and_invalid_keys(client: Client) -> None:
    missing = client.post("/generate", json={"prompt": "雨"})
    assert (missing.status_code, missing.json()["code"]) == (401, "key_missing")
    assert missing.json()["error"] == MISSING.format("")
    assert missing.headers["WWW-Authenticate"] == 'Bearer realm="parlance"'
    wrong = client.post("/generate", json={"prompt": "雨"}, headers=bearer("wrong"))
    assert (wrong.status_code, wrong.json()["code"]) == (401, "key_wrong")
    assert wrong.headers["WWW-Authenticate"] == 'Bearer realm="parlance"'
    assert wrong.json()["error"].startswith("Invalid API key: this server does not know it")
    empty = client.post("/generate", json={"prompt": "雨"}, headers={"Authorization": "Bearer "})
    assert empty.json()["code"] == "key_missing"
    assert client.engine.calls == 0


def test_libretranslates_statuses(client: Client) -> None:
    missing = client.post("/translate", json=TEXTS)
    assert (missing.status_code, missing.json()["error"]) == (400, MISSING.format(', or as "api_key", or as "apiKey"'))
    wrong = client.post("/translate", json={**TEXTS, "api_key": "wrong"})
    assert (wrong.status_code, wrong.json()["error"].split(":")[0]) == (403, "Invalid API key")


@pytest.mark.parametrize("key", ["schlüssel".encode(), b"\xff\xfe", b"a" * 8000, b"plk_"])
def test_a_header_may_hold_anything(client: Client, key: bytes) -> None:
    answer = client.post("/generate", json={"prompt": "雨"}, headers={"Authorization": b"Bearer " + key})
    assert answer.status_code == 401


@pytest.mark.parametrize("key", ["\ud800", "\x00", "é" * 100_000])
def test_a_field_may_hold_anything(client: Client, key: str) -> None:
    body = json.dumps({**TEXTS, "api_key": key}).encode()
    assert client.post_raw("/translate", body).status_code == 403


def test_key_is_checked_before_the_fields(client: Client) -> None:
    assert client.post("/translate", json={"q": 5}).json()["code"] == "key_missing"
    assert client.post("/translate", json={"q": 5, "api_key": USE}).json()["field"] == "q"


def test_scopes(client: Client) -> None:
    path = "/models/tiny-de-en/reload"
    refused = client.post(path, headers=bearer(USE))
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
    assert refused.json()["error"].startswith("This key may use models and not change them")
    assert client.engine.calls == 0
    assert client.post(path, headers=bearer(ADMIN)).status_code == 200
    assert client.post("/translate", json=TEXTS, headers=bearer(ADMIN)).status_code == 200
    assert client.post(path, headers=bearer("wrong")).status_code == 401


def test_the_admin_key_of_the_settings_goes_on_working(tmp_path: Path) -> None:
    operator = "correct-horse-battery"
    client = Client(keys_file=str(keys_file(tmp_path)), admin_key=operator)
    assert client.post("/models/tiny-de-en/reload", headers=bearer(operator)).status_code == 200
    assert client.post("/translate", json=TEXTS, headers=bearer(operator)).status_code == 200


def test_without_a_file_everything_is_open_whatever_key_is_sent() -> None:
    for client in (Client(), Client(admin_key="correct-horse-battery"), Client(rate_limit="60/minute")):
        for headers in ({}, bearer("whatever")):
            assert client.post("/translate", json={**TEXTS, "api_key": "x"}, headers=headers).status_code == 200
            assert client.get("/models", headers=headers).status_code == 200


def test_optional_key_must_be_valid(tmp_path: Path) -> None:
    client = Client(keys_file=str(keys_file(tmp_path)), key_required=False)
    assert client.post("/translate", json=TEXTS).status_code == 200
    assert client.post("/translate", json=TEXTS, headers=bearer(OTHER)).status_code == 200
    assert client.post("/translate", json=TEXTS, headers=bearer("wrong")).status_code == 403


def test_a_wrong_file_ends_the_start_with_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    with pytest.raises(SystemExit, match=r"Parlance cannot start: The keys file .* cannot be read"):
        create_app(Settings(keys_file=str(file)), FakeEngine())
    file.write_text("{}")
    with pytest.raises(SystemExit, match=r'Parlance cannot start: Line 1 .* needs a "name"'):
        create_app(Settings(keys_file=str(file)), FakeEngine())


def test_refusals_are_counted_by_their_code_alone(client: Client) -> None:
    client.post("/translate", json=TEXTS)
    client.post("/translate", json=TEXTS, headers=bearer("plk_wrong"))
    text = client.get("/metrics").text
    assert 'parlance:request_refused_total{reason="key_missing"} 1.0' in text
    assert 'parlance:request_refused_total{reason="key_wrong"} 1.0' in text
    client.post("/translate", json=TEXTS, headers=bearer(USE))
    text = client.get("/metrics").text
    assert all(secret not in text for secret in ("plk_", "shop", "127.0.0.1"))


def test_other_origins_may_send_keys_and_read_limits(tmp_path: Path) -> None:
    client = Client(keys_file=str(keys_file(tmp_path)), cors_origins="https://example.org", rate_limit="60/minute")
    headers = {
        "Origin": "https://example.org",
        "Access-Control-Request-Method": "DELETE",
        "Access-Control-Request-Headers": "authorization, x-api-key, key, x-goog-api-key, x-stainless-os, traceparent",
    }
    assert client.request("OPTIONS", "/translate", headers=headers).status_code == 200, "without a key"
    answer = client.post("/translate", json=TEXTS, headers={"Origin": "https://example.org", **bearer(USE)})
    exposed = answer.headers["Access-Control-Expose-Headers"].split(", ")
    assert {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit", "Retry-After"} <= set(exposed)
