"""What reaches the server before any request is routed, byte by byte on loopback sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from app.connection_limits import MAX_PIPELINED, ConnectionLimiter, ConnectionLimits
from app.engine.metrics import Metrics
from app.settings import Settings
from app.storage.translated_file_store import TranslatedFileStore
from tests.app.api.fake_engine import FakeEngine
from tests.app.socket_server import GET, SocketServer, answers, error, read_to_end, serving_sockets

LIMITS = {
    "max_connections": 12,
    "max_connections_per_client": 8,
    "max_url_bytes": 512,
    "max_header_bytes": 1024,
    "max_headers": 16,
    "linger_s": 20,
    "max_body_bytes": 100_000,
    "max_file_bytes": 100_000,
    "max_uploaded_bytes": 200_000,
    "request_log": False,
}
BODY = json.dumps({"q": "hallo", "source": "de", "target": "en"}).encode()


@pytest.fixture(scope="module")
def server() -> Iterator[SocketServer]:
    with serving_sockets(**LIMITS) as running:
        yield running


@pytest.fixture(scope="module")
def impatient_server() -> Iterator[SocketServer]:
    with serving_sockets(**LIMITS | {"header_timeout_s": 0.4, "linger_s": 0.4}) as running:
        yield running


def post(body: bytes, *fields: bytes, length: int | None = None, path: bytes = b"/translate") -> bytes:
    lines = [b"POST %s HTTP/1.1" % path, b"Host: x", b"Content-Length: %d" % (len(body) if length is None else length)]
    return b"\r\n".join([*lines, *fields, b"", body])


def chunked(*rest: bytes) -> bytes:
    """A request whose body is there in one chunk but for its end."""
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%s\r\n" % (len(BODY), BODY) + b"".join(rest)


def test_bytes_before_a_request_line_is_whole_are_limited(server: SocketServer) -> None:
    """400 MB of a request line took 7.7 GB."""
    status, body = error(server.exchange(b"GET /" + b"a" * 10_000))
    assert (status, body["code"]) == (414, "url_too_long")
    assert body["error"] == "This server takes addresses of 512 bytes; send texts in a body."


@pytest.mark.parametrize(("length", "status"), [(512, 404), (513, 414)])
def test_limit_of_an_address_is_exact(server: SocketServer, length: int, status: int) -> None:
    path = b"/" + b"a" * (length - 1)
    ((answered, *_),) = answers(server.exchange(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    assert answered == status


def test_a_header_without_end_is_refused_while_it_comes(server: SocketServer) -> None:
    """A value of 223 MB stopped the server for 12 s."""
    with server.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: ")
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 300 * 2**20:
                sent += client.send(b"a" * 65536)
        assert sent < 300 * 2**20


@pytest.mark.parametrize(
    "head",
    [b"X-Long: " + b"a" * 1100, b"\r\n".join([b"X: y"] * 20), b"X-Long: " + b"a" * 100_000],
    ids=["bytes", "number", "not whole"],
)
def test_headers_are_limited(server: SocketServer, head: bytes) -> None:
    status, body = error(server.exchange(b"GET /health HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n"))
    assert (status, body["code"]) == (431, "headers_too_large")
    assert body["error"] == ("This server takes 16 header fields of 1,024 bytes together; send fewer or shorter ones.")


@pytest.mark.parametrize("line", [b"X: " + b"y" * 100, b"X: " + b"y" * 2000, b"X: " + b"y" * 100_000])
def test_trailers_are_limited_with_the_headers(server: SocketServer, line: bytes) -> None:
    status, body = error(server.exchange(chunked(b"0\r\n", *[line + b"\r\n"] * 20)))
    assert (status, body["code"]) == (431, "headers_too_large")


def test_extensions_of_chunks_are_limited(server: SocketServer) -> None:
    status, _ = error(server.exchange(chunked(b"5;x=" + b"y" * 1_000_000)))
    assert status == 431


def test_a_trailer_is_no_header(server: SocketServer) -> None:
    """A proxy in front may have taken that header away."""
    request = chunked(b"0\r\nX-Request-Id: from-a-trailer\r\n\r\n")
    with server.connect() as client:
        client.sendall(request)
        received = client.recv(65536)
    ((status, fields, _),) = answers(received)
    assert status == 200
    assert fields["x-request-id"] != "from-a-trailer"


def test_what_is_not_a_whole_request_is_timed_out(impatient_server: SocketServer) -> None:
    halves = [b"GET /he", GET[:-2], b"POST / HTTP/1.1\r\nHost: x\r\nX: y", b"\r\n"]
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(impatient_server.connect())
        first = []
        for sent in halves:
            first.append(stack.enter_context(impatient_server.connect()))
            first[-1].sendall(sent)
        second = stack.enter_context(impatient_server.connect())
        second.sendall(GET)
        assert second.recv(65536).startswith(b"HTTP/1.1 200 ")
        second.sendall(GET[:10])
        for client in (second, *first):
            status, body = error(read_to_end(client))
            assert (status, body["code"]) == (408, "headers_too_slow")
        assert silent.recv(10) == b"", "an answer to nothing would be taken for that to the next request"


def test_headers_that_trickle_are_timed_out_from_their_first_byte(impatient_server: SocketServer) -> None:
    with impatient_server.connect() as client:
        began, received = time.monotonic(), b""
        client.settimeout(0.05)
        for byte in GET * 100:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.send(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                if received := client.recv(65536):
                    break
        assert time.monotonic() - began < 20
    assert error(received)[0] == 408


def test_a_new_connection_takes_the_place_of_the_one_that_has_waited_longest(server: SocketServer) -> None:
    before = server.refused("connection_gave_way")
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(server.connect()) for _ in range(8)]
        newest = stack.enter_context(server.connect())
        newest.sendall(GET)
        assert newest.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert silent[0].recv(10) == b""
        silent[1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[1].recv(10)
    assert server.refused("connection_gave_way") == before + 1


class Stopped(FakeEngine):
    """Answers nothing until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0
        self.may, self.cancelled = threading.Event(), threading.Event()

    async def translate(self, *arguments: Any, **options: Any) -> Any:
        self.begun += 1
        try:
            while not self.may.is_set():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return await super().translate(*arguments, **options)


def test_connections_with_requests_in_work_are_limited_for_each_client() -> None:
    engine = Stopped()
    limits = {**LIMITS, "max_connections_per_client": 3, "linger_s": 0.1}
    with serving_sockets(engine, **limits) as server, contextlib.ExitStack() as stack:
        busy = [stack.enter_context(server.connect()) for _ in range(3)]
        for client in busy:
            client.sendall(post(BODY))
        while engine.begun < 3:
            time.sleep(0.01)
        received = server.exchange(GET)
        status, body = error(received)
        assert (status, body["code"]) == (503, "too_many_connections")
        assert answers(received)[0][1]["retry-after"] == "2"
        engine.may.set()
        assert all(client.recv(65536).startswith(b"HTTP/1.1 200 ") for client in busy)
        with server.connect() as client:
            client.sendall(GET)
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "in chunks"])
@pytest.mark.parametrize("close", [True, False])
def test_a_client_that_writes_all_before_it_reads_gets_its_413(
    server: SocketServer, declared: bool, close: bool
) -> None:
    size = 20 * 2**20
    fields = b"Connection: close\r\n" if close else b""
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\n" + fields
    with server.connect() as client:
        if declared:
            client.sendall(head + b"Content-Length: %d\r\n\r\n" % size)
            client.sendall(bytes(size))
        else:
            client.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % size)
            client.sendall(bytes(size))
        status, body = error(read_to_end(client))
    assert (status, body["code"]) == (413, "body_too_large")


def test_lingering_ends(impatient_server: SocketServer) -> None:
    """Though the client goes on sending."""
    with impatient_server.connect() as client:
        client.sendall(post(b"", length=10**12))
        assert client.recv(65536).startswith(b"HTTP/1.1 413 ")
        end = time.monotonic() + 20
        with pytest.raises(OSError):  # a reset or a broken pipe
            while time.monotonic() < end:
                client.send(b"a")
                time.sleep(0.05)


def test_pipelined_requests_are_answered_in_order(server: SocketServer) -> None:
    last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    received = answers(server.exchange(post(BODY) + GET + last))
    assert [status for status, *_ in received] == [200, 200, 200]
    assert json.loads(received[0][2]) == {"translatedText": "en:hallo"}


@pytest.mark.parametrize("path", [b"/", b"/health", b"/nowhere"])
def test_the_connection_of_a_head_goes_on_and_nothing_is_logged(
    server: SocketServer, path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The server took it for a GET whose body is too short: monitors filled the log with tracebacks."""
    head = GET.replace(b"GET /health", b"HEAD " + path)
    last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    first, second, rest = server.exchange(head + last).split(b"\r\n\r\n")
    assert [first[:9], second[:13], rest[:1]] == [b"HTTP/1.1 ", b"HTTP/1.1 200 ", b"{"]
    assert int(re.search(rb"content-length: (\d+)", first)[1]) > 0  # type: ignore[index]
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


@pytest.mark.parametrize("fields", [b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"], ids=["plain", "upgrades"])
def test_pipelined_requests_are_limited(server: SocketServer, fields: bytes) -> None:
    received = answers(server.exchange(GET.replace(b"\r\n\r\n", b"\r\n" + fields + b"\r\n") * 1000))
    assert 1 <= len(received) <= MAX_PIPELINED + 1
    assert {status for status, *_ in received} == {200}


def test_garbage_behind_a_request_does_not_break_into_its_answer(server: SocketServer) -> None:
    received = answers(server.exchange(post(BODY) + b"\0\0\0garbage\r\n\r\n"))
    assert [status for status, *_ in received] == [200]


@pytest.mark.parametrize("body", [b"zz\r\n", b"5\r\nabcdefg\r\n", b"-5\r\n"])
def test_a_malformed_body_is_answered(server: SocketServer, body: bytes) -> None:
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    status, content = error(server.exchange(head + body))
    assert (status, content["code"]) == (400, "malformed_request")


SMUGGLING = {
    "length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6",
    "the same length twice": b"Content-Length: 5\r\nContent-Length: 5",
    "list of lengths": b"Content-Length: 5, 5",
    "signed length": b"Content-Length: +5",
    "negative length": b"Content-Length: -5",
    "hexadecimal length": b"Content-Length: 0x5",
    "length with a space": b"Content-Length : 5",
    "length beyond 64 bits": b"Content-Length: 18446744073709551621",
    "unknown coding": b"Transfer-Encoding: xchunked",
    "chunked is not last": b"Transfer-Encoding: chunked, identity",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "coding with a space": b"Transfer-Encoding : chunked",
    "folded line": b"X: y\r\n Content-Length: 5",
    "bare LF": b"X: y\nContent-Length: 5",
    "bare CR": b"X: y\rContent-Length: 5",
    "NUL in a value": b"X: y\0",
    "no colon": b"X",
    "empty name": b": y",
    "two hosts": b"Host: y",
    "host with a path": b"Host: y/z",
}


@pytest.mark.parametrize("fields", SMUGGLING.values(), ids=SMUGGLING.keys())
def test_two_servers_cannot_read_two_requests_of_one(server: SocketServer, fields: bytes) -> None:
    """Where two readings are possible, nothing behind the head is read as a request (RFC 9112, 11.2)."""
    host = b"" if fields == b"Host: y/z" else b"Host: x\r\n"
    request = b"POST /translate HTTP/1.1\r\n" + host + fields + b"\r\n\r\n0\r\n\r\n" + GET
    received = answers(server.exchange(request))
    assert [status for status, *_ in received] == [400]


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_a_missing_host_is_refused_where_http_needs_it(server: SocketServer, version: bytes) -> None:
    ((status, *_),) = answers(server.exchange(b"GET /health HTTP/" + version + b"\r\nConnection: close\r\n\r\n"))
    assert status == (400 if version == b"1.1" else 200)


def test_a_stream_over_http_1_0_has_no_chunks(server: SocketServer) -> None:
    """Such a client, as many a proxy is to what stands behind it, took the sizes of chunks for a part of the answer."""
    body = json.dumps({**json.loads(BODY), "stream": True}).encode()
    received = server.exchange(post(body).replace(b"HTTP/1.1", b"HTTP/1.0"))
    head, _, events = received.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert events.startswith(b'event: token\ndata: {"text":"e"}\n\nevent: ')
    assert json.loads(events.split(b"event: done\ndata: ")[1])["translatedText"] == "en:hallo"
    ((status, *_),) = answers(server.exchange(post(BODY).replace(b"HTTP/1.1", b"HTTP/1.0")))
    assert status == 200


def test_an_upgrade_is_ignored_and_http_goes_on(server: SocketServer) -> None:
    upgrade = GET.replace(b"\r\n\r\n", b"\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n")
    websocket = upgrade.replace(b"h2c", b"websocket")
    last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    received = answers(server.exchange(upgrade + websocket + last))
    assert [status for status, *_ in received] == [200, 200, 200]


def test_refusals_are_counted_by_reason(server: SocketServer) -> None:
    before = server.refused("malformed_request")
    server.exchange(b"garbage\r\n\r\n")
    assert server.refused("malformed_request") == before + 1


class _Idle:
    """A connection that sends nothing, and a loop that counts its timers without running them."""

    client = ("192.0.2.1", 4000)
    counted_for = ""
    deadline = write_deadline = math.inf
    timers: ClassVar[list[Any]] = []

    @property
    def loop(self) -> _Idle:
        return self

    def time(self) -> float:
        return 0.0

    def call_later(self, _delay_s: float, *timer: Any) -> None:
        self.timers.append(timer)


def test_one_timer_watches_all_connections() -> None:
    """Each client that came while no other was there began a timer that no end of a connection ended: after 300 of
    them, every connection was looked at 300 times a second."""
    limiter = ConnectionLimiter(Settings().section(ConnectionLimits), Metrics())
    for _ in range(5):
        limiter.admit(one := cast(Any, _Idle()))
        limiter.forget(one)
    limiter.admit(cast(Any, _Idle()))
    assert len(_Idle.timers) == 1
    for _ in range(3):
        expire, loop = _Idle.timers.pop()
        expire(loop)
        assert len(_Idle.timers) == 1


LARGE = 8_000_000  # more than the kernel holds for a client


@pytest.fixture
def download(tmp_path: Path) -> Iterator[tuple[SocketServer, bytes]]:
    """A server that has a large file, and the path of it."""
    name = TranslatedFileStore(tmp_path, 1800, 2 * LARGE).keep(".txt", b"a" * LARGE)
    with serving_sockets(data=str(tmp_path), request_timeout_s=1.5, keep_alive_timeout_s=0.2) as server:
        yield server, f"/download_file/{name}".encode()


def _get(path: bytes, *fields: bytes) -> bytes:
    return b"\r\n".join([b"GET %s HTTP/1.1" % path, b"Host: x", *fields, b"", b""])


def test_a_client_that_reads_none_of_its_answers_is_left(download: tuple[SocketServer, bytes]) -> None:
    """With one request it was, and with several in a row it kept the connection without end."""
    server, path = download
    with server.connect() as client:
        client.sendall(_get(path) * 3)
        watched = select.poll()
        watched.register(client, 0)  # not for what there is to read, but for the end
        assert watched.poll(30_000), "the server keeps the connection"


@pytest.mark.slow
@pytest.mark.parametrize("fields", [(), (b"Connection: close",)], ids=["kept alive", "closed"])
def test_a_slow_reader_gets_the_whole_of_a_large_answer(
    download: tuple[SocketServer, bytes], fields: tuple[bytes, ...]
) -> None:
    """Behind the end of the answer the connection was cut after `request_timeout_s`, however much was still read."""
    server, path = download
    received = 0
    with server.connect() as client:
        client.sendall(_get(path, *fields))
        with contextlib.suppress(ConnectionResetError):
            while part := client.recv(32_768):
                received += len(part)
                time.sleep(0.02)
    assert received > LARGE


def test_a_reset_by_a_client_is_no_error(server: SocketServer, caplog: pytest.LogCaptureFixture) -> None:
    for sent in (b"", GET[:9], post(b"abc", length=50), GET * 3):
        with server.connect() as client:
            client.sendall(sent)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert server.exchange(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_a_reset_ends_the_first_of_several_pipelined_requests(caplog: pytest.LogCaptureFixture) -> None:
    """It was computed to its end, and writing its answer was an error in the log."""
    engine = Stopped()
    with serving_sockets(engine, **LIMITS) as server:
        with server.connect() as client:
            client.sendall(post(BODY) * 3)
            while not engine.begun:
                time.sleep(0.01)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert engine.cancelled.wait(30)
    assert engine.begun == 1
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
