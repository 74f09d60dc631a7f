"""Our server under faults, beside itself without them: kills of a device process, five times as many requests as it can
answer, and hundreds of clients that send their headers and bodies a byte at a time.

python -m benchmarks.faults --checkpoints FOLDER [--parts kills overload slow] [--minutes 5] [--clients-apart]
                            [--json] [--results FILE]

FOLDER: a translator de-en and a lyricist; the demo models by default. Each part starts a server of its own.

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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.distribution import percentile, percentiles_ms
from benchmarks.load import arrivals, closed_loop, open_loop
from benchmarks.report import finish, goal
from benchmarks.servers import Server, ours
from benchmarks.soak import resident_mb
from benchmarks.wire import Answer, Client, post

CLIENTS, KILL_EVERY_S, KILL_ANSWERED_S = 16, 30.0, 1.0
TIMES, KNEE_CLIENTS, KNEE_S = 5, 64, 20.0
ADDRESSES, SLOW_CONNECTIONS, TRICKLE_S, HONEST_RATE, ROUNDS = 20, 500, 2.0, 40.0, 4
RETRYABLE = 503
Part = tuple[list[dict[str, Any]], list[dict[str, Any]]]  # rows and goals


def requests(translator: str, lyricist: str) -> list[bytes]:
    """Texts of some length, half of them streams, so that a kill always meets requests in work."""
    pair = {"source": "de", "target": "en", "model": translator}
    return [
        post("/translate", {"q": "ich möchte ein bier und ein wasser", **pair}),
        post("/translate", {"q": ["guten morgen", "wo ist der bahnhof?", "ich wohne in berlin"], **pair}),
        post("/generate", {"prompt": "春", "model": lyricist, "max_new_tokens": 200, "seed": 7}),
        post("/generate", {"prompt": "分开", "model": lyricist, "max_new_tokens": 200, "seed": 5, "stream": True}),
    ]


def devices(server: Server) -> list[int]:
    found = []
    for pid in server.pids():
        with contextlib.suppress(OSError):
            if b"worker_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def succeeded(answer: Answer) -> bool:
    """Whether it is whole: 200, and for a stream the event `done`."""
    return answer.status == 200 and (not answer.streamed or any(name == "done" for _, name, _ in answer.events()))


def retryable(answer: Answer) -> bool:
    """A failure that says so: 503, or a stream whose last event is `error`."""
    if answer.status == RETRYABLE:
        return True
    events = answer.events() if answer.streamed else []
    return bool(events) and events[-1][1] == "error"


@dataclass
class Killed:
    """answered: (when, seconds it took). failed: (seconds since the last kill, whether it may be tried again)."""

    answered: int = 0
    seconds: float = 0.0
    failed: list[tuple[float, bool]] = field(default_factory=list)
    longest_s: float = 0.0
    kills: int = 0


async def insist(server: Server, asked: Sequence[bytes], seconds: float, *, kill: bool) -> Killed:
    """So many clients, each of which asks again as soon as it is answered."""
    found, client = Killed(), Client(server.port)
    began = time.perf_counter()
    killed_at = began

    async def ask(number: int) -> None:
        chosen = random.Random(number)
        while (at := time.perf_counter()) - began < seconds:
            answer = await client.ask(chosen.choice(asked))
            found.longest_s = max(found.longest_s, answer.ended - at)
            if succeeded(answer):
                found.answered += 1
            else:
                found.failed.append((answer.ended - max(killed_at, at), retryable(answer)))

    async def killing() -> None:
        nonlocal killed_at
        while (next_s := (found.kills + 1) * KILL_EVERY_S) < seconds:
            await asyncio.sleep(max(0.0, began + next_s - time.perf_counter()))
            victim = random.Random(found.kills).choice(devices(server))
            killed_at = time.perf_counter()
            os.kill(victim, signal.SIGKILL)
            found.kills += 1

    await asyncio.gather(*(ask(number) for number in range(CLIENTS)), *([killing()] if kill else []))
    found.seconds = time.perf_counter() - began
    client.close()
    return found


def kills(arguments: argparse.Namespace, asked: Sequence[bytes]) -> Part:
    seconds = arguments.minutes * 30
    with ours(arguments.checkpoints, cpu_workers=2, cpu_threads=1, log_level="error") as server:
        asyncio.run(insist(server, asked, 5, kill=False))
        peace = asyncio.run(insist(server, asked, seconds, kill=False))
        war = asyncio.run(insist(server, asked, seconds, kill=True))
    rates = [found.answered / found.seconds for found in (peace, war)]
    rows = [
        {
            "part": "kills",
            "with": name,
            "answers_per_s": round(rate, 1),
            "failed": len(found.failed),
            "kills": found.kills,
        }
        | {"longest_s": round(found.longest_s, 2)}
        for name, found, rate in zip(("no kill", "a kill every 30 s"), (peace, war), rates, strict=True)
    ]
    failures = [*peace.failed, *war.failed]
    late = max((seconds for seconds, _ in failures), default=0.0)
    goals = [
        goal("goodput with kills, of that without", round(rates[1] / rates[0], 3), 0.8, "×", "higher"),
        goal("failures that do not say to try again", sum(not again for _, again in failures), 0, "", "lower"),
        goal("the latest failure after its kill", round(late, 2), KILL_ANSWERED_S, "s", "lower"),
    ]
    return rows, goals


def keep_apart(server: Server, its: Sequence[int], clients: Sequence[int]) -> None:
    """Gives all threads of the server the cores `its`, and this process, the clients, `clients`."""
    for pid in server.pids():
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), its)
    os.sched_setaffinity(0, clients)


def cores_of(before: dict[str, float], after: dict[str, float], seconds: float) -> dict[str, float]:
    return {name: round((after[name] - before[name]) / seconds, 3) for name in after}


def overload(arguments: argparse.Namespace, _: Sequence[bytes]) -> Part:
    """Long texts, sixteen of each: one request costs the server hundreds of times what it costs the clients, which
    share the cores."""
    asked = [
        post("/generate", {"prompt": "春", "model": arguments.lyricist, "max_new_tokens": 1000, "seed": 7, "n": 16})
    ]
    seconds = arguments.minutes * 60
    cores = sorted(os.sched_getaffinity(0))
    own = cores[:-1] if arguments.clients_apart else cores
    with ours(arguments.checkpoints, cpu_workers=len(own), cpu_threads=1, log_level="error") as server:
        front_end = server.process.pid
        if arguments.clients_apart:
            keep_apart(server, own, cores[-1:])

        def cpu_s() -> dict[str, float]:
            workers = devices(server)
            others = [pid for pid in server.pids() if pid not in workers]
            found = {"devices": server.cpu_s(workers), "front_end": server.cpu_s(others)}
            return {**found, "clients": time.process_time()}

        async def measure() -> tuple[float, list[Any], float, list[float], list[dict[str, float]]]:
            client = Client(server.port, addresses=[f"127.0.1.{number}" for number in range(1, 1 + ADDRESSES)])
            await closed_loop(client, list(asked) * KNEE_CLIENTS, KNEE_CLIENTS)
            count, began, before = 0, time.perf_counter(), cpu_s()
            while time.perf_counter() - began < KNEE_S:
                await closed_loop(client, list(asked) * KNEE_CLIENTS, KNEE_CLIENTS)
                count += KNEE_CLIENTS
            took = time.perf_counter() - began
            knee, spent = count / took, [cores_of(before, cpu_s(), took)]
            memory: list[float] = []

            async def watch() -> None:
                while True:
                    memory.append(resident_mb(front_end) + sum(resident_mb(pid) for pid in devices(server)))
                    await asyncio.sleep(5)

            watching = asyncio.create_task(watch())
            times = arrivals(TIMES * knee, seconds, seed=1)
            began, before = time.perf_counter(), cpu_s()
            outcomes = await open_loop(client, [asked[i % len(asked)] for i in range(len(times))], times)
            took = time.perf_counter() - began
            spent.append(cores_of(before, cpu_s(), took))
            watching.cancel()
            client.close()
            return knee, outcomes, took, memory, spent

        knee, outcomes, took, memory, spent = asyncio.run(measure())
    good = [outcome for outcome in outcomes if succeeded(outcome.answer)]
    refusals = [outcome.answer.ended - outcome.sent for outcome in outcomes if outcome.answer.status in (429, 503)]
    lost = len(outcomes) - len(good) - len(refusals)
    third = max(1, len(memory) // 3)
    growth = percentile(memory[-third:], 0.5) / percentile(memory[third : 2 * third] or memory, 0.5) - 1
    rows = [
        {"part": "overload", "clients_apart": arguments.clients_apart}
        | {"knee_per_s": round(knee, 1), "offered_per_s": round(len(outcomes) / seconds, 1)}
        | {"answered_per_s": round(len(good) / took, 1), "statuses": dict(Counter(o.answer.status for o in outcomes))}
        | {"refusal_ms": percentiles_ms(refusals), "answer_ms": percentiles_ms(o.latency_s for o in good)}
        | {"cores_at_the_knee": spent[0], "cores_in_overload": spent[1]}
        | {"client_lag_ms_p99": round(1000 * percentile([o.sent - o.intended for o in outcomes], 0.99), 1)}
        | {"memory_mb": [round(each) for each in memory[:: max(1, len(memory) // 10)]]}
    ]
    goals = [
        goal("goodput under 5 x overload, of the knee", round(len(good) / took / knee, 3), 0.9, "×", "higher"),
        goal("p99 of a refusal", round(1000 * percentile(refusals, 0.99), 1) if refusals else None, 50, "ms", "lower"),
        goal("requests neither answered nor refused", lost, 0, "", "lower"),
        goal("memory, last third against the one before", round(100 * growth, 2), 2, "%", "lower"),
    ]
    return rows, goals


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


def slow(arguments: argparse.Namespace, asked: Sequence[bytes]) -> Part:
    seconds = arguments.minutes * 60 / (2 * ROUNDS)
    spawn = multiprocessing.get_context("spawn")
    closed = spawn.Value("i", 0)

    async def honest(port: int, seed: int) -> list[float]:
        client = Client(port)
        times = arrivals(HONEST_RATE, seconds, seed)
        outcomes = await open_loop(client, [asked[i % 2] for i in range(len(times))], times)
        client.close()
        assert all(succeeded(outcome.answer) for outcome in outcomes), Counter(o.answer.status for o in outcomes)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--translator", default="demo-de-en")
    parser.add_argument("--lyricist", default="lyrics-zh")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--minutes", type=float, default=5, help="of each part")
    parser.add_argument("--clients-apart", action="store_true", help="overload: the clients get a core of their own")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    rows, goals = list[dict[str, Any]](), list[dict[str, Any]]()
    for part in arguments.parts:
        found, aims = PARTS[part](arguments, requests(arguments.translator, arguments.lyricist))
        rows += found
        goals += aims
    finish("faults", rows, goals, as_json=arguments.json, out=arguments.results)


if __name__ == "__main__":
    main()
