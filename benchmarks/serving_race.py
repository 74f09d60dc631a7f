"""The parts of a serving run, one after another; rows are printed as they come."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from benchmarks import agreement, cancelling, overhead, page, streams
from benchmarks.engine import Engine, engine
from benchmarks.served import Served
from benchmarks.servers import Server, ours, peer
from benchmarks.serving_sentences import Sentences
from benchmarks.sweep import OF_CAPACITY, Sweep, capacity

BATCHING, LITSERVE = "FastAPI with dynamic batching", "LitServe"
PEERS = {BATCHING: "batching_server", LITSERVE: "litserve_server"}
SATURATING = 128  # clients
SLOTS = 64
NARROW = ("bf16", "int8")


class PeerSetting(NamedTuple):
    """batch: texts of one batch at most. window_ms: how long a batch waits for more of them."""

    batch: int
    window_ms: float


SETTINGS = (PeerSetting(16, 5), PeerSetting(32, 5), PeerSetting(64, 10), PeerSetting(128, 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much of everything: by default the whole run."""

    scanned: bool = True
    duration_s: float = 6.0
    seeds: tuple[int, ...] = (1, 2, 3)
    of_capacity: tuple[float, ...] = OF_CAPACITY
    paragraphs: int = 300
    repeats: int = 2
    overhead: int = 100
    sentences: int = 400
    streams: int = 64
    stream_tokens: int = 200
    cancelled: int = 8
    mixed: int = 2000
    mixed_narrow: int = 300


class Race:
    """All rows of a run. settings: our server's settings, in addition to those set here."""

    PARTS: ClassVar = ("scan", "page", "sweep", "overhead", "cancel", "lyricist", "agreement")

    def __init__(
        self, plan: Plan, served: Served, sentences: Sentences, beam: int, threads: int, settings: dict[str, str]
    ) -> None:
        self.plan, self.served, self.sentences = plan, served, sentences
        self.beam, self.threads = beam, threads
        self.settings: dict[str, Any] = {
            "cpu_threads": threads,
            "cpu_workers": 1,
            "slots_per_model": SLOTS,
            "request_timeout_s": 120,
            **settings,
        }
        self.best = dict.fromkeys(PEERS, SETTINGS[-2])
        if find_spec("litserve") is None:
            del self.best[LITSERVE]
        self.rows: list[dict[str, Any]] = []
        self._stack, self._servers = contextlib.ExitStack(), list[Server]()
        self._started = time.monotonic()

    def note(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        print(f"{time.monotonic() - self._started:6.1f} s  {json.dumps(row, ensure_ascii=False)}", file=sys.stderr)

    async def run(self, part: str) -> None:
        """One of `PARTS`."""
        await getattr(self, f"_{part}")()

    def _ours(self, **change: Any) -> contextlib.AbstractContextManager[Server]:
        return ours(self.served.folder, **{"beam_size": self.beam, **self.settings, **change})

    def _engine(self) -> contextlib.AbstractContextManager[Engine]:
        precision = str(self.settings.get("precision", "auto"))
        return engine(self.served.translator, threads=self.threads, slots=SLOTS, precision=precision)

    def _all(self) -> list[Server]:
        """Ours first. Started at the first call, then kept."""
        if not self._servers:
            options = {"beam": self.beam, "threads": self.threads}
            starting = [self._ours()]
            for name, setting in self.best.items():
                starting.append(peer(PEERS[name], name, self.served.translator, **options, **setting._asdict()))
            with ThreadPoolExecutor() as pool:  # each takes seconds to import torch
                self._servers += pool.map(self._stack.enter_context, starting)
        return self._servers

    def close(self) -> None:
        """End the servers."""
        self._stack.close()
        self._servers.clear()

    async def _scan(self) -> None:
        """Each peer's best setting."""
        if not self.plan.scanned:
            return
        texts = self.sentences.drawn(self.plan.sentences // 2, 0)
        for name in self.best:
            best, rows = await scan_peer_settings(
                PEERS[name], name, self.served.translator, texts, self.beam, self.threads
            )
            self.best[name] = best
            for row in rows:
                self.note(row)

    async def _page(self) -> None:
        servers = self._all()
        for repeat in range(self.plan.repeats):
            paragraphs = self.sentences.paragraphs(self.plan.paragraphs, repeat)
            for way in page.WAYS:
                for server in servers:
                    if way == page.WAYS[2] and server.name == LITSERVE:
                        continue  # it takes one text a request
                    with server.awake():
                        self.note(await page.page(server, paragraphs, way))

    async def _sweep(self) -> None:
        """Rates relative to what each server can do at most, and one that is low for all."""
        plan, servers, most = self.plan, self._all(), dict[str, float]()
        sweep = Sweep(self.sentences.drawn, plan.duration_s, plan.seeds)
        for server in servers:
            with server.awake():
                most[server.name] = await capacity(server, self.sentences.drawn(plan.sentences, 0), SATURATING)
            self.note({"capacity": server.name, "answers_per_s": round(most[server.name], 1)})
        low = 0.4 * min(most.values())
        for server in servers:
            for rate in (low, *(share * most[server.name] for share in plan.of_capacity)):
                with server.awake():
                    self.note(await sweep.at(server, rate))
        for rate in (low, 0.8 * most[servers[0].name]):
            row = await sweep.at(servers[0], rate, stream=True)
            self.note(row)

    async def _overhead(self) -> None:
        plan, server = self.plan, self._all()[0]
        with self._engine() as alone:
            alone.translate(self.sentences.drawn(20, 0), self.beam)  # warm
            one_by_one = self.sentences.drawn(plan.overhead, 1)
            self.note(await overhead.one_client(server, alone, one_by_one, self.beam, plan.repeats + 1))
            self.note(await overhead.after_a_pause(server, alone, one_by_one, self.beam))
            texts = self.sentences.drawn(plan.sentences, 2)
            self.note(await overhead.saturated(server, alone, texts, self.beam, SATURATING, plan.repeats + 1))

    async def _cancel(self) -> None:
        texts = [" ".join(self.sentences.drawn(4, seed)) for seed in range(self.plan.cancelled)]
        with self._engine() as alone:
            tokens = alone.translate(texts, self.beam).tokens
        for server in self._all():
            with server.awake():
                self.note(await cancelling.after_a_cancel(server, texts, tokens))

    async def _lyricist(self) -> None:
        """Ours as shipped, with a process per core; the loop has all cores too, if it is faster with them."""
        plan, cores = self.plan, os.cpu_count() or 1
        self.close()
        with self._ours(cpu_workers=0) as server:
            row = await streams.race(
                server, self.served.lyricist, plan.streams, plan.stream_tokens, 2 * plan.repeats, cores
            )
        self.note({**row, "cpu_workers": "one per core"})

    async def _agreement(self) -> None:
        """fp32 first; a beam of 1 by default, so that one server answers greedy and beam requests."""
        self.close()
        requests = agreement.mixed(self.sentences.test, self.plan.mixed, 5)
        with self._ours(beam_size=1, precision="fp32") as server:
            row = await agreement.compare(server, "fp32", requests, None)
        fp32 = row.pop("alone")
        self.note(row)
        for precision in NARROW:
            try:
                with self._ours(beam_size=1, precision=precision) as server:
                    row = await agreement.compare(server, precision, requests[: self.plan.mixed_narrow], fp32)
            except RuntimeError as error:
                self.note({"agreement": precision, "differing": f"not available: {error}"})
                continue
            del row["alone"]
            self.note(row)


async def scan_peer_settings(
    module: str, name: str, checkpoint: Path, texts: Sequence[str], beam: int, threads: int
) -> tuple[PeerSetting, list[dict[str, Any]]]:
    """The setting with the most answers a second at saturation, and a row for each."""
    rows = []
    for setting in SETTINGS:
        started = peer(module, name, checkpoint, beam=beam, threads=threads, **setting._asdict())
        with started as server, server.awake():
            rate = await capacity(server, texts, SATURATING)
        rows.append({"setting": name, **setting._asdict(), "answers_per_s": round(rate, 1)})
    best = max(range(len(SETTINGS)), key=lambda i: rows[i]["answers_per_s"])
    return SETTINGS[best], rows
