"""Node's fetch, which is undici, and its older `http`: bodies that are known, streams, behind `100 Continue`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.conftest import Scripts
from tests.clients.posts import COMPLETION, FORM, POSTS, PROMPT, STREAM, TEXTS, check
from tests.serving import Server

pytestmark = pytest.mark.clients
CLIENTS = (
    *("fetch", "fetch, stream", "http", "http, chunked", "http, 100-continue", "http, chunked, 100-continue"),
    *("http, upgrade", "http, chunked, upgrade"),
)


@pytest.fixture(scope="module")
def posted(server: Server, node: Scripts) -> dict[str, dict[str, Any]]:
    """Status and body by client and request."""
    bodies = [FORM, *(json.dumps(body) for body in (TEXTS, PROMPT, STREAM, COMPLETION))]
    answers: dict[str, dict[str, Any]] = node("posts.mjs", server.base, *bodies)
    return answers


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", POSTS)
def test_posts_are_answered(server: Server, posted: dict[str, dict[str, Any]], client: str, name: str) -> None:
    assert {*posted} == {*CLIENTS}
    check(server, name, *posted[client][name])
