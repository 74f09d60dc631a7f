"""What a server still computes for clients that have left, told by the processor time of its processes."""

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
QUIET_S, QUIET_CPU_S, MOST_S = 0.15, 0.008, 30.0


async def idle(server: Server) -> None:
    """Until the server's processes have done next to nothing for a while."""
    end = time.perf_counter() + MOST_S
    while time.perf_counter() < end:
        before = server.cpu_s()
        await asyncio.sleep(QUIET_S)
        if server.cpu_s() - before < QUIET_CPU_S:
            return


async def after_a_cancel(server: Server, texts: Sequence[str], tokens: int) -> dict[str, Any]:
    """All texts at once, once to their end and once left at a third; tokens: what they take in all."""
    client = Client(server.port)
    requests = [translation(text) for text in texts]
    await closed_loop(client, requests, len(requests))
    await idle(server)
    before = server.cpu_s()
    _, seconds = await closed_loop(client, requests, len(requests))
    await idle(server)
    whole = server.cpu_s() - before
    tasks = [asyncio.create_task(client.ask(request)) for request in requests]
    await asyncio.sleep(LEFT_AFTER * seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    before = server.cpu_s()
    await idle(server)
    after = max(0.0, server.cpu_s() - before)
    client.close()
    return {
        "cancel": f"{len(texts)} long texts left at {LEFT_AFTER:.0%} of {seconds:.2f} s",
        "server": server.name,
        "cpu_s_whole": round(whole, 3),
        "cpu_s_after": round(after, 3),
        "tokens": tokens,
        "tokens_after": round(tokens * after / whole),
    }
