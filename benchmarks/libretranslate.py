"""Our server against LibreTranslate itself, with the same weights, beam and sentences under the same load.

python -m benchmarks.libretranslate --libretranslate PYTHON --checkpoint FOLDER --data FOLDER [--sizes base]
                                    [--rounds 5] [--json]

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
from pathlib import Path
from typing import Any

from benchmarks import load, wire
from benchmarks.corpora import SOURCE, TARGET, multi30k
from benchmarks.load import translation
from benchmarks.peers import libretranslate as peer
from benchmarks.race import in_turns, ratio
from benchmarks.report import argument_parser, finish, goal
from benchmarks.servers import Server, libretranslate, ours
from benchmarks.widened import SIZES, sized

SETTINGS = [
    peer.Setting("int8", 2, 1),
    peer.Setting("int8", 1, 2),
    peer.Setting("float32", 2, 1),
    peer.Setting("int8", 2, 1, threads=16),
    peer.Setting("int8_float32", 2, 1, threads=16),
]
BEAM, CLIENTS = 4, (1, 16, 64)
PAGE = 50  # sentences of a list
LENGTH_PENALTY = 0.2  # LibreTranslate's, which is not a setting
OF_CAPACITY, LATENCY_S = 0.7, 15.0


def sentences(data: Path) -> list[str]:
    results = [text for text in multi30k(data).test if not any(c.isdigit() for c in text)]
    return [text for text in results if sum(text.count(end) for end in ".!?") == 1 and text[-1] in ".!?"]


def requests(texts: Sequence[str], count: int, start: int = 0, page: int = 1, **fields: Any) -> list[bytes]:
    """`count` sentences, around through all from number `start` on, in lists of `page` where that is more than one.
    fields: more of each request, such as its key."""
    drawn = [texts[(start + i) % len(texts)] for i in range(count)]
    return [translation(drawn[i] if page == 1 else drawn[i : i + page], **fields) for i in range(0, count, page)]


async def latencies(server: Server, sent: Sequence[bytes], times: Sequence[float]) -> dict[str, float]:
    client = wire.Client(server.port)
    await client.open(16)
    outcomes = await load.open_loop(client, sent, times)
    client.close()
    return {
        "failed": sum(not o.succeeded for o in outcomes),
        **(load.percentiles_ms(o.latency_s for o in outcomes) or {}),
    }


def fastest(python: Path, packages: Path, texts: Sequence[str]) -> tuple[peer.Setting, list[dict[str, Any]]]:
    rows, best = [], (0.0, SETTINGS[0])
    for setting in SETTINGS:
        with libretranslate(python, packages, setting.environment(BEAM)) as server:
            load.rate(server, requests(texts, 16), 8)  # loads its model
            result = load.rate(server, requests(texts, 120), 16)
        rows.append({"LibreTranslate": str(setting), "sentences a second of 16 clients": round(result, 1)})
        best = max(best, (result, setting), key=lambda each: each[0])
    return best[1], rows


def race(us: Server, them: Server, texts: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """A row for each number of clients, and one for lists. counts: the sentences of a round of ours and of theirs."""
    rows = []
    for clients, page, counts in (
        *((clients, 1, (400, 100) if clients > 1 else (60, 40)) for clients in CLIENTS),
        (1, PAGE, (8 * PAGE, 4 * PAGE)),
    ):

        def turn(server: Server, count: int, clients: int = clients, page: int = page) -> Callable[[int], float]:
            return lambda number: page * load.rate(server, requests(texts, count, 97 * number, page), clients)

        done = in_turns(rounds, {"ours": turn(us, counts[0]), "theirs": turn(them, counts[1])})
        result = ratio(done["ours"], done["theirs"], rates=True)
        row: dict[str, Any] = {"clients": clients, "sentences of a request": page}
        row |= {f"{name}_per_s": round(statistics.median(rates), 1) for name, rates in done.items()}
        rows.append(row | {"ratio": result.median, "range": [result.least, result.most]})
    return rows


def waits(us: Server, them: Server, texts: Sequence[str], capacity: float) -> list[dict[str, Any]]:
    rate_per_s = OF_CAPACITY * capacity
    times = load.arrivals(rate_per_s, LATENCY_S, seed=1)
    sent, offered = requests(texts, len(times)), round(rate_per_s, 1)
    return [
        {"server": server.name, "offered_per_s": offered, **asyncio.run(latencies(server, sent, times))}
        for server in (us, them)
    ]


def same(us: Server, them: Server, texts: Sequence[str]) -> float:
    """The share of 100 sentences that both translate alike; the networks differ in how they are quantized."""
    both = [asyncio.run(load.answered(server, requests(texts, 100), 8))[0] for server in (us, them)]
    answers = [[outcome.answer.json()["translatedText"].strip() for outcome in outcomes] for outcomes in both]
    return sum(a == b for a, b in zip(*answers, strict=True)) / 100


def main() -> None:
    top = argument_parser("libretranslate", __doc__)
    top.add_argument("--libretranslate", type=Path, required=True, metavar="PYTHON")
    top.add_argument("--checkpoint", type=Path, required=True, help="a de→en translator with a joint vocabulary")
    top.add_argument("--data", type=Path, required=True, help="Multi30k's folder")
    top.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES)
    top.add_argument("--rounds", type=int, default=5)
    arguments = top.parse_args()
    rows, goals = [], []
    for size in arguments.sizes:
        results, reached = raced_at(size, arguments)
        rows += [{"network": size, **row} for row in results]
        goals += reached
    finish(arguments, rows, goals)


def raced_at(size: str, arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of a network's race, and what it shows of the goals."""
    texts = sentences(arguments.data)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        served, packages = Path(name) / "checkpoints", Path(name) / "packages"
        network = sized(size, arguments.checkpoint, served / "de-en")
        peer.packages_of(network, packages, SOURCE, TARGET)
        setting, rows = fastest(arguments.libretranslate, packages, texts)
        us = stack.enter_context(ours(served, beam_size=BEAM, length_penalty=LENGTH_PENALTY))
        them = stack.enter_context(libretranslate(arguments.libretranslate, packages, setting.environment(BEAM)))
        alike = same(us, them, texts)
        rows.append({"LibreTranslate runs with": str(setting), "same translations": alike})
        raced = race(us, them, texts, arguments.rounds)
        (with_16,) = (row for row in raced if row["clients"] == 16)
        waited = waits(us, them, texts, with_16["theirs_per_s"])
    ours_p99, theirs_p99 = (row["p99"] for row in waited)
    goals = [
        goal(f"{size}: sentences a second, 16 clients, against LibreTranslate", with_16["ratio"], 3.0, "×", "higher"),
        goal(
            f"{size}: p99 at 0.7 of its capacity, against its own", round(ours_p99 / theirs_p99, 3), 1.0, "×", "lower"
        ),
    ]
    return [*rows, *raced, *waited], goals


if __name__ == "__main__":
    main()
