"""Our server under faults, beside itself without them: kills of a device process, five times as many requests as it can
answer, and hundreds of clients that send their headers and bodies a byte at a time.

python -m benchmarks.faults --checkpoints FOLDER [--parts kills overload slow] [--minutes 5] [--clients-apart]
                            [--json] [--results FILE]

FOLDER holds the models that come with Parlance. Each part starts a server of its own.

kills: sixteen clients ask without a pause, half of --minutes in peace and half with a SIGKILL to one of the two device
processes every 30 seconds. An answer may be missing (503, or the event `error` of a stream) only for a kill.
overload: the knee is what as many clients as there are slots get when each asks again as soon as it is answered. Then
requests arrive at five times that rate for --minutes, whether or not earlier ones were answered. With --clients-apart
the clients have the last core for themselves, and the server the others, with a device process for each of them.
slow: the latencies of requests that arrive at a low rate, in turns without and with 500 connections, each from one of
twenty other addresses, that trickle headers or bodies and are opened again when the server closes them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.load import REFUSED, Outcome, arrivals, closed_loop, open_loop, percentile, percentiles_ms
from benchmarks.report import argument_parser, finish, goal
from benchmarks.servers import Server, ours, pin, resident_mb
from benchmarks.wire import Answer, Client, post

CLIENTS, KILL_EVERY_S, KILL_ANSWERED_S = 16, 30.0, 1.0
TIMES, KNEE_CLIENTS, KNEE_S = 5, 64, 20.0
ADDRESSES, SLOW_CONNECTIONS, TRICKLE_S, HONEST_RATE, ROUNDS = 20, 500, 2.0, 40.0, 4
RETRYABLE = 503
Part = tuple[list[dict[str, Any]], list[dict[str, Any]]]  # rows and goals


PAIR = {"source": "de", "target": "en", "model": "everyday"}
# texts of some length, half of them streams, so that a kill always meets requests in work
ASKED = [
    post("/translate", {"q": "ich möchte ein bier und ein wasser", **PAIR}),
    post("/translate", {"q": ["guten morgen", "wo ist der bahnhof?", "ich wohne in berlin"], **PAIR}),
    post("/generate", {"prompt": "春", "model": "lyrics-zh", "max_new_tokens": 200, "seed": 7}),
    post("/generate", {"prompt": "分开", "model": "lyrics-zh", "max_new_tokens": 200, "seed": 5, "stream": True}),
]
# one of these costs the server hundreds of times what it costs the clients, which share the cores
LARGE = post("/generate", {"prompt": "春", "model": "lyrics-zh", "max_new_tokens": 1000, "seed": 7, "n": 16})


def retryable(answer: Answer) -> bool:
    """A failure that says so: 503, or a stream whose last event is `error`."""
    if answer.status == RETRYABLE:
        return True
    events = answer.events() if answer.streamed else []
    return bool(events) and events[-1][1] == "error"


@dataclass
class Killed:
    """failed: (seconds since the last kill, whether it may be tried again)."""

    answered: int = 0
    seconds: float = 0.0
    failed: list[tuple[float, bool]] = field(default_factory=list)
    kills: int = 0


async def insist(server: Server, seconds: float, *, kill: bool) -> Killed:
    """So many clients, each of which asks again as soon as it is answered."""
    found, client = Killed(), Client(server.port)
    began = time.perf_counter()
    killed_at = began

    async def ask(number: int) -> None:
        chosen = random.Random(number)
        while (at := time.perf_counter()) - began < seconds:
            answer = await client.ask(chosen.choice(ASKED))
            if answer.succeeded:
                found.answered += 1
            else:
                found.failed.append((answer.ended - max(killed_at, at), retryable(answer)))

    async def killing() -> None:
        nonlocal killed_at
        while (next_s := (found.kills + 1) * KILL_EVERY_S) < seconds:
            await asyncio.sleep(max(0.0, began + next_s - time.perf_counter()))
            victim = random.Random(found.kills).choice(server.devices())
            killed_at = time.perf_counter()
            os.kill(victim, signal.SIGKILL)
            found.kills += 1

    await asyncio.gather(*(ask(number) for number in range(CLIENTS)), *([killing()] if kill else []))
    found.seconds = time.perf_counter() - began
    client.close()
    return found


def kills(arguments: argparse.Namespace) -> Part:
    seconds = arguments.minutes * 30
    with ours(arguments.checkpoints, cpu_workers=2, cpu_threads=1, log_level="error") as server:
        asyncio.run(insist(server, 5, kill=False))
        peace = asyncio.run(insist(server, seconds, kill=False))
        war = asyncio.run(insist(server, seconds, kill=True))
    rates = [found.answered / found.seconds for found in (peace, war)]
    rows = [
        {"part": "kills", "answers_per_s": round(rate, 1), "failed": len(found.failed), "kills": found.kills}
        for found, rate in zip((peace, war), rates, strict=True)
    ]
    failures = [*peace.failed, *war.failed]
    late = max((seconds for seconds, _ in failures), default=0.0)
    return rows, [
        goal("goodput with kills, of that without", round(rates[1] / rates[0], 3), 0.8, "×", "higher"),
        goal("failures that do not say to try again", sum(not again for _, again in failures), 0, "", "lower"),
        goal("the latest failure after its kill", round(late, 2), KILL_ANSWERED_S, "s", "lower"),
    ]


def overload(arguments: argparse.Namespace) -> Part:
    seconds = arguments.minutes * 60
    cores = sorted(os.sched_getaffinity(0))
    own = cores[:-1] if arguments.clients_apart else cores
    memory: list[float] = []

    async def measure(server: Server) -> tuple[float, list[Outcome], float]:
        """The knee in answers a second, the outcomes of the overload, and its seconds."""
        client = Client(server.port, addresses=[f"127.0.1.{number}" for number in range(1, 1 + ADDRESSES)])
        await closed_loop(client, [LARGE] * KNEE_CLIENTS, KNEE_CLIENTS)
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < KNEE_S:
            await closed_loop(client, [LARGE] * KNEE_CLIENTS, KNEE_CLIENTS)
            count += KNEE_CLIENTS
        knee = count / (time.perf_counter() - began)

        async def watch() -> None:
            while True:
                memory.append(sum(map(resident_mb, (server.process.pid, *server.devices()))))
                await asyncio.sleep(5)

        watching = asyncio.create_task(watch())
        times = arrivals(TIMES * knee, seconds, seed=1)
        began = time.perf_counter()
        outcomes = await open_loop(client, [LARGE] * len(times), times)
        took = time.perf_counter() - began
        watching.cancel()
        client.close()
        return knee, outcomes, took

    with ours(arguments.checkpoints, cpu_workers=len(own), cpu_threads=1, log_level="error") as server:
        if arguments.clients_apart:
            pin(server.pids(), own)
            os.sched_setaffinity(0, cores[-1:])
        knee, outcomes, took = asyncio.run(measure(server))
    good = [outcome for outcome in outcomes if outcome.succeeded]
    refusals = [outcome.answer.ended - outcome.sent for outcome in outcomes if outcome.answer.status in REFUSED]
    third = max(1, len(memory) // 3)
    growth = percentile(memory[-third:], 0.5) / percentile(memory[third : 2 * third] or memory, 0.5) - 1
    rows = [
        {
            "part": "overload",
            "clients_apart": arguments.clients_apart,
            "knee_per_s": round(knee, 1),
            "offered_per_s": round(len(outcomes) / seconds, 1),
            "answered_per_s": round(len(good) / took, 1),
            "refusal_ms": percentiles_ms(refusals),
            "client_lag_ms_p99": round(1000 * percentile([o.sent - o.intended for o in outcomes], 0.99), 1),
        }
    ]
    lost = len(outcomes) - len(good) - len(refusals)
    return rows, [
        goal("goodput under 5 x overload, of the knee", round(len(good) / took / knee, 3), 0.9, "×", "higher"),
        goal("p99 of a refusal", round(1000 * percentile(refusals, 0.99), 1) if refusals else None, 50, "ms", "lower"),
        goal("requests neither answered nor refused", lost, 0, "", "lower"),
        goal("memory, last third against the one before", round(100 * growth, 2), 2, "%", "lower"),
    ]


async def trickle(port: int, number: int, closed: Any) -> None:
    """One slow connection, opened again whenever the server ends it. Even numbers send headers, odd ones a body."""
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
    await asyncio.sleep(random.random() * TRICKLE_S)
    while True:
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, local_addr=(f"127.0.1.{1 + number % ADDRESSES}", 0)
            )
        except OSError:
            await asyncio.sleep(TRICKLE_S)
            continue
        with contextlib.suppress(OSError):
            writer.write(b"GET /health/live HTTP/1.1\r\nX-Slow: " if number % 2 == 0 else head + b'{"q": "')
            ended = asyncio.create_task(reader.read())
            while not (await asyncio.wait((ended,), timeout=TRICKLE_S))[0]:
                writer.write(b"a")
            ended.exception()
            closed.value += 1
        writer.transport.abort()


def attack(port: int, closed: Any) -> None:
    """Runs in a process of its own, so that the clients that are measured wait for none of it."""

    async def all_of_them() -> None:
        await asyncio.gather(*(trickle(port, number, closed) for number in range(SLOW_CONNECTIONS)))

    asyncio.run(all_of_them())


def slow(arguments: argparse.Namespace) -> Part:
    seconds = arguments.minutes * 60 / (2 * ROUNDS)
    spawn = multiprocessing.get_context("spawn")
    closed = spawn.Value("i", 0)

    async def honest(port: int, seed: int) -> list[float]:
        client = Client(port)
        times = arrivals(HONEST_RATE, seconds, seed)
        outcomes = await open_loop(client, [ASKED[i % 2] for i in range(len(times))], times)
        client.close()
        assert all(outcome.succeeded for outcome in outcomes), Counter(o.answer.status for o in outcomes)
        return [outcome.latency_s for outcome in outcomes]

    alone, beside = list[float](), list[float]()
    with ours(arguments.checkpoints, cpu_workers=2, cpu_threads=1, log_level="error") as server:
        asyncio.run(honest(server.port, 0))
        for turn in range(ROUNDS):
            alone += asyncio.run(honest(server.port, 1 + turn))
            attacker = spawn.Process(target=attack, args=(server.port, closed))
            attacker.start()
            time.sleep(TRICKLE_S + 2)  # until they are all connected
            beside += asyncio.run(honest(server.port, 1 + turn))
            attacker.terminate()
            attacker.join()
            time.sleep(1)
    rows: list[dict[str, Any]] = [
        {"part": "slow", "with": "no slow client", "latency_ms": percentiles_ms(alone)},
        {"part": "slow", "with": f"{SLOW_CONNECTIONS} slow connections", "latency_ms": percentiles_ms(beside)}
        | {"closed_by_the_server": closed.value},
    ]
    ratio = percentile(beside, 0.99) / percentile(alone, 0.99)
    return rows, [goal("p99 of honest clients beside slow ones", round(ratio, 2), 1.2, "×", "lower")]


PARTS = {"kills": kills, "overload": overload, "slow": slow}


def main() -> None:
    top = argument_parser("faults", __doc__)
    top.add_argument("--checkpoints", type=Path, required=True)
    top.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    top.add_argument("--minutes", type=float, default=5, help="of each part")
    top.add_argument("--clients-apart", action="store_true", help="overload: the clients get a core of their own")
    arguments = top.parse_args()
    rows, goals = list[dict[str, Any]](), list[dict[str, Any]]()
    for part in arguments.parts:
        found, aims = PARTS[part](arguments)
        rows += found
        goals += aims
    finish(arguments, rows, goals)


if __name__ == "__main__":
    main()
