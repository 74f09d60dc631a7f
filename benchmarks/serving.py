"""The real server over loopback against the same network behind plain FastAPI with dynamic batching; what HTTP costs;
and lyricist streams.

python -m benchmarks.serving [--data FOLDER] [--checkpoint FOLDER] [--only PART] [--quick] [--json]

--data FOLDER holds Multi30k's .gz files (not in this repository); without it those of the corpus `everyday`.
--checkpoint FOLDER is a de→en translator; without it one is trained for two minutes. Both servers have a beam of 4 and
one thread; ours keeps its other defaults, its precision among them, and the peer computes in fp32. Arrivals are an
open-loop Poisson process; see `benchmarks.load`. The whole takes about a quarter of an hour; --quick is a smoke run of
less than a minute whose figures mean nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from benchmarks import corpora, overhead
from benchmarks import serving_parts as parts
from benchmarks.report import argument_parser, finish, goal
from benchmarks.served import Served, prepare
from benchmarks.servers import Server, batching_server, ours

OURS, BATCHING = "Parlance", "FastAPI with dynamic batching"
BEAM, THREADS, SLOTS = 4, 1, 64
SATURATING = 128  # clients
NOT_RUN = "this part was not run"


class PeerSetting(NamedTuple):
    """batch: texts of one batch at most. window_ms: how long a batch waits for more of them."""

    batch: int
    window_ms: float


SETTINGS = (PeerSetting(16, 5), PeerSetting(32, 5), PeerSetting(64, 10), PeerSetting(128, 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much of everything: by default the whole run."""

    settings: tuple[PeerSetting, ...] = SETTINGS
    train_minutes: float = 2.0
    duration_s: float = 6.0
    seeds: tuple[int, ...] = (1, 2, 3)
    of_capacity: tuple[float, ...] = (0.7, 0.85, 1.0, 1.15)
    paragraphs: int = 300
    repeats: int = 2
    sentences: int = 400
    streams: int = 64
    stream_tokens: int = 200


QUICK = Plan(
    settings=SETTINGS[2:3],
    train_minutes=0.1,
    duration_s=1.5,
    seeds=(1,),
    of_capacity=(0.7,),
    paragraphs=15,
    repeats=1,
    sentences=40,
    streams=8,
    stream_tokens=30,
)


class Race:
    """All rows of a run, which are printed as they come."""

    PARTS: ClassVar = ("scan", "page", "sweep", "throughput", "lyricist")

    def __init__(self, plan: Plan, served: Served, sentences: corpora.Sentences) -> None:
        self.plan, self.served, self.sentences = plan, served, sentences
        self.best = SETTINGS[2]
        self.rows: list[dict[str, Any]] = []
        self._stack, self._servers = contextlib.ExitStack(), list[Server]()
        self._started = time.monotonic()

    def note(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        print(f"{time.monotonic() - self._started:6.1f} s  {json.dumps(row, ensure_ascii=False)}", file=sys.stderr)

    async def run(self, part: str) -> None:
        """One of `PARTS`."""
        await getattr(self, f"_{part}")()

    def _ours(self, workers: int = 1) -> contextlib.AbstractContextManager[Server]:
        settings = {"beam_size": BEAM, "cpu_threads": THREADS, "slots_per_model": SLOTS, "request_timeout_s": 120}
        return ours(self.served.folder, cpu_workers=workers, **settings)

    def _engine(self) -> contextlib.AbstractContextManager[overhead.Engine]:
        return overhead.engine(self.served.translator, threads=THREADS, slots=SLOTS)

    def _peer(self, setting: PeerSetting) -> contextlib.AbstractContextManager[Server]:
        options = {"beam": BEAM, "threads": THREADS, **setting._asdict()}
        return batching_server(BATCHING, self.served.translator, **options)

    def _both(self) -> list[Server]:
        """Ours first. Started at the first call, then kept."""
        if not self._servers:
            self._servers += [self._stack.enter_context(each) for each in (self._ours(), self._peer(self.best))]
        return self._servers

    def close(self) -> None:
        """End the servers."""
        self._stack.close()
        self._servers.clear()

    async def _scan(self) -> None:
        """The peer's best setting: that with the most answers a second at saturation."""
        texts, rates = self.sentences.drawn(self.plan.sentences // 2, 0), list[float]()
        for setting in self.plan.settings:
            with self._peer(setting) as server:
                rates.append(round(await parts.capacity(server, texts, SATURATING), 1))
            self.note({"setting": BATCHING, **setting._asdict(), "answers_per_s": rates[-1]})
        self.best = self.plan.settings[rates.index(max(rates))]

    async def _page(self) -> None:
        servers = self._both()
        for repeat in range(self.plan.repeats):
            paragraphs = self.sentences.paragraphs(self.plan.paragraphs, repeat)
            for way in parts.WAYS:
                for server in servers:
                    self.note(await parts.page(server, paragraphs, way))

    async def _sweep(self) -> None:
        """Rates relative to what each server can do at most, and one that is low for both."""
        plan, servers, most = self.plan, self._both(), dict[str, float]()
        sweep = parts.Sweep(self.sentences.drawn, plan.duration_s, plan.seeds)
        for server in servers:
            most[server.name] = await parts.capacity(server, self.sentences.drawn(plan.sentences, 0), SATURATING)
            self.note({"capacity": server.name, "answers_per_s": round(most[server.name], 1)})
        low = 0.4 * min(most.values())
        for server in servers:
            for rate in (low, *(share * most[server.name] for share in plan.of_capacity)):
                self.note(await sweep.at(server, rate))

    async def _throughput(self) -> None:
        plan, server = self.plan, self._both()[0]
        with self._engine() as alone:
            alone.translate(self.sentences.drawn(20, 0), BEAM)  # warm
            texts = self.sentences.drawn(plan.sentences, 2)
            self.note(await overhead.saturated(server, alone, texts, BEAM, SATURATING, plan.repeats + 1))

    async def _lyricist(self) -> None:
        """Ours as shipped, with a process per core; the loop has all cores too, if it is faster with them."""
        plan, cores = self.plan, os.cpu_count() or 1
        self.close()
        with self._ours(workers=0) as server:
            streams = plan.streams, plan.stream_tokens, 2 * plan.repeats
            self.note(await parts.streams(server, self.served.lyricist, *streams, cores))


Rows = Sequence[Mapping[str, Any]]


def goals(rows: Rows) -> list[dict[str, Any]]:
    """What serving is to reach, read off the rows of a run."""
    kept, streams = (
        next((row[key] for row in rows if part in row), None)
        for part, key in (("throughput", "kept"), ("lyricist", "ratio"))
    )
    return [
        *(promise for way in parts.WAYS for promise in _page_goals(rows, way)),
        _goodput_goal(rows),
        _goal("engine throughput kept over HTTP", kept, 0.9, "of the engine alone", "higher"),
        _goal("lyricist, concurrent streams", streams, 20, "× one nn.GRU loop", "higher"),
    ]


def _goal(name: str, value: float | None, aim: float, unit: str, better: Any) -> dict[str, Any]:
    return goal(name, value, aim, unit, better, NOT_RUN if value is None else "")


def _page_goals(rows: Rows, way: str) -> list[dict[str, Any]]:
    mine, theirs = ([row for row in rows if row.get("page") == way and row["server"] == x] for x in (OURS, BATCHING))
    ratios = [b["last_s"] / a["last_s"] for a, b in zip(mine, theirs, strict=False)]
    ratio = round(statistics.median(ratios), 2) if ratios else None
    results = [_goal(f"page, {way}: time to the last one", ratio, 2, f"× faster than {BATCHING}", "higher")]
    later = [row["first_later_ms"] for row in mine if row["first_later_ms"] is not None]
    if ratios and later:
        value = round(statistics.median(later), 1)
        results.append(_goal(f"page, {way}: the first one, later than alone", value, 50, "ms", "lower"))
    return results


def _goodput_goal(rows: Rows) -> dict[str, Any]:
    swept = [dict(row) for row in rows if "sweep" in row]
    mine, theirs = (parts.best_goodput(swept, name) for name in (OURS, BATCHING))
    value = None if mine is None or theirs is None else round(mine / theirs, 2)
    why = "" if value else "a server held none of the rates that were tried" if swept else NOT_RUN
    return goal("goodput at a p99 of 2 s", value, 3, f"× {BATCHING}'s", "higher", why)


async def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    plan = QUICK if options.quick else Plan()
    sentences = corpora.multi30k(options.data) if options.data else corpora.everyday()
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    served = prepare(checkpoints, options.checkpoint, sentences, plan.train_minutes)
    race = Race(plan, served, sentences)
    race.note({"translator": served.origin, "sentences": f"{sentences.corpus}, {sentences.part}"})
    try:
        for part in Race.PARTS:
            if options.only is None or part in options.only:
                await race.run(part)
    finally:
        race.close()
    return race.rows


def main() -> None:
    top = argument_parser("serving", __doc__)
    top.add_argument("--data", type=Path, help="Multi30k's folder")
    top.add_argument("--checkpoint", type=Path, help="a de→en translator")
    top.add_argument("--only", choices=Race.PARTS, action="append", help="one part of the run; may be repeated")
    top.add_argument("--quick", action="store_true")
    options = top.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        try:
            rows = asyncio.run(measure(options, Path(temporary)))
        except OSError as error:
            sys.exit(f"{error}: --data must hold Multi30k's train, val and test_2016_flickr as .de.gz and .en.gz.")
    finish(options, rows, goals(rows))


if __name__ == "__main__":
    main()
