"""Lyricist streams side by side, against one `nn.GRU` in a Python loop that serves them one after another."""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from benchmarks.distribution import percentiles_ms
from benchmarks.load import closed_loop
from benchmarks.peers.gru_loop import GruLoop
from benchmarks.served import LYRICIST, PROMPT
from benchmarks.servers import Server
from benchmarks.wire import Client, post

TEMPERATURE = 0.8


def loop_tokens_per_second(folder: Path, streams: int, length: int, threads: int) -> float:
    torch.set_num_threads(threads)
    return GruLoop(folder).tokens_per_second(PROMPT, streams, length, TEMPERATURE)


def generation(seed: int, length: int) -> bytes:
    body = {"prompt": PROMPT, "model": LYRICIST, "max_new_tokens": length, "temperature": TEMPERATURE, "seed": seed}
    return post("/generate", {**body, "stream": True})


async def served(server: Server, streams: int, length: int) -> dict[str, Any]:
    """All at once; tokens a second until the last has ended, and the processor time that a token takes on its way."""
    client = Client(server.port)
    await closed_loop(client, [generation(i, 8) for i in range(streams)], streams)
    requests = [generation(i, length) for i in range(streams)]
    before = processor_s(server)
    outcomes, seconds = await closed_loop(client, requests, streams)
    used = {name: after - before[name] for name, after in processor_s(server).items()}
    client.close()
    assert all(o.succeeded for o in outcomes), [o.answer.body for o in outcomes if not o.succeeded][:1]
    tokens = [[when for when, name, _ in o.events if name == "token"] for o in outcomes]
    return {
        "streamed": outcomes[0].answer.streamed,
        "tokens_per_s": streams * length / seconds,
        "cpu_us_per_token": {name: round(1e6 * each / streams / length, 1) for name, each in used.items()},
        "client_cpu": round(used["client"] / seconds, 2),
        "events": sum(map(len, tokens)),
        "first_token_ms": percentiles_ms(t[0] - o.intended for o, t in zip(outcomes, tokens, strict=True) if t),
        "inter_event_ms": percentiles_ms(b - a for t in tokens for a, b in pairwise(t)),
    }


def processor_s(server: Server) -> dict[str, float]:
    """Of each stage so far: the device processes, the front end, and this process, which is the client."""
    front_end, *devices = server.pids()
    return {
        "device": server.cpu_s(devices),
        "front_end": server.cpu_s([front_end]),
        "client": time.process_time(),
    }


async def race(server: Server, folder: Path, streams: int, length: int, repeats: int, cores: int) -> dict[str, Any]:
    """In turn; the loop at its best number of threads."""
    ours, loops = [], []
    few = max(1, streams // 8)  # its rate does not depend on how many wait
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for _ in range(repeats):
            counts = range(1, cores + 1)
            loops.append(max(pool.submit(loop_tokens_per_second, folder, few, length, t).result() for t in counts))
            ours.append(await served(server, streams, length))
    ratios = [a["tokens_per_s"] / b for a, b in zip(ours, loops, strict=True)]
    return {
        "lyricist": f"{streams} streams of {length} tokens, GRU 256",
        "streamed": ours[-1]["streamed"],
        "tokens_per_s": round(statistics.median(each["tokens_per_s"] for each in ours)),
        "loop_tokens_per_s": round(statistics.median(loops)),
        "ratio": round(statistics.median(ratios), 2),
        "cpu_us_per_token": ours[-1]["cpu_us_per_token"],
        "client_cpu": ours[-1]["client_cpu"],
        "tokens_per_event": round(streams * length / ours[-1]["events"], 1),
        "first_token_ms": ours[-1]["first_token_ms"],
        "inter_event_ms": ours[-1]["inter_event_ms"],
    }
