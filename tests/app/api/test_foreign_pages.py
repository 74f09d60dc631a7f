"""What a page of another origin can have a visitor's browser send, and under which names this server answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.settings import Settings
from tests.app.api.client import Client
from tests.app.api.keyed_client import ADMIN, TEXTS, USE, bearer, keys_file

EVIL = "https://evil.example"
OWN = "http://127.0.0.1:8000"
JSON = '{"q": "bier", "source": "de", "target": "en"}'
# Without a preflight, a page can send: forms, texts, and bodies without a type (fetch of a Blob that has none).
SIMPLE: dict[str, dict[str, Any]] = {
    "form": {"data": TEXTS},
    "multipart": {"files": {name: (None, value) for name, value in TEXTS.items()}},
    "text": {"content": JSON, "headers": {"content-type": "text/plain"}},
    "no type": {"content": JSON},
    "query": {"params": TEXTS},
}
FROM_ELSEWHERE = [
    {"origin": EVIL, "sec-fetch-site": "cross-site"},
    {"origin": "http://127.0.0.1:3000", "sec-fetch-site": "same-site"},  # another port is another origin
    {"origin": "null", "sec-fetch-site": "cross-site"},  # a sandboxed frame, a file, a page without a referrer
    {"sec-fetch-site": "cross-site"},
    {"origin": EVIL},  # a browser sends Sec-Fetch-Site to HTTPS and to localhost alone
    {"origin": "null"},
    {"origin": f"{OWN}.evil.example"},
    {"origin": "http://127.0.0.1:8001"},
]
WRITING = [
    ("POST", "/translate_file"),
    ("POST", "/v2/glossaries"),
    ("DELETE", "/v2/glossaries/0b5a0b1a-0000-4000-8000-000000000000"),
    ("POST", "/v2/document"),
    ("POST", "/models/tiny-de-en/load"),
    ("POST", "/models/import?model=de-en"),
    ("POST", "/nothing"),
]


@pytest.fixture(scope="module")
def client() -> Client:
    return Client()


def post(client: Client, path: str, sent: dict[str, str], **options: Any) -> Any:
    options["headers"] = {**options.get("headers", {}), **sent}
    return client.post(f"{OWN}{path}", **options)


@pytest.mark.every_value
@pytest.mark.parametrize("headers", FROM_ELSEWHERE, ids=str)
@pytest.mark.parametrize("kind", SIMPLE)
def test_page_of_another_origin_uses_no_model(client: Client, kind: str, headers: dict[str, str]) -> None:
    calls = client.engine.calls
    answer = post(client, "/translate", headers, **SIMPLE[kind])
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "PARLANCE_CORS_ORIGINS" in answer.json()["error"]
    assert client.engine.calls == calls


@pytest.mark.parametrize(("method", "path"), WRITING)
def test_page_of_another_origin_changes_nothing(client: Client, method: str, path: str) -> None:
    for headers in FROM_ELSEWHERE:
        answer = client.request(method, f"{OWN}{path}", headers=headers)
        assert answer.status_code == 403
        assert "This request comes from a page of another origin" in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": OWN, "sec-fetch-site": "same-origin"},
        {"origin": "null", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},  # typed by a person, or sent by an extension
        {"origin": OWN},
        {"origin": "HTTP://127.0.0.1:8000"},
        {"origin": "chrome-extension://abcdefghijklmnop", "sec-fetch-site": "cross-site"},
        {"origin": "moz-extension://0b5a0b1a"},
    ],
    ids=str,
)
def test_own_page_extensions_and_programs_are_answered(client: Client, headers: dict[str, str]) -> None:
    for options in SIMPLE.values():
        if options.get("headers"):  # a text is no form
            continue
        assert post(client, "/translate", headers, **options).json() == {"translatedText": "en:bier"}


@pytest.mark.parametrize("headers", FROM_ELSEWHERE, ids=str)
def test_reading_is_left_to_the_browsers_own_policy(client: Client, headers: dict[str, str]) -> None:
    """It shows no page the answer, and a link from elsewhere has to work."""
    for path in ("/", "/docs", "/health", "/languages", "/models"):
        answer = client.get(f"{OWN}{path}", headers=headers)
        assert answer.status_code == 200
        assert "access-control-allow-origin" not in answer.headers


def test_allowed_origins_are_answered() -> None:
    headers = FROM_ELSEWHERE[0]
    for origins, status in (("*", 200), (f"https://a.example,{EVIL}", 200), (f"{EVIL}:8443", 403)):
        assert post(Client(cors_origins=origins), "/translate", headers, json=TEXTS).status_code == status


def test_server_behind_a_proxy_knows_its_own_page_by_the_public_address() -> None:
    headers = {"origin": "https://mt.example.org", "host": "parlance"}
    assert post(Client(), "/translate", headers, json=TEXTS).status_code == 403
    own = Client(public_url="https://mt.example.org/below")
    assert post(own, "/translate", headers, json=TEXTS).status_code == 200
    assert post(own, "/translate", {**headers, "origin": "http://mt.example.org"}, json=TEXTS).status_code == 403


def test_a_key_in_a_header_is_no_pages_without_a_preflight(tmp_path: Path) -> None:
    """A browser keeps no such header, and asks before it sends one for a page; the answer here is no."""
    client = Client(keys_file=str(keys_file(tmp_path)), key_required=False)
    for headers in FROM_ELSEWHERE:
        assert post(client, "/translate", {**headers, **bearer(USE)}, json=TEXTS).status_code == 200
        assert post(client, "/models/tiny-de-en/reload", {**headers, **bearer(ADMIN)}).status_code == 200
        basic = {**headers, "authorization": "Basic cGFybGFuY2U6cGFybGFuY2U="}  # which a browser keeps for a proxy
        assert post(client, "/translate", basic, json=TEXTS).status_code == 403
    ask = {"origin": EVIL, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    preflight = client.request("OPTIONS", f"{OWN}/translate", headers=ask)
    assert preflight.status_code == 405
    assert not [name for name in preflight.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("place", ["cookie", "proxy-authorization", "x-key", "x-auth-token"])
def test_no_key_is_taken_from_where_browsers_keep_some(tmp_path: Path, place: str) -> None:
    client = Client(keys_file=str(keys_file(tmp_path)), admin_key="correct-horse-battery")
    for key in (USE, ADMIN, "correct-horse-battery"):
        for value in (key, f"key={key}", f"api_key={key}; Authorization=Bearer {key}", f"Bearer {key}"):
            assert client.post("/generate", json={"prompt": "a"}, headers={place: value}).status_code == 401
            assert client.post("/models/tiny-de-en/reload", headers={place: value}).status_code == 401


def test_no_answer_sets_a_cookie(client: Client) -> None:
    for path in ("/", "/docs", "/models", "/openapi.json", "/nothing"):
        assert "set-cookie" not in client.get(path).headers


STRANGE = [
    "evil.example",
    "127.0.0.1.evil.example",
    "evil.example:8000",
    "EVIL.example.",
    "a_b.evil.example",
    "x.local.evil",
]
OWN_NAMES = [
    "127.0.0.1:8000", "localhost", "LOCALHOST:8000", "[::1]:8000", "192.168.1.7", "parlance", "mt.localhost",
    "desk.local:8000", "mt.corp.internal", "nas.home.arpa", "localhost.",
]  # fmt: skip


@pytest.mark.parametrize("host", STRANGE)
def test_name_that_a_stranger_made_lead_here_is_refused(client: Client, host: str) -> None:
    for method, path in (("GET", "/"), ("GET", "/models"), ("POST", "/translate"), ("GET", "/v2/glossaries")):
        headers = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
        answer = client.request(method, f"{OWN}{path}", headers=headers)
        assert answer.status_code == 403
        assert "This server is not known as" in answer.text
        assert "PARLANCE_ALLOWED_HOSTS" in answer.text


@pytest.mark.parametrize("host", OWN_NAMES)
def test_names_of_this_machine_are_its_own(client: Client, host: str) -> None:
    for server in (OWN, "http://[::1]:8000"):
        assert client.get(f"{server}/models", headers={"host": host}).status_code == 200


def test_names_are_checked_where_a_browser_of_this_machine_could_be_led_here(tmp_path: Path) -> None:
    """A key is more than such a page has; and a server that others reach has the name that they gave it."""
    strange = {"host": "evil.example"}
    for server, settings, status in (
        (OWN, {}, 403),
        ("http://10.1.2.3:8000", {}, 200),
        (OWN, {"trusted_proxies": "127.0.0.1"}, 200),
        (OWN, {"allowed_hosts": "*"}, 200),
        (OWN, {"allowed_hosts": "mt.example, evil.EXAMPLE"}, 200),
        (OWN, {"public_url": "https://evil.example"}, 200),
        ("http://10.1.2.3:8000", {"allowed_hosts": "mt.example"}, 403),
        ("http://10.1.2.3:8000", {"allowed_hosts": "mt.example", "trusted_proxies": "127.0.0.1"}, 403),
        (OWN, {"keys_file": str(keys_file(tmp_path)), "key_required": False}, 403),
    ):
        answer = Client(**settings).get(f"{server}/languages", headers=strange)
        assert answer.status_code == status, (server, settings)
    keyed = Client(keys_file=str(keys_file(tmp_path)))
    assert keyed.get(f"{OWN}/models", headers={**strange, **bearer(USE)}).status_code == 200
    assert keyed.get(f"{OWN}/models", headers=strange).status_code == 401


@pytest.mark.parametrize("value", ["evil.example/path", "http://evil.example", "a b"])
def test_a_name_is_no_address(value: str) -> None:
    with pytest.raises(ValueError, match=r"names such as translate\.example\.org"):
        Settings(allowed_hosts=value)
