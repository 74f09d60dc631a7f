"""The server's own sockets: a client that takes nothing, until every buffer between is full."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import uvicorn

from app.main import create_app
from app.settings import Settings
from tests.app.api.fake_engine import FakeEngine

WRITE_TIMEOUT_S = 0.3
BODY = json.dumps({"prompt": "分", "stream": True}).encode()
PART = "x" * 10_000


class Fountain(FakeEngine):
    """Writes until it is cancelled, and counts how much."""

    def __init__(self) -> None:
        super().__init__()
        self.parts, self.cancelled = 0, threading.Event()

    async def _spell(self, show: Callable[[str, int], None], texts: list[str]) -> None:
        try:
            while True:
                show(PART, 0)
                self.parts += 1
                await asyncio.sleep(0.001)
        finally:
            self.cancelled.set()


@pytest.fixture
def served() -> Iterator[tuple[Fountain, int]]:
    engine = Fountain()
    app = create_app(Settings(request_timeout_s=WRITE_TIMEOUT_S), engine)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # what it accepts has the same
        listening.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            end = time.monotonic() + 60
            while not server.started:
                assert time.monotonic() < end
                time.sleep(0.01)
            yield engine, listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


def asking(port: int) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(60)
    client.connect(("127.0.0.1", port))
    client.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
    return client


def test_stalled_reader_is_disconnected(served: tuple[Fountain, int]) -> None:
    engine, port = served
    with asking(port) as client:
        assert engine.cancelled.wait(60)
        assert engine.parts > 10  # the engine went on while the reader did not
        received = b""
        while part := client.recv(65536):
            received += part
    assert received.startswith(b"HTTP/1.1 200 OK")
    assert not received.endswith(b"0\r\n\r\n")  # the connection broke, as it has to: the answer is not whole
    assert len(received) < 300_000  # 64 KB of the server's, and what the kernel holds


def test_disconnect_ends_the_work(served: tuple[Fountain, int]) -> None:
    engine, port = served
    client = asking(port)
    client.recv(1000)
    assert not engine.cancelled.is_set()
    client.close()
    assert engine.cancelled.wait(60)
