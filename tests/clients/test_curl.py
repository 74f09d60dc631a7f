"""curl, which asks for HTTP/2 with `--http2`, and waits for `100 Continue` before a long body."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.posts import COMPLETION, FILE, FORM, POSTS, PROMPT, STREAM, TEXTS, check
from tests.serving import Server

pytestmark = pytest.mark.clients
VERSIONS = ("--http2", "--http1.1", "--http1.0")
JSON = ("-H", "Content-Type: application/json")
CHUNKED = ("-H", "Transfer-Encoding: chunked")
PATHS = {"form": "/translate", "json": "/translate", "completion": "/v1/completions", "file": "/translate_file"}


def curl(server: Server, path: str, *options: str) -> tuple[int, str]:
    """Status and body. Fails where curl does."""
    assert shutil.which("curl"), "curl is missing: apt-get install curl"
    command = ["curl", "-sS", "--noproxy", "*", "--max-time", "60", "-w", "\n%{http_code}", *options]
    done = subprocess.run([*command, server.base + path], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def options_of(name: str, folder: Path) -> list[str]:
    if name == "form":
        return [word for field in FORM.split("&") for word in ("-d", field)]
    if name == "file":
        (folder / "a.txt").write_bytes(FILE)
        return ["-F", "source=de", "-F", "target=en", "-F", f"file=@{folder / 'a.txt'}"]
    body = {"json": TEXTS, "generate": PROMPT, "stream": STREAM, "completion": COMPLETION}[name]
    return [*JSON, "-d", json.dumps(body)]


@pytest.mark.parametrize("more", [(), CHUNKED, ("-H", "Expect: 100-continue")], ids=["", "chunked", "100-continue"])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", POSTS)
def test_posts_are_answered(server: Server, tmp_path: Path, name: str, version: str, more: tuple[str, ...]) -> None:
    if version == "--http1.0" and more == CHUNKED:
        pytest.skip("HTTP/1.0 has no chunks, and curl does not send any")
    path = PATHS.get(name, "/generate")
    check(server, name, *curl(server, path, version, *more, *options_of(name, tmp_path)))


@pytest.mark.parametrize("version", VERSIONS)
def test_several_on_one_connection_are_answered(server: Server, version: str) -> None:
    url = server.base + "/translate"
    status, body = curl(server, "/translate", version, *JSON, "-d", json.dumps(TEXTS), url, url)
    assert (status, body.count("\n200"), body.count("translatedText")) == (200, 2, 3)


@pytest.mark.parametrize("version", ["--http2", "--http1.1"])
def test_a_long_upload_is_answered(server: Server, tmp_path: Path, version: str) -> None:
    """Behind `100 Continue`, in many packets, of a length that curl does not know."""
    text = "hallo welt. " * 10_000
    (tmp_path / "body").write_text(json.dumps({**TEXTS, "q": [text[:2000]]}) + " " * 1_500_000)
    options = [version, *JSON, "-X", "POST", "-T", str(tmp_path / "body")]
    for more in ([], [*CHUNKED]):
        status, body = curl(server, "/translate", *options, *more)
        assert status == 200, body
        assert len(json.loads(body)["translatedText"]) == 1
