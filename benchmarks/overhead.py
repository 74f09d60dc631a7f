"""The cost of HTTP, the front end and the socket to the device process: at one client, and at saturation.

At one client there are two figures, both with the client's own share in them. The first is of a client that sends the
next request as soon as it has an answer, against an engine alone that does the same. The second is of one request after
a pause, in turn with an engine alone in another process and with the server's own metrics: all code is cold then, on
both sides, and so it includes the time that the device process reports for itself.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from app.engine.metrics.collector import PREFIX
from benchmarks import occupancy
from benchmarks.engine import Engine
from benchmarks.load import closed_loop
from benchmarks.served import TRANSLATOR
from benchmarks.servers import Server
from benchmarks.sweep import translation
from benchmarks.wire import Client


async def one_client(
    server: Server, engine: Engine, texts: Sequence[str], beam: int, repeats: int, **fields: Any
) -> dict[str, Any]:
    """The sentences one after another over HTTP and then in the engine alone, repeated; the fastest time of each
    sentence on either side, which excludes disturbances of single runs; the median of the differences. fields: more
    of each request, such as its key."""
    http, alone = list[list[float]](), list[list[float]]()
    for _ in range(repeats):
        client = Client(server.port)
        await closed_loop(client, [translation(text, **fields) for text in texts[:5]], 1)
        outcomes, _ = await closed_loop(client, [translation(text, **fields) for text in texts], 1)
        client.close()
        assert all(o.succeeded for o in outcomes), [o.answer.body for o in outcomes if not o.succeeded][:1]
        http.append([outcome.latency_s for outcome in outcomes])
        await asyncio.to_thread(engine.translate, texts[:1], beam)
        alone.append([(await asyncio.to_thread(engine.translate, [text], beam)).seconds for text in texts])
    whole, inside = ([min(times) for times in zip(*runs, strict=True)] for runs in (http, alone))
    return {
        "overhead": "one client that asks without a pause, the engine alone in its own process",
        **_compared(whole, inside),
        "difference_ms_each": [
            round(statistics.median(1000 * (a - b) for a, b in zip(*pair, strict=True)), 2)
            for pair in zip(http, alone, strict=True)
        ],
    }


async def after_a_pause(
    server: Server, engine: Engine, texts: Sequence[str], beam: int, model: str = TRANSLATOR
) -> dict[str, Any]:
    """The same sentence in the engine alone and over HTTP, in turn; the medians of the differences."""
    client = Client(server.port)
    whole, inside, device_times = [], [], []
    for text in texts:
        before = occupancy.of(server, model)
        inside.append((await asyncio.to_thread(engine.translate, [text], beam)).seconds)
        (outcome,), _ = await closed_loop(client, [translation(text)], 1)
        assert outcome.succeeded, outcome.answer.body
        whole.append(outcome.latency_s)
        device_times.append(device_s(before or {}, occupancy.of(server, model) or {}))
    client.close()
    over_device = [1000 * (a - b) for a, b in zip(whole, device_times, strict=True)]
    return {
        "after a pause": "in turn with the engine in another process",
        **_compared(whole, inside),
        "device_ms": round(1000 * statistics.median(device_times), 2),
        "over_device_ms": round(statistics.median(over_device), 2),
        "over_device_ms_quartiles": _quartiles(over_device),
    }


def device_s(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """The device process's time for the one request between two scrapes of /metrics: from arrival to first token, and
    from there to the end."""

    def grown(name: str) -> float:
        return after.get(PREFIX + name, 0.0) - before.get(PREFIX + name, 0.0)

    between = max(grown("generation_tokens_total") - 1, 0)
    return grown("time_to_first_token_seconds_sum") + between * grown("inter_token_latency_seconds_sum")


def _compared(whole_s: Sequence[float], inside_s: Sequence[float]) -> dict[str, Any]:
    """Of the same sentences; medians."""
    differences = [1000 * (a - b) for a, b in zip(whole_s, inside_s, strict=True)]
    return {
        "sentences": len(differences),
        "http_ms": round(1000 * statistics.median(whole_s), 2),
        "engine_ms": round(1000 * statistics.median(inside_s), 2),
        "difference_ms": round(statistics.median(differences), 2),
        "difference_ms_quartiles": _quartiles(differences),
    }


def _quartiles(values: Sequence[float]) -> list[float]:
    return [round(quantile, 2) for quantile in statistics.quantiles(values, n=4)]


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
        "kept_each": [round(share, 3) for share in shares],
    }
