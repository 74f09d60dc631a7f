"""Correctness under load: every request of a mixed load against the same request alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from benchmarks.distribution import differing
from benchmarks.load import closed_loop
from benchmarks.served import LYRICIST
from benchmarks.servers import Server
from benchmarks.sweep import translation
from benchmarks.wire import Client, post
from training.demo.demo_models import lyrics

CONCURRENCY = 200


def mixed(texts: Sequence[str], count: int, seed: int) -> list[bytes]:
    """Greedy and beam translations (on a server with beam 1, `alternatives` sets the beam), and continuations sampled
    at many temperatures; short and long."""
    rng = random.Random(seed)
    characters = sorted(set(lyrics()) - {"\n"})
    made = []
    for number in range(count):
        if rng.random() < 0.5:
            text = " ".join(rng.choice(texts) for _ in range(rng.choice([1, 1, 1, 2, 3])))
            made.append(translation(text, alternatives=rng.choice([0, 0, 1, 3])))
            continue
        body = {
            "prompt": "".join(rng.choice(characters) for _ in range(rng.randrange(1, 20))),
            "model": LYRICIST,
            "max_new_tokens": rng.choice([1, 5, 20, 60, 120]),
            "temperature": rng.choice([0, 0.3, 0.8, 1.0, 1.5]),
            "top_k": rng.choice([0, 0, 5, 40]),
            "top_p": rng.choice([1.0, 1.0, 0.9]),
            "seed": number,
        }
        made.append(post("/generate", body))
    return made


async def answers(server: Server, requests: Sequence[bytes], concurrency: int) -> list[Any]:
    """The bodies; whatever is not an answer raises."""
    client = Client(server.port)
    outcomes, _ = await closed_loop(client, requests, concurrency)
    client.close()
    for outcome in outcomes:
        if not outcome.succeeded:
            raise RuntimeError(f"status {outcome.answer.status}: {outcome.answer.body[:200]!r}")
    return [outcome.answer.json() for outcome in outcomes]


async def compare(server: Server, precision: str, requests: Sequence[bytes], fp32: list[Any] | None) -> dict[str, Any]:
    """The row, and under "alone" (to be taken out) the answers alone. fp32: its answers to the same requests."""
    alone = await answers(server, requests, 1)
    together = await answers(server, requests, CONCURRENCY)
    by_kind = {
        kind: [i for i, request in enumerate(requests) if request.startswith(b"POST " + kind.encode())]
        for kind in ("/translate", "/generate")
    }
    rates = {
        kind: round(differing([alone[i] for i in places], [together[i] for i in places]), 5)
        for kind, places in by_kind.items()
    }
    return {
        "agreement": precision,
        "requests": len(requests),
        "differing": sum(a != b for a, b in zip(alone, together, strict=True)),
        "differing_rate": rates,
        "differing_from_fp32": None if fp32 is None else round(differing(alone, fp32[: len(alone)]), 5),
        "alone": alone,
    }
