"""The server of `python -m app` in a thread, over an engine that answers from its script, for tests that send bytes."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import uvicorn

from app.engine.metrics import Metrics
from app.main import create_app
from app.server import server_config
from app.settings import Settings
from tests.app.api.fake_engine import FakeEngine

PATIENCE_S = 30
GET = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


class SocketServer(NamedTuple):
    port: int
    metrics: Metrics

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)

    def exchange(self, *parts: bytes) -> bytes:
        """All that the server sends until it closes the connection."""
        with self.connect() as client:
            for part in parts:
                client.sendall(part)
            return read_to_end(client)

    def refused(self, reason: str) -> float:
        """How many requests were turned away for this reason so far."""
        value = self.metrics.registry.get_sample_value("parlance:request_refused_total", {"reason": reason})
        return value or 0.0


def read_to_end(client: socket.socket) -> bytes:
    received = b""
    while part := client.recv(65536):
        received += part
    return received


def answers(received: bytes) -> list[tuple[int, dict[str, str], bytes]]:
    """Status, header fields and body of each answer; all of them have a length."""
    results = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines)
        length = int(fields["content-length"])
        assert len(rest) >= length
        results.append((int(first.split(" ")[1]), fields, rest[:length]))
        received = rest[length:]
    return results


def error(received: bytes) -> tuple[int, dict[str, Any]]:
    """Status and body of the one answer, which is an error in the form of the API."""
    ((status, fields, body),) = answers(received)
    content = json.loads(body)
    assert fields["content-type"] == "application/json"
    assert fields["connection"] == "close"
    assert content["request_id"] == fields["x-request-id"]
    return status, content


@contextlib.contextmanager
def listening(server: uvicorn.Server) -> Iterator[int]:
    """The port of a server that has started in a thread of its own, and that ends after the context."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            end = time.monotonic() + PATIENCE_S
            while not server.started:
                assert time.monotonic() < end
                time.sleep(0.005)
            yield bound.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@contextlib.contextmanager
def serving_sockets(engine: FakeEngine | None = None, **settings: Any) -> Iterator[SocketServer]:
    app = create_app(options := Settings(**settings), engine or FakeEngine())
    with listening(uvicorn.Server(server_config(app, options))) as port:
        yield SocketServer(port, app.state.services.metrics)
