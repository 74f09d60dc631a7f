"""The byte limit at its edge, and what the app behind it sees."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.api.middleware.body_limit import BodyLimit
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


def call(messages: list[Message], headers: list[tuple[bytes, bytes]]) -> tuple[list[Message], list[Message]]:
    """What the app behind a limit of 10 bytes receives, and what is sent."""
    seen: list[Message] = []
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(await receive())
        seen.append(await receive())

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": headers, "method": "POST", "path": "/"}
    asyncio.run(BodyLimit(app, max_body_bytes=10, max_pause_s=1)(scope, receive, send))
    return seen, sent


def chunk(body: bytes, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def test_chunks_arrive_as_one_body_and_the_disconnect_after_it() -> None:
    seen, _ = call([chunk(b"abc", True), chunk(b"def", False), {"type": "http.disconnect"}], [])
    assert seen == [chunk(b"abcdef", False), {"type": "http.disconnect"}]


def test_a_client_that_leaves_midway() -> None:
    gone: Message = {"type": "http.disconnect"}
    seen, _ = call([chunk(b"abc", True), gone, gone], [])
    assert seen == [gone, gone]


@pytest.mark.parametrize("length", [b"11", b"9" * 5000])
def test_a_declared_length_is_refused_unread(length: bytes) -> None:
    messages: list[Message] = [chunk(b"a", False)]
    seen, sent = call(messages, [(b"content-length", length)])
    assert seen == []
    assert sent[0]["status"] == 413
    assert len(messages) == 1


def test_a_body_that_stops_midway_is_answered_and_its_connection_closed() -> None:
    sent: list[Message] = []
    messages = [chunk(b"abc", True)]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    async def receive() -> Message:
        if not messages:
            await asyncio.sleep(10)
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": [], "method": "POST", "path": "/"}
    asyncio.run(BodyLimit(app, max_body_bytes=10, max_pause_s=0.02)(scope, receive, send))
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
def test_each_family_is_refused_in_its_own_form(path: str, where: Callable[[Any], str]) -> None:
    answer = Client(max_body_bytes=1024, max_file_bytes=1024).post_raw(path, b" " * 1025)
    assert answer.status_code == 413
    assert where(answer.json()).startswith("This request's body is larger than the 1,024 bytes")
