"""Our server against LibreTranslate itself, with the same weights, beam and sentences under the same load.

python -m benchmarks.libretranslate --libretranslate PYTHON --checkpoint FOLDER --data FOLDER [--sizes base] [--beam 4]
                                    [--rounds 5] [--json] [--results FILE]

PYTHON is the interpreter of an environment into which LibreTranslate was installed (pip install libretranslate). It
gets FOLDER's weights as an Argos package, and of its settings those that a scan finds fastest here. Raced twice: with
the network as it is, and at the size of the packages that LibreTranslate downloads (`benchmarks.widened`), where a
sentence costs what its users pay. The sentences are those of Multi30k's test set that are one sentence without digits.
Throughput is of a closed loop, rounds in turns: of clients that send a sentence each, and of one that sends lists of
them. Latency is of an open loop (Poisson) at a share of what LibreTranslate can do, the same arrivals for both.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import load, wire
from benchmarks.distribution import percentiles_ms
from benchmarks.peers import libretranslate as peer
from benchmarks.report import finish, goal
from benchmarks.servers import Server, libretranslate, ours
from benchmarks.serving_sentences import SOURCE, TARGET, multi30k
from benchmarks.widened import SIZES, sized

SETTINGS = [
    peer.Setting("int8", 2, 1),
    peer.Setting("int8", 1, 2),
    peer.Setting("float32", 2, 1),
    peer.Setting("int8", 2, 1, threads=16),
    peer.Setting("int8_float32", 2, 1, threads=16),
]
CLIENTS = (1, 16, 64)
PAGE = 50  # sentences of a list
LENGTH_PENALTY = 0.2  # LibreTranslate's, which is not a setting
OF_CAPACITY, LATENCY_S = 0.7, 15.0


@dataclass(frozen=True, slots=True)
class SentencesPerRound:
    """How many sentences each server gets per round."""

    of_us: int
    of_them: int


def sentences(data: Path) -> list[str]:
    results = [text for text in multi30k(data).test if not any(c.isdigit() for c in text)]
    return [text for text in results if sum(text.count(end) for end in ".!?") == 1 and text[-1] in ".!?"]


def requests(texts: Sequence[str], count: int, start: int = 0) -> list[bytes]:
    """Around through the sentences, from number `start` on."""
    fields = {"source": SOURCE, "target": TARGET}
    return [wire.post("/translate", {"q": texts[(start + i) % len(texts)], **fields}) for i in range(count)]


def lists(texts: Sequence[str], count: int, start: int = 0) -> list[bytes]:
    """The same in lists of PAGE sentences."""
    fields = {"source": SOURCE, "target": TARGET}
    starts = range(start, start + count, PAGE)
    return [
        wire.post("/translate", {"q": [texts[(i + j) % len(texts)] for j in range(PAGE)], **fields}) for i in starts
    ]


async def rate(server: Server, per_round: Sequence[bytes], clients: int) -> float:
    """Requests a second of a closed loop; every one has to be answered."""
    client = wire.Client(server.port)
    outcomes, seconds = await load.closed_loop(client, per_round, clients)
    client.close()
    refused = [outcome.answer for outcome in outcomes if not outcome.succeeded]
    if refused:
        raise RuntimeError(f"{server.name} refused {len(refused)}: {refused[0].status} {refused[0].body[:200]!r}")
    return len(outcomes) / seconds


async def latencies(server: Server, per_round: Sequence[bytes], times: Sequence[float]) -> dict[str, float]:
    client = wire.Client(server.port)
    await client.open(16)
    outcomes = await load.open_loop(client, per_round, times)
    client.close()
    return {"failed": sum(not o.succeeded for o in outcomes), **percentiles_ms(o.latency_s for o in outcomes)}


async def texts_of(server: Server, per_round: Sequence[bytes]) -> list[str]:
    client = wire.Client(server.port)
    outcomes, _ = await load.closed_loop(client, per_round, 8)
    client.close()
    return [outcome.answer.json()["translatedText"] for outcome in outcomes]


def fastest(python: Path, packages: Path, beam: int, texts: Sequence[str]) -> tuple[peer.Setting, list[dict[str, Any]]]:
    rows, best = [], (0.0, SETTINGS[0])
    for setting in SETTINGS:
        with libretranslate(python, packages, setting.environment(beam)) as server:
            asyncio.run(rate(server, requests(texts, 16), 8))  # loads its model
            result = asyncio.run(rate(server, requests(texts, 120), 16))
        rows.append({"LibreTranslate": str(setting), "sentences a second of 16 clients": round(result, 1)})
        best = max(best, (result, setting), key=lambda each: each[0])
    return best[1], rows


def race(us: Server, them: Server, texts: Sequence[str], rounds: int) -> tuple[list[dict[str, Any]], float, float]:
    """Rows, the median ratio with 16 clients, and what they can do then, in sentences a second."""
    rows, chosen, capacity = [], 0.0, 0.0
    for clients in CLIENTS:
        per_round = SentencesPerRound(400, 100) if clients > 1 else SentencesPerRound(60, 40)
        row, ratio, theirs = raced(us, them, lambda n, at: requests(texts, n, at), per_round, clients, rounds)
        rows.append({"clients": clients, "sentences of a request": 1, **row})
        if clients == 16:
            chosen, capacity = ratio, theirs
    row, _, _ = raced(
        us, them, lambda n, at: lists(texts, n, at), SentencesPerRound(8 * PAGE, 4 * PAGE), 1, rounds, each=PAGE
    )
    rows.append({"clients": 1, "sentences of a request": PAGE, **row})
    return rows, chosen, capacity


def raced(
    us: Server,
    them: Server,
    made: Callable[[int, int], list[bytes]],
    per_round: SentencesPerRound,
    clients: int,
    rounds: int,
    each: int = 1,
) -> tuple[dict[str, Any], float, float]:
    """A row, the median of the rounds' ratios, and their median rate. made: requests from a count of sentences and the
    number of the first; each: sentences of one."""
    results = []
    for number in range(rounds):
        turns = [("ours", us, per_round.of_us), ("theirs", them, per_round.of_them)]
        done = {
            name: each * asyncio.run(rate(server, made(count, 97 * number), clients))
            for name, server, count in (turns if number % 2 else reversed(turns))
        }
        both = [done["ours"], done["theirs"]]
        results.append(both)
    ratios = [ours / theirs for ours, theirs in results]
    mine, other = (statistics.median(column) for column in zip(*results, strict=True))
    row = {"ours_per_s": round(mine, 1), "theirs_per_s": round(other, 1), "ratio": round(statistics.median(ratios), 2)}
    return {**row, "ratios": [round(ratio, 2) for ratio in ratios]}, statistics.median(ratios), other


def waits(us: Server, them: Server, texts: Sequence[str], capacity: float) -> list[dict[str, Any]]:
    rate_per_s = OF_CAPACITY * capacity
    times = load.arrivals(rate_per_s, LATENCY_S, seed=1)
    per_round = requests(texts, len(times))
    return [
        {
            "server": server.name,
            "offered_per_s": round(rate_per_s, 1),
            **asyncio.run(latencies(server, per_round, times)),
        }
        for server in (us, them)
    ]


def same(us: Server, them: Server, texts: Sequence[str]) -> float:
    """The share of 100 sentences that both translate alike; the networks differ in how they are quantized."""
    mine, theirs = (asyncio.run(texts_of(server, requests(texts, 100))) for server in (us, them))
    return sum(a.strip() == b.strip() for a, b in zip(mine, theirs, strict=True)) / 100


def main(argv: Sequence[str] | None = None) -> None:
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--libretranslate", type=Path, required=True, metavar="PYTHON")
    top.add_argument("--checkpoint", type=Path, required=True, help="a de→en translator with a joint vocabulary")
    top.add_argument("--data", type=Path, required=True, help="Multi30k's folder")
    top.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES)
    top.add_argument("--beam", type=int, default=4)
    top.add_argument("--rounds", type=int, default=5)
    top.add_argument("--results", type=Path)
    top.add_argument("--json", action="store_true")
    arguments = top.parse_args(argv)
    rows, goals = [], []
    for size in arguments.sizes:
        results, reached = raced_at(size, arguments)
        rows += [{"network": size, **row} for row in results]
        goals += reached
    finish("libretranslate", rows, goals, as_json=arguments.json, out=arguments.results)


def raced_at(size: str, arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of a network's race, and what it shows of the goals."""
    texts = sentences(arguments.data)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        served, packages = Path(name) / "checkpoints", Path(name) / "packages"
        network = sized(size, arguments.checkpoint, served / "de-en")
        peer.packages_of(network, packages, SOURCE, TARGET)
        setting, rows = fastest(arguments.libretranslate, packages, arguments.beam, texts)
        us = stack.enter_context(ours(served, beam_size=arguments.beam, length_penalty=LENGTH_PENALTY))
        them = stack.enter_context(
            libretranslate(arguments.libretranslate, packages, setting.environment(arguments.beam))
        )
        alike = same(us, them, texts)
        rows.append({"LibreTranslate runs with": str(setting), "same translations": alike})
        raced_rows, ratio, capacity = race(us, them, texts, arguments.rounds)
        waited = waits(us, them, texts, capacity)
    ours_p99, theirs_p99 = (row["p99"] for row in waited)
    goals = [
        goal(f"{size}: sentences a second, 16 clients, against LibreTranslate", round(ratio, 2), 3.0, "×", "higher"),
        goal(
            f"{size}: p99 at 0.7 of its capacity, against its own", round(ours_p99 / theirs_p99, 3), 1.0, "×", "lower"
        ),
    ]
    return [*rows, *raced_rows, *waited], goals


if __name__ == "__main__":
    main()
