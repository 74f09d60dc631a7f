"""What a connection writes to its transport, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from app.connection_limits import ConnectionLimiter, ConnectionLimits
from app.engine.metrics import Metrics
from app.settings import Settings

LENGTH = [(b"content-length", b"4")]
REST = {"type": "http.response.body", "body": b"text"}


class RecordingTransport(asyncio.Transport):
    """written: the bytes of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def writelines(self, parts: Iterable[Any]) -> None:
        raise AssertionError("asyncio of Python 3.12.0 to 3.12.8 pauses no writer after it, however little is read")

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


def start(headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": 200, "headers": headers}


def serve(app: Any, transport: RecordingTransport, request: bytes) -> None:
    """Returns once the app has answered."""
    asyncio.run(_serve(app, transport, request))


async def _serve(app: Any, transport: RecordingTransport, request: bytes) -> None:
    state = ServerState()
    limiter = ConnectionLimiter(Settings().section(ConnectionLimits), Metrics())
    config = uvicorn.Config(app, http=limiter.connection, ws="none", lifespan="off", log_config=None)  # type: ignore[arg-type]
    config.load()
    connection = limiter.connection(config, state, {})
    connection.connection_made(transport)
    connection.data_received(request)
    while state.tasks:  # an answer starts the next pipelined request
        await asyncio.wait(state.tasks)
        await asyncio.sleep(0)


@pytest.mark.parametrize("count", [1, 2])
def test_a_head_with_a_length_leaves_with_its_body(count: int) -> None:
    """Of pipelined requests, each answer is one write."""
    transport = RecordingTransport()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(start(LENGTH))
        await send(REST)

    serve(app, transport, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * count)
    assert len(transport.written) == count
    assert all(data.startswith(b"HTTP/1.1 200 ") and data.endswith(b"\r\n\r\ntext") for data in transport.written)


def test_a_long_body_follows_its_head_uncopied() -> None:
    transport, body = RecordingTransport(), b"x" * 1_000_000

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(start([(b"content-length", b"1000000")]))
        await send({"type": "http.response.body", "body": body})

    serve(app, transport, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    head, rest = transport.written
    assert head.endswith(b"\r\n\r\n")
    assert rest == body


def test_the_head_of_a_stream_leaves_at_once() -> None:
    transport = RecordingTransport()
    before_body = list[bytes]()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(start([]))
        before_body.extend(transport.written)
        await send(REST)

    serve(app, transport, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    (head,) = before_body
    assert head.endswith(b"transfer-encoding: chunked\r\n\r\n")


def test_the_answer_to_head_needs_no_body() -> None:
    transport = RecordingTransport()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(start(LENGTH))
        await send(REST)

    serve(app, transport, b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
    (head,) = transport.written
    assert head.endswith(b"\r\n\r\n")


def test_a_head_whose_body_fails_leaves_before_the_connection_closes() -> None:
    transport = RecordingTransport()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(start(LENGTH))
        raise RuntimeError("the file is gone")

    serve(app, transport, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"".join(transport.written).startswith(b"HTTP/1.1 200 ")
    assert transport.closed
