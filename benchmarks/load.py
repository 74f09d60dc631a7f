"""Open-loop load: requests leave at the times of a Poisson process, whether or not earlier ones were answered.

Latency counts from the intended time, so that a stall of the server delays every request that arrives during it
(no coordinated omission).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchmarks.distribution import percentile, percentiles_ms
from benchmarks.wire import Answer, Client

REFUSED = (429, 503)


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
    def events(self) -> list[tuple[float, str, Any]]:
        return self.answer.events() if self.answer.streamed else []

    @property
    def succeeded(self) -> bool:
        if self.answer.status != 200:
            return False
        return not self.answer.streamed or any(name == "done" for _, name, _ in self.events)


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


def summary(outcomes: Sequence[Outcome], offered: float, slo_s: float, client_cpu: float) -> dict[str, Any]:
    """One row of a sweep. Rates are a second; the clock runs from the first intended arrival to the last answer."""
    answered = [o for o in outcomes if o.succeeded]
    refused = [o for o in outcomes if o.answer.status in REFUSED]
    seconds = max(o.answer.ended for o in outcomes) - min(o.intended for o in outcomes)
    events = [(o, [when for when, name, _ in o.events if name == "token"]) for o in answered]
    between = [b - a for _, times in events for a, b in pairwise(times)]
    return {
        "offered": round(offered, 1),
        "requests": len(outcomes),
        "achieved": round(len(answered) / seconds, 1),
        "goodput": round(sum(o.latency_s <= slo_s for o in answered) / seconds, 1),
        "end_to_end_ms": percentiles_ms(o.latency_s for o in answered),
        "first_token_ms": percentiles_ms(times[0] - o.intended for o, times in events if times),
        "inter_token_ms": percentiles_ms(between),
        "refused": len(refused),
        "refusal_ms": percentiles_ms(o.latency_s for o in refused),
        "failed": len(outcomes) - len(answered) - len(refused),
        "client_cpu": round(client_cpu, 2),
        "client_lag_ms_p99": round(1000 * percentile([o.sent - o.intended for o in outcomes], 0.99), 1),
    }
