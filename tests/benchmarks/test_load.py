"""The open-loop client against real sockets, and the statistics of its outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

import pytest

from benchmarks.load import Outcome, arrivals, closed_loop, open_loop, percentile, percentiles_ms, summary
from benchmarks.wire import Answer, Client, get, post

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def run(handler: Handler, ask: Callable[[int], Awaitable[None]]) -> None:
    """`ask` gets the port of a server that treats each connection with `handler`."""

    finished: list[asyncio.Event] = []

    async def until_the_client_leaves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        finished.append(asyncio.Event())
        mine = finished[-1]
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await handler(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        mine.set()

    async def both() -> None:
        server = await asyncio.start_server(until_the_client_leaves, "127.0.0.1", 0)
        async with server:
            await ask(server.sockets[0].getsockname()[1])
            for event in finished:
                await asyncio.wait_for(event.wait(), 10)

    asyncio.run(both())


async def request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length")), 0)
    return head + await reader.readexactly(length)


def plain(status: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


def test_percentiles_are_members_of_the_sample_and_reach_its_ends() -> None:
    values = [float(v) for v in range(1, 101)]
    random.Random(0).shuffle(values)
    assert [percentile(values, share) for share in (0, 0.5, 0.9, 0.99, 0.999, 1)] == [1, 50, 90, 99, 100, 100]
    assert percentiles_ms([0.25]) == {"p50": 250.0, "p90": 250.0, "p99": 250.0, "p99.9": 250.0}
    assert percentiles_ms([]) is None


def test_arrivals_are_a_poisson_process_of_the_rate_and_of_the_seed() -> None:
    times = arrivals(50, 200, 3)
    assert times == sorted(times) == arrivals(50, 200, 3) != arrivals(50, 200, 4)
    assert len(times) == pytest.approx(10_000, rel=0.04)
    gaps = [b - a for a, b in zip([0.0, *times], times, strict=False)]
    spread = sum((gap - 0.02) ** 2 for gap in gaps) / len(gaps)
    assert spread**0.5 == pytest.approx(0.02, rel=0.06)  # exponential: as wide as its mean


def test_requests_leave_while_earlier_ones_wait_and_connections_are_kept() -> None:
    connections, inside, most = [0], [0], [0]

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[0] += 1
        while True:
            body = await request(reader)
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            if b"slow" in body:
                while inside[0] < 5:  # answered only when the fifth has come
                    await asyncio.sleep(0.001)
            inside[0] -= b"slow" not in body
            writer.write(plain(b"200 OK", b'{"a":1}'))

    async def ask(port: int) -> None:
        client = Client(port)
        outcomes = await open_loop(client, [post("/x", {"slow": i}) for i in range(5)], [0.0] * 5)
        assert [o.answer.json() for o in outcomes] == [{"a": 1}] * 5
        inside[0] = 0
        outcomes, _ = await closed_loop(client, [post("/x", {})] * 20, 3)
        assert all(o.succeeded for o in outcomes)
        client.close()

    run(handler, ask)
    assert most[0] == 5
    assert connections[0] == 5


def test_no_more_connections_than_a_browser_opens() -> None:
    inside, most = [0], [0]

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request(reader)
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            await asyncio.sleep(0.002)
            inside[0] -= 1
            writer.write(plain(b"200 OK", b"{}"))

    async def ask(port: int) -> None:
        client = Client(port, most=6)
        outcomes, _ = await closed_loop(client, [get("/x")] * 40, 40)
        assert len(outcomes) == 40
        client.close()

    run(handler, ask)
    assert most[0] == 6


def test_events_are_timed_by_the_chunk_that_completes_them_wherever_it_is_cut() -> None:
    stream = (
        'event: token\ndata: {"text": "ä"}\n\nevent: token\ndata: {"text": "b"}\n\nevent: done\ndata: {}\n\n'.encode()
    )
    for cut in range(1, len(stream)):
        answer = Answer(200, {b"content-type": b"text/event-stream; charset=utf-8"}, stream)
        answer.chunk_times = [(1.0, cut), (2.0, len(stream))]
        assert [(name, data) for _, name, data in answer.events()] == [
            ("token", {"text": "ä"}),
            ("token", {"text": "b"}),
            ("done", {}),
        ]
        whole = stream[:cut].count(b"\n\n")
        assert [when for when, _, _ in answer.events()] == [1.0] * whole + [2.0] * (3 - whole)


def test_streams_arrive_in_chunks_and_a_broken_one_did_not_succeed() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    token, done = b'event: token\ndata: {"text": "x"}\n\n', b"event: done\ndata: {}\n\n"

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = await request(reader)
        parts = [token, token] if b"broken" in body else [token, token, done]
        writer.write(head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts))
        if b"broken" not in body:
            writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def ask(port: int) -> None:
        client = Client(port)
        (good, broken), _ = await closed_loop(client, [post("/x", {}), post("/x", {"broken": 1})], 2)
        assert good.succeeded
        assert [name for _, name, _ in good.answer.events()] == ["token", "token", "done"]
        assert broken.answer.status == 0
        assert not broken.succeeded
        client.close()

    run(handler, ask)


def outcome(intended: float, seconds: float, status: int = 200) -> Outcome:
    return Outcome(intended, intended + 0.001, Answer(status=status, ended=intended + seconds))


def test_a_row_counts_from_the_intended_time_and_keeps_refusals_apart() -> None:
    outcomes = [outcome(i, 0.5) for i in range(8)] + [outcome(8.0, 2.0), outcome(7.0, 3.0)]
    outcomes += [outcome(2.0, 0.01, 429), outcome(3.0, 0.01, 500), outcome(4.0, 0.01, 0)]
    row = summary(outcomes, 1.3, slo_s=2.0)
    assert (row["requests"], row["refused"], row["failed"]) == (13, 1, 2)
    assert row["achieved"] == 1.0  # ten answers in the ten seconds from 0 to 10
    assert row["goodput"] == 0.9
    assert row["end_to_end_ms"]["p50"] == 500.0
    assert row["end_to_end_ms"]["p99"] == 3000.0
