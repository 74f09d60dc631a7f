"""A page of short paragraphs that a browser extension wants translated at once."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.load import Outcome, closed_loop
from benchmarks.servers import Server
from benchmarks.sweep import translation
from benchmarks.wire import Client, post

CONNECTIONS = 6  # what browsers open to one host over HTTP/1.1
WAYS = ("6 connections", "all at once", "one batch request")


async def alone_s(server: Server, text: str, times: int = 5) -> float:
    """The median time of one paragraph on an idle server."""
    client = Client(server.port)
    results = []
    for _ in range(times):
        (outcome,), _ = await closed_loop(client, [translation(text)], 1)
        _check([outcome])
        results.append(outcome.latency_s)
    client.close()
    return statistics.median(results)


async def page(server: Server, paragraphs: Sequence[str], way: str) -> dict[str, Any]:
    """Seconds until the last paragraph was there, and how much later than alone the first one sent was."""
    alone = await alone_s(server, paragraphs[0])
    client = Client(server.port, CONNECTIONS if way == WAYS[0] else None)
    if way == WAYS[2]:
        requests = [post("/translate", {"q": list(paragraphs), "source": "de", "target": "en"})]
    else:
        requests = [translation(text) for text in paragraphs]
    await client.open(CONNECTIONS if way == WAYS[0] else len(requests))  # as alone: 300 take this client 0.2 s to open
    # the client limits its connections by itself; a page sends everything at once
    outcomes, seconds = await closed_loop(client, requests, len(requests))
    client.close()
    _check(outcomes)
    late_ms = None if way == WAYS[2] else 1000 * (outcomes[0].latency_s - alone)
    return {
        "page": way,
        "server": server.name,
        "paragraphs": len(paragraphs),
        "last_s": round(seconds, 3),
        "first_alone_ms": round(1000 * alone, 1),
        "first_later_ms": None if late_ms is None else round(late_ms, 1),
    }


def _check(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if not outcome.succeeded:
            raise RuntimeError(f"status {outcome.answer.status}: {outcome.answer.body[:200]!r}")
