"""The JDK's HttpClient, which asks for HTTP/2 with each first POST of a connection (`Upgrade: h2c`): langchain4j and
Spring AI post through it."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.posts import COMPLETION, FORM, POSTS, PROMPT, STREAM, TEXTS, check
from tests.serving import Server

pytestmark = pytest.mark.clients
CLIENTS = (
    *("sync", "sync, unknown length", "async", "async, unknown length", "new connection"),
    *("new connection, unknown length", "100-continue", "HTTP/1.1", "HTTP/1.1, unknown length"),
)


@pytest.fixture(scope="module")
def posted(server: Server) -> dict[tuple[str, str], tuple[int, str]]:
    """Status and body by client and request."""
    assert shutil.which("javac"), "javac is missing: apt-get install openjdk-17-jdk-headless"
    source = Path(__file__).parent / "java" / "Posts.java"
    bodies = [FORM, *(json.dumps(body) for body in (TEXTS, PROMPT, STREAM, COMPLETION))]
    command = ["java", "-Xmx256m", str(source), server.base, *bodies]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    return {(client, name): (int(status), base64.b64decode(body).decode()) for client, name, status, body in lines}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", POSTS)
def test_posts_are_answered(
    server: Server, posted: dict[tuple[str, str], tuple[int, str]], client: str, name: str
) -> None:
    check(server, name, *posted[client, name])


def test_nothing_else_was_posted(posted: dict[tuple[str, str], tuple[int, str]]) -> None:
    assert set(posted) == {(client, name) for client in CLIENTS for name in POSTS}
