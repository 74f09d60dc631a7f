"""What a serving run measures of one server: a page at once, rates up to the knee, and streams of a lyricist."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from benchmarks.load import Outcome, answered, arrivals, closed_loop, open_loop, summary, translation
from benchmarks.peers.gru_loop import GruLoop
from benchmarks.race import ratio
from benchmarks.served import LYRICIST, PROMPT
from benchmarks.servers import Server
from benchmarks.wire import Client, post

CONNECTIONS = 6  # what browsers open to one host over HTTP/1.1
WAYS = ("6 connections", "all at once", "one batch request")
SLO_S = 2.0
KEPT_UP = 0.9  # a rate is held if the answers come at nine tenths of it at least: otherwise a queue grows
MOST_REFUSED = 0.01
TEMPERATURE = 0.8


async def page(server: Server, paragraphs: Sequence[str], way: str) -> dict[str, Any]:
    """A page of short paragraphs that a browser extension wants translated: seconds until the last one was there, and
    how much later than on an idle server the first one sent was."""
    alone_s = statistics.median(
        [(await answered(server, [translation(paragraphs[0])], 1))[0][0].latency_s for _ in range(5)]
    )
    batch = way == WAYS[2]
    requests = [translation(list(paragraphs))] if batch else [translation(text) for text in paragraphs]
    # the client limits its connections by itself; a page sends everything at once
    outcomes, seconds = await answered(server, requests, len(requests), CONNECTIONS if way == WAYS[0] else None)
    return {
        "page": way,
        "server": server.name,
        "paragraphs": len(paragraphs),
        "last_s": round(seconds, 3),
        "first_alone_ms": round(1000 * alone_s, 1),
        "first_later_ms": None if batch else round(1000 * (outcomes[0].latency_s - alone_s), 1),
    }


async def capacity(server: Server, texts: Sequence[str], concurrency: int) -> float:
    """Answers a second when there are always `concurrency` requests waiting."""
    client = Client(server.port)
    await closed_loop(client, [translation(text) for text in texts[:concurrency]], concurrency)  # warm
    outcomes, seconds = await closed_loop(client, [translation(text) for text in texts], concurrency)
    client.close()
    return sum(o.succeeded for o in outcomes) / seconds


@dataclass(frozen=True, slots=True)
class Sweep:
    """Arrival rates, each with several seeds. drawn: count, seed -> texts."""

    drawn: Callable[[int, int], Sequence[str]]
    duration_s: float
    seeds: Sequence[int]

    async def at(self, server: Server, rate: float) -> dict[str, Any]:
        """One row: all seeds of one rate together, and the goodput of each."""
        outcomes: list[Outcome] = []
        rows = []
        for seed in self.seeds:
            times = arrivals(rate, self.duration_s, seed)
            requests = [translation(text) for text in self.drawn(len(times), seed)]
            client = Client(server.port)
            one = await open_loop(client, requests, times)
            rows.append(summary(one, rate, SLO_S))
            client.close()
            outcomes += one
        return {
            "sweep": server.name,
            **summary(outcomes, rate, SLO_S),
            # the rates of all seeds together would count the pauses between them
            **{name: round(statistics.mean(row[name] for row in rows), 1) for name in ("achieved", "goodput")},
            "goodput_by_seed": [row["goodput"] for row in rows],
        }


def holds(row: dict[str, Any]) -> bool:
    """Whether the server kept up with the rate at a p99 within the objective."""
    latency, lost = row["end_to_end_ms"], row["refused"] + row["failed"]
    return bool(
        latency is not None
        and latency["p99"] <= 1000 * SLO_S
        and row["achieved"] >= KEPT_UP * row["offered"]
        and lost <= MOST_REFUSED * row["requests"]
    )


def best_goodput(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    """The most answers a second among the rates that the server holds; None if it held none."""
    return max((row["goodput"] for row in rows if row["sweep"] == name and holds(row)), default=None)


def generation(seed: int, length: int) -> bytes:
    body = {"prompt": PROMPT, "model": LYRICIST, "max_new_tokens": length, "temperature": TEMPERATURE, "seed": seed}
    return post("/generate", {**body, "stream": True})


async def _streamed(server: Server, streams: int, length: int) -> float:
    """All at once; tokens a second until the last has ended."""
    await answered(server, [generation(i, 8) for i in range(streams)], streams)
    _, seconds = await answered(server, [generation(i, length) for i in range(streams)], streams)
    return streams * length / seconds


def _loop_tokens_per_second(folder: Path, streams: int, length: int, threads: int) -> float:
    torch.set_num_threads(threads)
    return GruLoop(folder).tokens_per_second(PROMPT, streams, length, TEMPERATURE)


async def streams(server: Server, folder: Path, count: int, length: int, repeats: int, cores: int) -> dict[str, Any]:
    """Lyricist streams side by side, in turn with one `nn.GRU` in a Python loop that serves them one after another, at
    its best number of threads."""
    ours, loops = [], []
    few = max(1, count // 8)  # its rate does not depend on how many wait
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for _ in range(repeats):
            threads = range(1, cores + 1)
            rates = [pool.submit(_loop_tokens_per_second, folder, few, length, t).result() for t in threads]
            loops.append(max(rates))
            ours.append(await _streamed(server, count, length))
    return {
        "lyricist": f"{count} streams of {length} tokens, GRU 256",
        "tokens_per_s": round(statistics.median(ours)),
        "loop_tokens_per_s": round(statistics.median(loops)),
        "ratio": ratio(ours, loops, rates=True).median,
    }
