"""What keys, limits, quotas, JSON logs and traces cost: our server with all of it on against the same server without.

python -m benchmarks.guarded --data FOLDER --checkpoint FOLDER [--sizes base] [--redis redis-server] [--before FOLDER]
                             [--rounds 7] [--json] [--results FILE]

With the network as it is and at the size of base (`benchmarks.widened`). Servers take turns, 16 clients that each send
a sentence and wait for it; what counts is the median over the rounds of the ratio within a round. --redis also measures
it with limits and quotas counted in that program. --before FOLDER is a checkout of an earlier version of this project,
measured as it comes. Spans go to a collector that only says yes. With the network as it is, one client without pauses
is also timed over each server and over the engine alone (`benchmarks.overhead`): what HTTP, the front end and the
socket take, with the guards and without.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.server
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from app.engine.dispatch.placement import CPU_SLOTS
from benchmarks import overhead, wire
from benchmarks.engine import engine
from benchmarks.libretranslate import rate, sentences
from benchmarks.report import finish, goal
from benchmarks.servers import ROOT, Server, free_port, ours
from benchmarks.widened import SIZES, sized

CLIENTS = 16
ONE_CLIENTS = 100  # sentences of the one client
BEAM = 4  # the service's default
COST_GOALS_MS = {"bare": 1.0, "all of it": 1.3}
ASKED = {"base": 400, "as it is": 1600}  # sentences of a round: some three seconds


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes spans and keeps none."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Silent."""


@contextlib.contextmanager
def collector() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def redis(program: str) -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([program, "--port", str(port), "--save", "", "--loglevel", "warning"])
    try:
        time.sleep(0.5)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


def key(folder: Path) -> tuple[Path, str]:
    """A file of keys, and one that is in it."""
    file = folder / "keys"
    command = [sys.executable, "-m", "app.keys", "--file", str(file), "add", "bench"]
    made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return file, made.stdout.strip().splitlines()[-1].split()[-1]


def requests(texts: Sequence[str], count: int, start: int, secret: str | None) -> list[bytes]:
    fields: dict[str, Any] = {"source": "de", "target": "en"}
    if secret is not None:
        fields["api_key"] = secret
    return [wire.post("/translate", {"q": texts[(start + i) % len(texts)], **fields}) for i in range(count)]


def measured(
    server: Server, texts: Sequence[str], count: int, start: int, secret: str | None
) -> tuple[float, float, float]:
    """Sentences a second, and processor milliseconds of a sentence: of the whole server, and of its front end alone."""
    front = [server.process.pid]
    load = requests(texts, count, start, secret)
    whole, front_s = server.cpu_s(), server.cpu_s(front)
    result = asyncio.run(rate(server, load, CLIENTS))
    return result, 1000 * (server.cpu_s() - whole) / count, 1000 * (server.cpu_s(front) - front_s) / count


def turns(
    servers: dict[str, tuple[Server, str | None]], texts: Sequence[str], count: int, rounds: int
) -> list[dict[str, Any]]:
    """A row of each server; the first one is what the others are compared with."""
    for server, secret in servers.values():
        asyncio.run(rate(server, requests(texts, count, 0, secret), CLIENTS))
    result: dict[str, list[tuple[float, float, float]]] = {name: [] for name in servers}
    for number in range(rounds):
        order = list(servers) if number % 2 else list(reversed(servers))
        for name in order:
            result[name].append(measured(servers[name][0], texts, count, 131 * number, servers[name][1]))
    bare = result[next(iter(servers))]
    rows = []
    for name, runs in result.items():
        speed, whole, front = (round(statistics.median(column), 2) for column in zip(*runs, strict=True))
        ratios = [mine[0] / other[0] for mine, other in zip(runs, bare, strict=True)]
        row = {"server": name, "sentences_per_s": speed, "ratio": round(statistics.median(ratios), 3)}
        row |= {"cpu_ms": whole, "front_end_cpu_ms": front, "ratios": [round(ratio, 3) for ratio in ratios]}
        rows.append(row)
    return rows


def over_the_engine(
    servers: dict[str, tuple[Server, str | None]], checkpoint: Path, texts: Sequence[str], repeats: int
) -> list[dict[str, Any]]:
    """A row of each server: milliseconds of one client, and of the engine alone for the same sentences."""
    rows = []
    with engine(checkpoint, threads=1, slots=CPU_SLOTS, precision="auto") as alone:
        alone.translate(texts[:20], BEAM)
        for name, (server, secret) in servers.items():
            fields = {} if secret is None else {"api_key": secret}
            row = asyncio.run(overhead.one_client(server, alone, texts, BEAM, repeats, **fields))
            rows.append({"server": name, **row})
    return rows


def started(
    stack: contextlib.ExitStack, size: str, arguments: argparse.Namespace, served: Path
) -> dict[str, tuple[Server, str | None]]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    sized(size, arguments.checkpoint, served / "de-en")
    file, secret = key(folder)
    guarded = {
        "keys_file": file,
        "rate_limit": "1000000/minute;100000000/hour",
        "quota": "1000000000000/month",
        "log_format": "json",
        "request_log": "true",
        "otlp_endpoint": stack.enter_context(collector()),
    }
    result = {
        "bare": (stack.enter_context(ours(served, request_log="false")), None),
        "all of it": (stack.enter_context(ours(served, **guarded)), secret),
    }
    if arguments.redis:
        url = stack.enter_context(redis(arguments.redis))
        result["all of it, with Redis"] = (stack.enter_context(ours(served, redis_url=url, **guarded)), secret)
    if arguments.before:
        result["before"] = (stack.enter_context(ours(served, root=arguments.before)), None)
    return result


def main(argv: Sequence[str] | None = None) -> None:
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--data", type=Path, required=True, help="Multi30k's folder")
    top.add_argument("--checkpoint", type=Path, required=True, help="a de→en translator")
    top.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES)
    top.add_argument("--redis", metavar="PROGRAM")
    top.add_argument("--before", type=Path)
    top.add_argument("--rounds", type=int, default=7)
    top.add_argument("--results", type=Path)
    top.add_argument("--json", action="store_true")
    arguments = top.parse_args(argv)
    rows, goals = [], []
    for size in arguments.sizes:
        with contextlib.ExitStack() as stack:
            served = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            servers = started(stack, size, arguments, served)
            texts = sentences(arguments.data)
            results = turns(servers, texts, ASKED[size], arguments.rounds)
            costs = []
            if size != "base":
                costs = over_the_engine(servers, served / "de-en", texts[:ONE_CLIENTS], max(2, arguments.rounds // 2))
        rows += [{"network": size, **row} for row in (*results, *costs)]
        for row in costs:
            if (most_ms := COST_GOALS_MS.get(row["server"])) is not None:
                name = f"{row['server']}: HTTP and IPC over the engine, one client, median"
                goals.append(goal(name, row["difference_ms"], most_ms, "ms", "lower"))
        goals += [
            goal(f"{size}: throughput with {row['server']} against none of it", row["ratio"], 0.9, "×", "higher")
            for row in results
            if row["server"].startswith("all of it")
        ]
    finish("guarded", rows, goals, as_json=arguments.json, out=arguments.results)


if __name__ == "__main__":
    main()
