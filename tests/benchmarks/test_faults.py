"""What counts as an answer, and as a failure that may be tried again; the client of the benchmarks."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.faults import retryable
from benchmarks.wire import Answer, Client, get
from tests.benchmarks.test_load import request, run

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
    assert (answer.succeeded, retryable(answer)) == (whole, again)


def _asked_twice(closes_with: bytes) -> tuple[list[int], int]:
    """Statuses of two requests on one kept connection, and how many connections were made. The server answers one
    request of the first connection; at the second one it closes that connection with these bytes."""
    connections, statuses = 0, list[int]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        first = connections == 1
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await request(reader)
        if first:
            writer.write(closes_with)

    async def ask(port: int) -> None:
        client = Client(port)
        statuses.extend([(await client.ask(get("/"))).status for _ in range(2)])
        client.close()

    run(serve, ask)
    return statuses, connections


def test_request_on_a_connection_that_was_closed_meanwhile_is_sent_again() -> None:
    assert _asked_twice(b"") == ([200, 200], 2)


def test_answer_that_breaks_off_is_no_answer() -> None:
    assert _asked_twice(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf") == ([200, 0], 1)
