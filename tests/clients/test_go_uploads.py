"""Uploads as Go's net/http writes them: chunks for a body of unknown length, `Expect: 100-continue` where a transport
has an `ExpectContinueTimeout`, trailers that are announced, and a connection that is kept."""

from __future__ import annotations

import http.client
import json

import pytest

from tests.clients.posts import COMPLETION, FILE, FORM, POSTS, PROMPT, STREAM, TEXTS, check
from tests.serving import Server

pytestmark = pytest.mark.clients
MULTIPART = (
    b'--b\r\nContent-Disposition: form-data; name="source"\r\n\r\nde\r\n'
    b'--b\r\nContent-Disposition: form-data; name="target"\r\n\r\nen\r\n'
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n'
    b"Content-Type: application/octet-stream\r\n\r\n%s\r\n--b--\r\n" % FILE
)
BODIES = {
    "form": ("/translate", "application/x-www-form-urlencoded", FORM.encode()),
    "json": ("/translate", "application/json", json.dumps(TEXTS).encode()),
    "generate": ("/generate", "application/json", json.dumps(PROMPT).encode()),
    "stream": ("/generate", "application/json", json.dumps(STREAM).encode()),
    "completion": ("/v1/completions", "application/json", json.dumps(COMPLETION).encode()),
    "file": ("/translate_file", "multipart/form-data; boundary=b", MULTIPART),
}


def post(
    connection: http.client.HTTPConnection, name: str, *, expect: bool, trailer: bool, size: int
) -> tuple[int, str]:
    path, kind, body = BODIES[name]
    connection.putrequest("POST", path, skip_accept_encoding=True)
    fields = {"User-Agent": "Go-http-client/1.1", "Transfer-Encoding": "chunked", "Content-Type": kind}
    fields |= {"Expect": "100-continue"} if expect else {}
    fields |= {"Trailer": "X-Checksum"} if trailer else {}
    for field, value in fields.items():
        connection.putheader(field, value)
    connection.endheaders()
    if expect:
        assert connection.sock is not None
        assert connection.sock.recv(1024) == b"HTTP/1.1 100 Continue\r\n\r\n", "a client may wait for it without end"
    for at in range(0, len(body), size):
        chunk = body[at : at + size]
        connection.send(b"%x\r\n%s\r\n" % (len(chunk), chunk))
    connection.send(b"0\r\n" + (b"X-Checksum: 5\r\n" if trailer else b"") + b"\r\n")
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@pytest.mark.parametrize("trailer", [False, True], ids=["", "trailer"])
@pytest.mark.parametrize("expect", [False, True], ids=["", "100-continue"])
@pytest.mark.parametrize("name", POSTS)
def test_chunks_are_read(server: Server, name: str, expect: bool, trailer: bool) -> None:
    connection = http.client.HTTPConnection(server.base.removeprefix("http://"), timeout=60)
    try:
        for size in (1, 7, 32_768):  # on one connection
            check(server, name, *post(connection, name, expect=expect, trailer=trailer, size=size))
    finally:
        connection.close()
