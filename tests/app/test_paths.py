"""No name that a client sends leads out of a folder: raw paths, as no client library would clean them, to a real
server, and names inside bodies."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import Server, serving

pytestmark = pytest.mark.slow  # a server of its own
KEY = "a-key-of-the-tests-long-enough"
SECRET = b"what lies outside of every folder"
CLIMBS = """
    ../outside ..%2foutside %2e%2e/outside %2e%2e%2foutside ..%252foutside %252e%252e%252foutside ..\\outside
    ..%5coutside
    ..%c0%afoutside ..%e0%80%afoutside %ef%bc%8e%ef%bc%8e/outside ....//outside .%2e/outside ./../outside ..;/outside
    x/../../outside ..%00/outside ../outside%00 %00 .. . %2f ..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd /etc/passwd
    %2fetc%2fpasswd //etc/passwd file:%2f%2f%2fetc%2fpasswd C:%5cWindows ~ ~root .hidden outside@1 link
""".split()  # noqa: SIM905
PLACES = [
    tuple(line.split())
    for line in """
        POST /models/{}/load
        POST /models/{}/reload
        POST /models/{}/unload
        GET /models/{}/curves
        POST /models/import?model={}
        DELETE /models/imports/{}
        GET /v1/models/{}
        GET /download_file/{}
        GET /assets/{}
        GET /docs-assets/{}
        GET /docs/{}
        GET /{}
        POST /v2/document/{}
        POST /v2/document/{}/result
        GET /v2/glossaries/{}
        GET /v2/glossaries/{}/entries
        DELETE /v2/glossaries/{}
        GET /v3/glossaries/{}
    """.splitlines()
    if line.strip()
]
BODIES = [
    ("/translate", {"q": "bier", "source": "de", "target": "en", "model": "{}"}),
    ("/translate", {"q": "bier", "source": "{}", "target": "en"}),
    ("/translate", {"q": "bier", "source": "de", "target": "en", "glossary": "{}"}),
    ("/generate", {"prompt": "a", "model": "{}"}),
    ("/v1/completions", {"prompt": "a", "model": "{}"}),
    ("/score", {"source": "a", "target": "b", "model": "{}"}),
    ("/v2/translate", {"text": ["bier"], "source_lang": "DE", "target_lang": "EN", "glossary_id": "{}"}),
]


@pytest.fixture(scope="module")
def server(tiny_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """Its checkpoints and its data lie beside a sound checkpoint, and a file, that are no business of a client's."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copytree(tiny_checkpoints / "tiny-de-en", folder / "checkpoints" / "tiny-de-en")
    for outside in (folder / "outside", folder / "checkpoints" / ".hidden", folder / "data" / "outside"):
        shutil.copytree(tiny_checkpoints / "tiny-en-es", outside)
        (outside / "metrics.jsonl").write_bytes(SECRET)
    for place in (folder, folder / "data", folder / "data" / "files"):
        place.mkdir(exist_ok=True)
        (place / "outside.txt").write_bytes(SECRET)
    with serving(folder / "checkpoints", folder, ADMIN_KEY=KEY, DATA=str(folder / "data")) as started:
        yield started, folder


def send(server: Server, method: str, path: str, body: bytes = b"{}") -> tuple[int, bytes]:
    """The status and the whole answer to a request whose path is sent as it is."""
    host, port = server.base.removeprefix("http://").split(":")
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nX-Api-Key: {KEY}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    received = b""
    with socket.create_connection((host, int(port)), 30) as client:
        client.sendall(head.encode() + body)
        while part := client.recv(65536):
            received += part
    return int(received.split(b" ", 2)[1]), received


def holds_nothing(received: bytes) -> bool:
    return SECRET not in received and b"root:" not in received


@pytest.mark.parametrize(("method", "place"), PLACES)
def test_names_in_addresses(server: tuple[Server, Path], method: str, place: str) -> None:
    started, folder = server
    before = sorted(path.name for path in folder.rglob("*"))
    for name in CLIMBS:
        status, received = send(started, method, place.format(name))
        if place in ("/{}", "/assets/{}", "/docs/{}", "/models/{}/unload") and name in (".", "..", "%2f"):
            assert status in (200, 307, 400, 404, 405), name  # the page itself, at most
        else:
            assert 400 <= status < 500, name
        assert holds_nothing(received), name
    assert [model["name"] for model in started.ask("/models")] == ["tiny-de-en"]
    assert sorted(path.name for path in folder.rglob("*")) == before


@pytest.mark.parametrize(("path", "body"), BODIES, ids=str)
def test_names_in_bodies(server: tuple[Server, Path], path: str, body: dict[str, object]) -> None:
    started, _ = server
    for name in [*CLIMBS, "../outside/config.json", "/etc/passwd\\0", "..\\u2215outside"]:
        status, received = send(started, "POST", path, json.dumps(body).replace("{}", json.dumps(name)[1:-1]).encode())
        assert 400 <= status < 500, name
        assert holds_nothing(received), name


@pytest.mark.parametrize(
    "name", ["../../outside.txt", "/etc/passwd", "..\\\\..\\\\outside.txt", "a\\0.txt", "outside.txt/../x.txt"]
)
def test_name_of_an_uploaded_file_is_no_path(server: tuple[Server, Path], name: str) -> None:
    """Whatever it says, the file lies under a name of the server's own."""
    started, folder = server
    fields = {"source": "de", "target": "en"}
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{text}\r\n' for key, text in fields.items()
    )
    parts += f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\nder hund\r\n--x--\r\n'
    host = started.base.removeprefix("http://").split(":")
    head = "POST /translate_file HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    head += f"Content-Length: {len(parts.encode())}\r\nConnection: close\r\n\r\n"
    with socket.create_connection((host[0], int(host[1])), 30) as client:
        client.sendall((head + parts).encode())
        assert client.recv(100).startswith((b"HTTP/1.1 200", b"HTTP/1.1 400", b"HTTP/1.1 415"))
        while client.recv(65536):
            pass
    assert (folder / "outside.txt").read_bytes() == SECRET
    assert not list(folder.rglob("x.txt"))
    assert {path.parent for path in folder.rglob("*.txt") if path.read_bytes() != SECRET} <= {folder / "data" / "files"}
