"""The limits of a body at their edges, and what the route gets of it."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import Message

from app.api.request_body import ClientDisconnected, RequestLimits, UploadRoom, read_body
from app.errors import Overloaded
from app.settings import Settings
from tests.app.api.client import Client


@pytest.mark.parametrize(("spare_bytes", "status"), [(0, 200), (-1, 413)])
def test_the_limit_is_exact(spare_bytes: int, status: int) -> None:
    body = json.dumps({"prompt": "a" * 2000}).encode()
    client = Client(max_body_bytes=len(body) + spare_bytes)
    answer = client.post_raw("/generate", body)
    assert answer.status_code == status


def test_the_sentence_names_the_limit() -> None:
    answer = Client(max_body_bytes=1024).post_raw("/generate", b" " * 1025)
    assert answer.json()["error"] == (
        "This request's body is larger than the 1,024 bytes that this server takes; send it in parts."
    )


def read(messages: list[Message], headers: list[tuple[bytes, bytes]], max_pause_s: float = 1, **settings: Any) -> bytes:
    """The body of these messages, with a limit of 10 bytes; waits for a message after the last one."""

    async def receive() -> Message:
        if not messages:
            await asyncio.sleep(10)
        return messages.pop(0)

    scope = {"type": "http", "headers": headers, "method": "POST", "path": "/", "state": {}}
    limits = Settings(request_timeout_s=max_pause_s, **settings).section(RequestLimits)
    return asyncio.run(read_body(Request(scope, receive), 10, limits, UploadRoom(limits)))


def test_a_body_that_trickles_is_refused() -> None:
    """Though no pause is long."""

    async def run() -> None:
        async def receive() -> Message:
            await asyncio.sleep(0.02)
            return chunk(b"", True)

        limits = Settings(body_timeout_s=0.1).section(RequestLimits)
        scope = {"type": "http", "headers": [], "method": "POST", "path": "/", "state": {}}
        await read_body(Request(scope, receive), 10, limits, UploadRoom(limits))

    with pytest.raises(HTTPException) as excinfo:
        asyncio.run(run())
    assert excinfo.value.status_code == 408
    assert excinfo.value.detail == "This request's body comes at less than 1,000 bytes per second; send it again."


def test_each_byte_gives_a_body_time() -> None:
    """6 bytes at 1 per second give 6 s beyond the timeout."""

    async def run() -> bytes:
        messages = [chunk(b"abcdef", True), chunk(b"g", False)]

        async def receive() -> Message:
            await asyncio.sleep(0.1 * (len(messages) == 1))
            return messages.pop(0)

        limits = Settings(body_timeout_s=0.02, min_body_bytes_per_s=1).section(RequestLimits)
        scope = {"type": "http", "headers": [], "method": "POST", "path": "/", "state": {}}
        return await read_body(Request(scope, receive), 10, limits, UploadRoom(limits))

    assert asyncio.run(run()) == b"abcdefg"


def upload(client: str) -> dict[str, Any]:
    return {"client": (client, 1), "state": {}}


def test_uploads_of_all_requests_are_bounded_and_one_client_gets_half() -> None:
    megabyte = 1_000_000
    settings = Settings(max_uploaded_bytes=4 * megabyte, max_body_bytes=megabyte, max_file_bytes=megabyte)
    room = UploadRoom(settings.section(RequestLimits))
    first, second, third = upload("192.0.2.1"), upload("192.0.2.1"), upload("192.0.2.2")
    for size_bytes in (megabyte // 2, megabyte):  # as it comes
        room.take(first, size_bytes)
    room.take(second, megabyte)
    with pytest.raises(Overloaded) as excinfo:
        room.take(upload("192.0.2.1"), 70_000)
    assert excinfo.value.reason == "overloaded_uploads"
    room.take(upload("192.0.2.1"), 65_536)
    room.take(third, megabyte)
    room.take(upload("192.0.2.2"), megabyte)
    with pytest.raises(Overloaded):
        room.take(upload("192.0.2.3"), 70_000)
    room.release(third)
    room.take(upload("192.0.2.3"), 70_000)
    with pytest.raises(Overloaded):
        room.take(upload("192.0.2.1"), 70_000)
    room.release(first)
    room.take(upload("192.0.2.1"), megabyte)


def test_an_upload_without_room_is_refused_and_room_is_given_back_after_each_request() -> None:
    client = Client(max_uploaded_bytes=200_000, max_body_bytes=200_000, max_file_bytes=200_000)
    body = json.dumps({"prompt": "a" * 1000, "stop": None}).encode().ljust(150_000)
    for _ in range(3):
        assert client.post_raw("/generate", body).status_code == 200
    assert client.post_raw("/generate", body[1:]).status_code == 422
    assert client.post_raw("/generate", body).status_code == 200


def chunk(body: bytes, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def test_chunks_are_joined_and_the_disconnect_after_them_is_left() -> None:
    messages = [chunk(b"abc", True), chunk(b"def", False), {"type": "http.disconnect"}]
    assert read(messages, []) == b"abcdef"
    assert messages == [{"type": "http.disconnect"}]


def test_chunks_beyond_the_limit_are_refused_as_soon_as_they_are_there() -> None:
    messages = [chunk(b"abcdef", True), chunk(b"ghijkl", True), chunk(b"mn", False)]
    with pytest.raises(HTTPException) as excinfo:
        read(messages, [])
    assert excinfo.value.status_code == 413
    assert len(messages) == 1


def test_a_disconnect_midway() -> None:
    with pytest.raises(ClientDisconnected):
        read([chunk(b"abc", True), {"type": "http.disconnect"}], [])


@pytest.mark.parametrize("length", [b"11", b"9" * 5000])
def test_a_declared_length_is_refused_unread(length: bytes) -> None:
    messages: list[Message] = [chunk(b"a", False)]
    with pytest.raises(HTTPException) as excinfo:
        read(messages, [(b"content-length", length)])
    assert excinfo.value.status_code == 413
    assert len(messages) == 1


def test_a_body_that_stops_midway_is_answered_and_its_connection_closed() -> None:
    client = Client(request_timeout_s=0.02)
    sent: list[Message] = []
    messages = [chunk(b"abc", True)]

    async def receive() -> Message:
        if not messages:
            await asyncio.sleep(10)
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": [], "method": "POST", "path": "/generate", "query_string": b""}
    asyncio.run(client.app(scope, receive, send))
    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]
    assert json.loads(sent[1]["body"])["error"] == (
        "Nothing of this request's body came for 0.02 seconds; send it again."
    )


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("/translate", lambda body: body["error"]),
        ("/v2/translate", lambda body: body["message"]),
        ("/v1/completions", lambda body: body["error"]["message"]),
        ("/language/translate/v2", lambda body: body["error"]["errors"][0]["message"]),
        ("/v2/document", lambda body: body["message"]),
        ("/deeplx", lambda body: body["message"]),
        ("/nothing", lambda body: body["error"]),
    ],
)
def test_each_protocol_has_its_own_error_body(path: str, where: Callable[[Any], str]) -> None:
    answer = Client(max_body_bytes=1024, max_file_bytes=1024).post_raw(path, b" " * 1025)
    assert answer.status_code == 413
    assert where(answer.json()).startswith("This request's body is larger than the 1,024 bytes")


def test_a_body_in_small_pieces_takes_the_memory_of_its_bytes() -> None:
    """In a list of its pieces it took twenty times as much, of which `UploadRoom` knew nothing."""
    pieces = 10_000
    left = iter(range(pieces))

    async def receive() -> Message:
        await asyncio.sleep(0)
        number = next(left)
        return {"type": "http.request", "body": number.to_bytes(4, "big"), "more_body": number + 1 < pieces}

    limits = Settings().section(RequestLimits)
    scope = {"type": "http", "headers": [], "method": "POST", "path": "/", "state": {}}
    request, room = Request(scope, receive), UploadRoom(limits)
    tracemalloc.start()
    try:
        body = asyncio.run(read_body(request, 10**6, limits, room))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert body == b"".join(number.to_bytes(4, "big") for number in range(pieces))
    assert most < 5 * len(body)
