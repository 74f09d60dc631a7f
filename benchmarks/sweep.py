"""Arrival rates up to and beyond the knee, for each server, with several seeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import occupancy
from benchmarks.load import Outcome, arrivals, closed_loop, open_loop, summary
from benchmarks.served import TRANSLATOR
from benchmarks.servers import Server
from benchmarks.wire import Client, post

SLO_S = 2.0
OF_CAPACITY = (0.7, 0.85, 1.0, 1.15)
KEPT_UP = 0.9  # a rate is held if the answers come at nine tenths of it at least: otherwise a queue grows
MOST_REFUSED = 0.01


def translation(text: str, *, stream: bool = False, **fields: Any) -> bytes:
    body = {"q": text, "source": "de", "target": "en", **fields}
    return post("/translate", {**body, "stream": True} if stream else body)


async def capacity(server: Server, texts: Sequence[str], concurrency: int) -> float:
    """Answers a second when there are always `concurrency` requests waiting."""
    client = Client(server.port)
    await closed_loop(client, [translation(text) for text in texts[:concurrency]], concurrency)  # warm
    outcomes, seconds = await closed_loop(client, [translation(text) for text in texts], concurrency)
    client.close()
    return sum(o.succeeded for o in outcomes) / seconds


@dataclass(frozen=True, slots=True)
class Sweep:
    """drawn: count, seed -> texts."""

    drawn: Callable[[int, int], Sequence[str]]
    duration_s: float
    seeds: Sequence[int]

    async def at(self, server: Server, rate: float, *, stream: bool = False) -> dict[str, Any]:
        """One row: all seeds of one rate together, and the goodput of each."""
        outcomes: list[Outcome] = []
        goodputs, achieved, cpu = [], [], []
        before = occupancy.of(server, TRANSLATOR)
        for seed in self.seeds:
            times = arrivals(rate, self.duration_s, seed)
            requests = [translation(text, stream=stream) for text in self.drawn(len(times), seed)]
            client = Client(server.port)
            wall, used = time.perf_counter(), time.process_time()
            one = await open_loop(client, requests, times)
            cpu.append((time.process_time() - used) / (time.perf_counter() - wall))
            client.close()
            row = summary(one, rate, SLO_S, cpu[-1])
            goodputs.append(row["goodput"])
            achieved.append(row["achieved"])
            outcomes += one
        row = summary(outcomes, rate, SLO_S, max(cpu))  # its rates would count the pauses between the seeds
        share = occupancy.between(before, occupancy.of(server, TRANSLATOR))
        return {
            "sweep": server.name + (", streaming" if stream else ""),
            **row,
            "achieved": _mean(achieved),
            "goodput": _mean(goodputs),
            "goodput_by_seed": goodputs,
            "slot_occupancy": None if share is None else round(share, 3),
        }


def holds(row: dict[str, Any]) -> bool:
    """Whether the server kept up with the rate at a p99 within the objective."""
    latency = row["end_to_end_ms"]
    lost = row["refused"] + row["failed"]
    return bool(
        latency is not None
        and latency["p99"] <= 1000 * SLO_S
        and row["achieved"] >= KEPT_UP * row["offered"]
        and lost <= MOST_REFUSED * row["requests"]
    )


def best_goodput(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    """The most answers a second among the rates that the server holds; None if it held none."""
    return max((row["goodput"] for row in rows if row["sweep"] == name and holds(row)), default=None)


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 1)
