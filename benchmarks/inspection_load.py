"""Inspections beside ordinary traffic: what word alignment and attention maps cost translations and a lyrics stream.

python -m benchmarks.inspection_load [--baseline FOLDER] [--checkpoint FOLDER] [--clients 10] [--seconds 6] [--rounds 3]
                                     [--json] [--results FILE]

Clients in a closed loop translate short German sentences while one client streams lyrics (a GRU of width 256 with
random weights). In "numbers" each sentence has up to three, so that a translation that loses one is repaired by word
alignment. In "plain" words of as many tokens stand in their place. In "attention" the clients ask for attention maps of
such sentences. Sentences do not repeat, so that no cache answers.

--baseline FOLDER is another checkout, whose server takes turns with ours: ratios are medians within a round. A row has
answers per second, the median and the slowest latency, the lyrics' tokens per second and their longest pause, the
share of answers with an inspection (from the server's metrics), and CPU milliseconds of the server for an answer.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.distribution import percentile
from benchmarks.report import finish, goal
from benchmarks.served import TRANSLATOR, prepare
from benchmarks.servers import ROOT, Server, ours
from benchmarks.serving_sentences import made_up
from benchmarks.streams import generation
from benchmarks.wire import Answer, Client, post
from models import checkpoint as checkpoints
from models.tokenizer import Tokenizer

SUBJECTS = ("ein mann", "eine frau", "der kleine hund", "ein kind", "die alte dame", "ein junge", "das mädchen")
VERBS = ("kauft", "sieht", "trägt", "sucht", "isst", "findet", "zählt", "verkauft")
PLACES = ("auf dem markt", "in der stadt", "am strand", "vor dem haus", "im park", "an der straße", "im garten")
THINGS = ("bier", "äpfel", "brote", "bücher", "hunde", "bälle", "hemden", "stühle", "blumen")
STREAM_TOKENS = 1000
LONGEST_PAUSE_MS, LEAST_SHARE = 250, 0.7  # of the goals


def with_numbers(rng: random.Random) -> str:
    counted = [f"{rng.randrange(11, 9999)} {thing}" for thing in rng.sample(THINGS, rng.randrange(1, 4))]
    return f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {' und '.join(counted)} {rng.choice(PLACES)} ."


def without_numbers(rng: random.Random, tokenizer: Tokenizer) -> str:
    """A sentence of about as many tokens."""
    length = len(tokenizer.encode(with_numbers(rng)))
    things = list[str]()
    while True:
        things.append(f"{rng.choice(VERBS)} {rng.choice(THINGS)}")
        text = f"{rng.choice(SUBJECTS)} {' und '.join(things)} {rng.choice(PLACES)} ."
        if len(tokenizer.encode(text)) >= length:
            return text


def request(load: str, rng: random.Random, tokenizer: Tokenizer) -> bytes:
    text = with_numbers(rng) if load == "numbers" else without_numbers(rng, tokenizer)
    if load == "attention":
        return post("/attention", {"model": TRANSLATOR, "source": text, "kinds": ["cross"], "encoding": "u8"})
    return post("/translate", {"q": text, "source": "de", "target": "en"})


LOADS = ("plain", "numbers", "attention")
METRICS = ("answers_per_s", "tokens_per_s", "longest_pause_ms", "latency_ms", "slowest_ms", "inspected", "cpu_ms")


async def measured(
    server: Server, tokenizer: Tokenizer, load: str, clients: int, seconds: float, seed: int
) -> dict[str, float]:
    """One row: the clients' loop beside the stream, for so many seconds."""
    client, rng, began = Client(server.port), random.Random(seed), time.perf_counter()
    answers: list[tuple[float, Answer]] = []
    until, inspected, cpu_s = began + seconds, inspections(server), server.cpu_s()

    async def ask() -> None:
        while (sent := time.perf_counter()) < until:
            answers.append((sent, await client.ask(request(load, rng, tokenizer))))

    async def listen() -> list[tuple[float, int]]:
        """When tokens came, and how many: a token is a character."""
        times = list[tuple[float, int]]()
        for number in itertools.count():
            answer = await client.ask(generation(1000 * seed + number, STREAM_TOKENS))
            times += [(when, len(data["text"])) for when, name, data in answer.events() if name == "token"]
            if time.perf_counter() > until:
                return times
        raise AssertionError

    stream = asyncio.create_task(listen())
    await asyncio.gather(*(ask() for _ in range(clients)))
    done = time.perf_counter()
    used, looked = server.cpu_s() - cpu_s, inspections(server) - inspected
    events = [(when, count) for when, count in await stream if when < done]
    moments = [began, *(when for when, _ in events), done]
    client.close()
    failed = [answer.body for _, answer in answers if answer.status != 200]
    assert not failed, failed[:1]
    latencies = [1000 * (answer.ended - sent) for sent, answer in answers]
    return {
        "answers_per_s": len(answers) / (done - began),
        "tokens_per_s": sum(count for _, count in events) / (done - began),
        "longest_pause_ms": 1000 * max(after - before for before, after in pairwise(moments)),
        "latency_ms": statistics.median(latencies),
        "slowest_ms": percentile(latencies, 1.0),
        "inspected": looked / len(answers),
        "cpu_ms": 1000 * used / len(answers),
    }


def inspections(server: Server) -> float:
    """Inspections answered so far, a batch of alignments as one."""
    kinds = "alignment|attention"
    found = re.findall(
        rf'request_success_total{{.*finished_reason="(?:{kinds})".*}} (\S+)', server.get("/metrics") or ""
    )
    return sum(map(float, found))


def rows(
    servers: Sequence[Server], tokenizer: Tokenizer, rounds: int, clients: int, seconds: float
) -> Iterator[dict[str, Any]]:
    for load in LOADS:
        runs: list[list[dict[str, float]]] = [[] for _ in servers]
        for seed in range(rounds + 1):  # the first warms up
            order = list(enumerate(servers))
            for number, server in order if seed % 2 else order[::-1]:
                length = seconds if seed else 1.0
                run = asyncio.run(measured(server, tokenizer, load, clients, length, seed))
                if seed:
                    runs[number].append(run)
        for server, own in zip(servers, runs, strict=True):
            medians = {name: round(statistics.median(run[name] for run in own), 2) for name in METRICS}
            yield {"load": load, "server": server.name, "clients": clients} | medians
        if len(servers) == 2:
            ratios = {
                name: round(statistics.median(a[name] / b[name] for a, b in zip(*runs, strict=True) if b[name]), 2)
                for name in METRICS
                if all(run[name] for run in runs[1])
            }
            yield {"load": load, "server": "ratio", "clients": clients} | ratios


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inspection_load", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--baseline", type=Path, help="another checkout")
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "checkpoints" / "demo-de-en")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--results", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="inspections-") as name, ExitStack() as stack:
        folder = prepare(Path(name), options.checkpoint, made_up(Path(name)), 0).folder
        servers = [stack.enter_context(ours(folder))]
        if options.baseline is not None:
            servers.append(replace(stack.enter_context(ours(folder, root=options.baseline.resolve())), name="baseline"))
        tokenizer = checkpoints.read(folder / TRANSLATOR).tokenizers["source"]
        found = list(rows(servers, tokenizer, options.rounds, options.clients, options.seconds))
    own = {row["load"]: row for row in found if row["server"] == servers[0].name}
    goals = [
        goal(
            "answers per second with numbers, of those without",
            round(own["numbers"]["answers_per_s"] / own["plain"]["answers_per_s"], 2),
            LEAST_SHARE,
            "times",
            "higher",
        ),
        *(
            goal(f"longest pause of the lyrics, {load}", own[load]["longest_pause_ms"], LONGEST_PAUSE_MS, "ms", "lower")
            for load in LOADS
        ),
    ]
    finish("inspection_load", found, goals, as_json=options.json, out=options.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
