"""What counts as an answer, and as a failure that may be tried again; the client of the benchmarks."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.faults import retryable, succeeded
from benchmarks.wire import Answer, Client, get

pytestmark = pytest.mark.bench
STREAM = {b"content-type": b"text/event-stream"}
TOKEN = b'event: token\ndata: {"text":"a"}\n\n'


def stream(last: bytes) -> Answer:
    return Answer(status=200, headers=dict(STREAM), body=TOKEN + b"event: " + last + b"\ndata: {}\n\n")


@pytest.mark.parametrize(
    ("answer", "whole", "again"),
    [
        (Answer(status=200, body=b"{}"), True, False),
        (Answer(status=503, body=b"{}"), False, True),
        (Answer(status=500, body=b"{}"), False, False),
        (Answer(status=0), False, False),
        (stream(b"done"), True, False),
        (stream(b"error"), False, True),
        (Answer(status=200, headers=dict(STREAM), body=TOKEN), False, False),
    ],
)
def test_a_failure_is_retryable_where_the_server_says_so(answer: Answer, whole: bool, again: bool) -> None:
    assert (succeeded(answer), retryable(answer)) == (whole, again)


async def _asked_twice(closes_before: bytes | None) -> tuple[list[int], int]:
    """Statuses of two requests on one kept connection, and how many connections were made. The server ends the first
    one after an answer, and answers a second request on it with these bytes before it does."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        first = connections == 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await reader.readuntil(b"\r\n\r\n")
        if first and closes_before is not None:
            writer.write(closes_before)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = Client(server.sockets[0].getsockname()[1])
    statuses = [(await client.ask(get("/"))).status for _ in range(2)]
    client.close()
    server.close()
    return statuses, connections


def test_request_on_a_connection_that_was_closed_meanwhile_is_sent_again() -> None:
    assert asyncio.run(_asked_twice(b"")) == ([200, 200], 2)


def test_answer_that_breaks_off_is_no_answer() -> None:
    assert asyncio.run(_asked_twice(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")) == ([200, 0], 1)
