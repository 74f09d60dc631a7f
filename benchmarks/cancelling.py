"""The computation that a server still does for disconnected clients, as processor time of its processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.load import closed_loop
from benchmarks.servers import Server
from benchmarks.sweep import translation
from benchmarks.wire import Client

LEFT_AFTER = 0.3  # of the time that all the work takes
QUIET_S, QUIET_CPU_S, MOST_S = 0.15, 0.008, 10.0


async def idle_load(server: Server) -> float:
    """Processor seconds per second of an idle server: some poll."""
    await asyncio.sleep(0.5)
    before, started = server.cpu_s(), time.perf_counter()
    await asyncio.sleep(1.0)
    return (server.cpu_s() - before) / (time.perf_counter() - started)


async def work_s(server: Server, load: float, since_cpu_s: float, since: float) -> float:
    """Wait until it does no more than it does when idle (at most 10 s); the processor time beyond that since then."""
    end = time.perf_counter() + MOST_S
    quiet = False
    while not quiet and time.perf_counter() < end:
        before, started = server.cpu_s(), time.perf_counter()
        await asyncio.sleep(QUIET_S)
        quiet = server.cpu_s() - before < QUIET_CPU_S + 1.3 * load * (time.perf_counter() - started)
    return max(0.0, server.cpu_s() - since_cpu_s - load * (time.perf_counter() - since))


async def after_a_cancel(server: Server, texts: Sequence[str], tokens: int) -> dict[str, Any]:
    """All texts at once, once to their end and once left at a third; tokens: what they take in all."""
    client = Client(server.port)
    requests = [translation(text) for text in texts]
    await closed_loop(client, requests, len(requests))
    load = await idle_load(server)
    since, cpu = time.perf_counter(), server.cpu_s()
    _, seconds = await closed_loop(client, requests, len(requests))
    whole = await work_s(server, load, cpu, since)
    tasks = [asyncio.create_task(client.ask(request)) for request in requests]
    await asyncio.sleep(LEFT_AFTER * seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    since, cpu = time.perf_counter(), server.cpu_s()
    after = await work_s(server, load, cpu, since)
    client.close()
    return {
        "cancel": f"{len(texts)} long texts left at {LEFT_AFTER:.0%} of {seconds:.2f} s",
        "server": server.name,
        "idle_load": round(load, 3),
        "cpu_s_whole": round(whole, 3),
        "cpu_s_after": round(after, 3),
        "tokens": tokens,
        "tokens_after": round(tokens * after / whole),
    }
