"""Whatever is sent to whatever endpoint: 4xx, one sentence, our body form, and no request for the engine."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.app.api.client import Client
from tests.app.api.test_errors import REQUESTS

TEXT_FIELDS = [
    ("/translate", "q"),
    ("/translate", "source"),
    ("/translate", "target"),
    ("/translate", "format"),
    ("/translate", "model"),
    ("/generate", "prompt"),
    ("/generate", "stop"),
    ("/generate", "model"),
    ("/attention", "source"),
    ("/attention", "target"),
    ("/attention", "model"),
    ("/gates", "text"),
    ("/gates", "model"),
    ("/gates", "encoding"),
    ("/score", "source"),
    ("/score", "target"),
    ("/score", "text"),
    ("/score", "distribution"),
    ("/score", "model"),
]
NUMBER_FIELDS = [
    ("/translate", "alternatives"),
    ("/translate", "beam_size"),
    ("/translate", "length_penalty"),
    ("/translate", "max_new_tokens"),
    ("/translate", "no_repeat_ngram_size"),
    ("/generate", "max_new_tokens"),
    ("/generate", "temperature"),
    ("/generate", "top_k"),
    ("/generate", "top_p"),
    ("/generate", "seed"),
    ("/generate", "n"),
    ("/attention", "layers"),
    ("/attention", "heads"),
    ("/gates", "layers"),
    ("/gates", "units"),
    ("/gates", "top_k"),
    ("/gates", "decimals"),
    ("/score", "top_k"),
]
BODIES = {
    "empty": b"",
    "space": b" ",
    "broken": b'{"q":',
    "trailing": b"{} {}",
    "list": b"[]",
    "null": b"null",
    "number": b"5",
    "text": b'"q"',
    "true": b"true",
    "no fields": b"{}",
    "latin-1": '{"q": "ä", "prompt": "ä", "source": "ä"}'.encode("latin-1"),
    "utf-16": '{"q": "a"}'.encode("utf-16"),
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
    "NaN": b'{"n": NaN}',
    "Infinity": b'{"n": -Infinity}',
    "repeated": b'{"q": "a", "q": "b"}',
    "repeated inside": b'{"q": {"a": 1, "a": 2}}',
    "half a character as a name": b'{"\\ud800": 1, "\\ud800": 2}',
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"q":' * 100_000,
    "deep and closed": b'{"q":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "digits": b'{"n": ' + b"1" * 5000 + b"}",
    "too large": b" " * 10_000_000,
}
BOMB = gzip.compress(b" " * 20_000_000, 1)  # the quickest: it is made whenever tests are collected


@pytest.fixture(scope="module")
def app_client() -> Client:
    return Client()


@pytest.fixture
def client(app_client: Client) -> Client:
    """One app for all of them, which is quick; each counts the engine's calls from 0."""
    app_client.engine.calls = 0
    return app_client


def assert_refused(client: Client, answer: Any, field: str | None = None) -> None:
    assert 400 <= answer.status_code < 500, answer.text
    body = answer.json()
    assert set(body) == {"error", "code", "field", "request_id"}
    assert body["request_id"] == answer.headers["X-Request-Id"]
    assert len(body["error"].split()) > 3
    assert body["error"].endswith(".")
    assert len(body["error"]) < 500
    if field is not None:
        assert body["field"] == field
    assert client.engine.calls == 0


@pytest.mark.every_value
@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("name", BODIES)
def test_bodies(client: Client, path: str, name: str) -> None:
    answer = client.post_raw(path, BODIES[name])
    assert_refused(client, answer)
    assert answer.status_code == (413 if name == "too large" else 400 if path == "/translate" else 422)


@pytest.mark.every_value
@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize(
    "content_type", ["text/plain", "multipart/form-data; boundary=x", "application/xml", "nonsense", "a/b\\\x01"]
)
def test_content_types(client: Client, path: str, content_type: str) -> None:
    answer = client.post_raw(path, json.dumps(REQUESTS[path]).encode(), content_type)
    if content_type in ("nonsense", "a/b\\\x01"):  # an invalid content type
        assert_refused(client, answer)
    elif content_type.startswith("multipart") and path == "/translate":  # a form, but this is none
        assert answer.status_code == 400
        assert_refused(client, answer)
    else:
        assert answer.status_code == 415
        assert_refused(client, answer)


@pytest.mark.every_value
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "x-gzip"])
@pytest.mark.parametrize("path", REQUESTS)
def test_a_compressed_body_is_never_unpacked(client: Client, path: str, encoding: str) -> None:
    """A gigabyte of spaces is a megabyte of gzip, and five kilobytes of gzip in gzip."""
    tracemalloc.start()
    headers = {"content-type": "application/json", "content-encoding": encoding}
    answer = client.request("POST", path, content=BOMB, headers=headers)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status_code == (400 if path == "/translate" else 422)
    assert answer.json()["error"] == "The body is not UTF-8; send it as UTF-8, without compression."
    assert_refused(client, answer)
    assert most < 5_000_000


@pytest.mark.parametrize("path", ["/generate", "/attention"])
def test_forms_are_for_libretranslates_clients_only(client: Client, path: str) -> None:
    answer = client.post_raw(path, b"prompt=a", "application/x-www-form-urlencoded")
    assert answer.status_code == 415
    assert_refused(client, answer)


def test_json_without_its_header_is_told_so(client: Client) -> None:
    """`curl -d` says that it sends a form."""
    answer = client.post_raw("/translate", b' {"q": "a"}', "application/x-www-form-urlencoded")
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert answer.json()["error"].endswith("send Content-Type: application/json.")


@pytest.mark.parametrize(
    "form", [b"q=%ff&source=de&target=en", b"\xff", b"&".join(b"a%d=1" % index for index in range(2000)), b"q=a"]
)
def test_forms(client: Client, form: bytes) -> None:
    answer = client.post_raw("/translate", form, "application/x-www-form-urlencoded")
    assert answer.status_code == 400
    assert_refused(client, answer)


@pytest.mark.every_value
@pytest.mark.parametrize(("path", "field"), TEXT_FIELDS)
@pytest.mark.parametrize(
    "value", [5, -1.5, True, {}, [5], [None], [["a"]], "", "\ud800", "a\udfffb", "\0", 10**400], ids=repr
)
def test_texts(client: Client, path: str, field: str, value: Any) -> None:
    answer = client.post_raw(path, json.dumps(REQUESTS[path] | {field: value}).encode())
    assert_refused(client, answer, field)


@pytest.mark.every_value
@pytest.mark.parametrize(("path", "field"), NUMBER_FIELDS)
@pytest.mark.parametrize(
    "value",
    ["abc", "", "\ud800", True, {}, [], [[]], ["a"], [None], [1.5], -1, 10**18, 10**400, -(10**400), 1e300],
    ids=lambda value: repr(value)[:20],
)
def test_numbers(client: Client, path: str, field: str, value: Any) -> None:
    if field == "seed" and value == 10**18:
        return
    answer = client.post_raw(path, json.dumps(REQUESTS[path] | {field: value}).encode())
    assert_refused(client, answer, field)


@pytest.mark.parametrize(("path", "field"), [each for each in NUMBER_FIELDS if each[0] == "/generate"])
def test_numbers_beyond_floats(client: Client, path: str, field: str) -> None:
    body = json.dumps(REQUESTS[path] | {field: 0}).replace(": 0}", ": 1e999}")
    assert_refused(client, client.post_raw(path, body.encode()), field)


@pytest.mark.parametrize("path", REQUESTS)
def test_a_required_field_that_is_missing_or_null(client: Client, path: str) -> None:
    for field in REQUESTS[path]:
        rest = {name: value for name, value in REQUESTS[path].items() if name != field}
        assert_refused(client, client.post(path, json=rest), field)
        assert_refused(client, client.post(path, json=rest | {field: None}), field)


def test_several_problems_are_reported_at_once(client: Client) -> None:
    answer = client.post("/translate", json={"alternatives": -1})
    assert answer.json()["error"] == (
        '2 problems: "q", "source" and "target" are missing, add them to the request, as the example at /docs does;'
        ' "alternatives" is -1, it takes 0 or more.'
    )


@pytest.mark.parametrize("path", REQUESTS)
def test_a_body_in_chunks_is_refused_when_it_grows_too_large(client: Client, path: str) -> None:
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 10_000
            yield b" " * 10_000

    answer = client.post(path, content=chunks(), headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert_refused(client, answer)
    assert sent < 2_100_000
