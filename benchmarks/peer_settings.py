"""The best setting of a peer server, by a short scan: how many texts a batch takes and how long it waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.servers import peer
from benchmarks.sweep import capacity

CONCURRENCY = 128


class Setting(NamedTuple):
    batch: int
    window_ms: float


SETTINGS = (Setting(16, 5), Setting(32, 5), Setting(64, 10), Setting(128, 10))


async def scan(
    module: str, name: str, checkpoint: Path, texts: Sequence[str], beam: int, threads: int
) -> tuple[Setting, list[dict[str, Any]]]:
    """The setting with the most answers a second at saturation, and a row for each."""
    rows = []
    for setting in SETTINGS:
        started = peer(module, name, checkpoint, beam=beam, threads=threads, **setting._asdict())
        with started as server, server.awake():
            rate = await capacity(server, texts, CONCURRENCY)
        rows.append({"setting": name, **setting._asdict(), "answers_per_s": round(rate, 1)})
    best = max(range(len(SETTINGS)), key=lambda i: rows[i]["answers_per_s"])
    return SETTINGS[best], rows
