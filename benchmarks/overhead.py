"""What HTTP, the front end and the pipe to the device process cost: at one client, and at saturation."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.engine import Engine
from benchmarks.load import closed_loop
from benchmarks.servers import Server
from benchmarks.sweep import translation
from benchmarks.wire import Client


async def one_client(server: Server, engine: Engine, texts: Sequence[str], beam: int) -> dict[str, Any]:
    """The same sentence over HTTP and in the engine alone, in turn; the median of the differences."""
    client = Client(server.port)
    whole, inside = [], []
    for text in texts:
        (outcome,), _ = await closed_loop(client, [translation(text)], 1)
        assert outcome.succeeded, outcome.answer.body
        whole.append(outcome.latency_s)
        inside.append((await asyncio.to_thread(engine.translate, [text], beam)).seconds)
    client.close()
    differences = [1000 * (a - b) for a, b in zip(whole, inside, strict=True)]
    return {
        "overhead": "one client, the engine timed alone in its own process",
        "sentences": len(texts),
        "http_ms": round(1000 * statistics.median(whole), 2),
        "engine_ms": round(1000 * statistics.median(inside), 2),
        "difference_ms": round(statistics.median(differences), 2),
        "difference_ms_quartiles": [round(each, 2) for each in statistics.quantiles(differences, n=4)],
    }


async def saturated(
    server: Server, engine: Engine, texts: Sequence[str], beam: int, concurrency: int, repeats: int
) -> dict[str, Any]:
    """The same sentences through HTTP with `concurrency` clients and in the engine alone, in turn: the share of the
    engine's throughput that is kept."""
    requests, shares, http, alone = [translation(text) for text in texts], [], [], []
    for _ in range(repeats):
        run = await asyncio.to_thread(engine.translate, texts, beam)
        client = Client(server.port)  # a new one: meanwhile the server may have hung up on idle connections
        outcomes, seconds = await closed_loop(client, requests, concurrency)
        client.close()
        assert all(o.succeeded for o in outcomes), [o.answer.body for o in outcomes if not o.succeeded][:1]
        shares.append(run.seconds / seconds)
        http.append(run.tokens / seconds)
        alone.append(run.tokens / run.seconds)
    return {
        "throughput": f"{len(texts)} sentences, {concurrency} clients",
        "http_tokens_per_s": round(statistics.median(http)),
        "engine_tokens_per_s": round(statistics.median(alone)),
        "kept": round(statistics.median(shares), 3),
        "kept_each": [round(each, 3) for each in shares],
    }
