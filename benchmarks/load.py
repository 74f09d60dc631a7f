"""Open-loop load: requests leave at the times of a Poisson process, whether or not earlier ones were answered. Latency
counts from the intended time, so that a stall of the server delays every request that arrives during it (no coordinated
omission). And closed loops, and percentiles."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.servers import Server
from benchmarks.wire import Answer, Client, post

REFUSED = (429, 503)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of the values do not exceed: no interpolation, so that a
    p99.9 of few values is their largest."""
    assert values, "no values"
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def percentiles_ms(seconds: Iterable[float]) -> dict[str, float] | None:
    """p50, p90, p99 and p99.9 in milliseconds; None without values."""
    values = list(seconds)
    if not values:
        return None
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
    return {name: round(1000 * percentile(values, share), 1) for name, share in shares.items()}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request: when it should have left, when it did, and what came."""

    intended: float
    sent: float
    answer: Answer

    @property
    def latency_s(self) -> float:
        return self.answer.ended - self.intended

    @property
    def succeeded(self) -> bool:
        return self.answer.succeeded


def translation(text: str | Sequence[str], **fields: Any) -> bytes:
    """A request for a translation from German to English."""
    return post("/translate", {"q": text, "source": "de", "target": "en", **fields})


def arrivals(rate: float, duration_s: float, seed: int) -> list[float]:
    """Times from 0 of a Poisson process of `rate` a second."""
    rng, times, now = random.Random(seed), list[float](), 0.0
    while (now := now + rng.expovariate(rate)) < duration_s:
        times.append(now)
    return times


async def open_loop(client: Client, requests: Sequence[bytes], times: Sequence[float]) -> list[Outcome]:
    """Sends request i at times[i], whether or not earlier ones are answered. Ends when all are answered."""

    async def one(request: bytes, intended: float) -> Outcome:
        sent = time.perf_counter()
        return Outcome(intended, sent, await client.ask(request))

    start = time.perf_counter() + 0.01
    tasks = []
    for request, at in zip(requests, times, strict=True):
        if (wait := start + at - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(request, start + at)))
    return list(await asyncio.gather(*tasks))


async def closed_loop(client: Client, requests: Sequence[bytes], concurrency: int) -> tuple[list[Outcome], float]:
    """All requests, `concurrency` at a time, as fast as they are answered; the seconds that it took."""
    waiting, outcomes = iter(list(enumerate(requests))), dict[int, Outcome]()

    async def worker() -> None:
        for index, request in waiting:
            now = time.perf_counter()
            outcomes[index] = Outcome(now, now, await client.ask(request))

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return [outcomes[i] for i in range(len(requests))], time.perf_counter() - started


async def answered(
    server: Server, requests: Sequence[bytes], concurrency: int, connections: int | None = None
) -> tuple[list[Outcome], float]:
    """A closed loop over connections of its own. RuntimeError for what is no whole answer."""
    client = Client(server.port, connections)
    await client.open(min(connections or concurrency, len(requests)))
    outcomes, seconds = await closed_loop(client, requests, concurrency)
    client.close()
    failed = [outcome.answer for outcome in outcomes if not outcome.succeeded]
    if failed:
        raise RuntimeError(f"{server.name} refused {len(failed)}: {failed[0].status} {failed[0].body[:200]!r}")
    return outcomes, seconds


def rate(server: Server, requests: Sequence[bytes], clients: int) -> float:
    """Answers a second of a closed loop."""
    outcomes, seconds = asyncio.run(answered(server, requests, clients))
    return len(outcomes) / seconds


def summary(outcomes: Sequence[Outcome], offered: float, slo_s: float) -> dict[str, Any]:
    """One row of a sweep. Rates are a second; the clock runs from the first intended arrival to the last answer."""
    good = [o for o in outcomes if o.succeeded]
    refused = [o for o in outcomes if o.answer.status in REFUSED]
    seconds = max(o.answer.ended for o in outcomes) - min(o.intended for o in outcomes)
    return {
        "offered": round(offered, 1),
        "requests": len(outcomes),
        "achieved": round(len(good) / seconds, 1),
        "goodput": round(sum(o.latency_s <= slo_s for o in good) / seconds, 1),
        "end_to_end_ms": percentiles_ms(o.latency_s for o in good),
        "refused": len(refused),
        "failed": len(outcomes) - len(good) - len(refused),
        "client_lag_ms_p99": round(1000 * percentile([o.sent - o.intended for o in outcomes], 0.99), 1),
    }
