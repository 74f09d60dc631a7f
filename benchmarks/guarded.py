"""What keys, limits, quotas, JSON logs and traces cost: our server with all of it on against the same server without.

python -m benchmarks.guarded --data FOLDER --checkpoint FOLDER [--sizes base] [--redis redis-server] [--rounds 7]
                             [--json] [--results FILE]

With the network as it is and at the size of base (`benchmarks.widened`). Servers take turns, 16 clients that each send
a sentence and wait for it; what counts is the median over the rounds of the ratio within a round. --redis also measures
it with limits and quotas counted in that program. Spans go to a collector that only says yes. With the network as it
is, one client without pauses is also timed over each server and over the engine alone (`benchmarks.overhead`): what
HTTP, the front end and the socket take, with the guards and without.
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from app.engine.dispatch.placement import CPU_SLOTS
from benchmarks import overhead
from benchmarks.libretranslate import BEAM, requests, sentences
from benchmarks.load import rate
from benchmarks.race import in_turns, ratio
from benchmarks.report import argument_parser, finish, goal
from benchmarks.servers import ROOT, Server, free_port, ours
from benchmarks.widened import SIZES, sized

CLIENTS = 16
ONE_CLIENTS = 100  # sentences of the one client at most
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


Servers = dict[str, tuple[Server, str | None]]  # and the key that each asks for


def with_key(secret: str | None) -> dict[str, str]:
    """More fields of each request."""
    return {} if secret is None else {"api_key": secret}


def turns(servers: Servers, texts: Sequence[str], count: int, rounds: int) -> list[dict[str, Any]]:
    """A row of each server; the first one is what the others are compared with."""

    def measured(server: Server, secret: str | None) -> Callable[[int], float]:
        return lambda number: rate(server, requests(texts, count, 131 * number, **with_key(secret)), CLIENTS)

    contenders = {name: measured(*server) for name, server in servers.items()}
    for contender in contenders.values():
        contender(0)
    result = in_turns(rounds, contenders)
    bare, rows = result["bare"], []
    for name, rates in result.items():
        against = ratio(rates, bare, rates=True)
        row = {"server": name, "sentences_per_s": round(statistics.median(rates), 2), "ratio": against.median}
        rows.append(row | {"range": [against.least, against.most]})
    return rows


def over_the_engine(servers: Servers, checkpoint: Path, texts: Sequence[str], repeats: int) -> list[dict[str, Any]]:
    """A row of each server: milliseconds of one client, and of the engine alone for the same sentences."""
    rows = []
    with overhead.engine(checkpoint, threads=1, slots=CPU_SLOTS) as alone:
        alone.translate(texts[:20], BEAM)
        for name, (server, secret) in servers.items():
            row = asyncio.run(overhead.one_client(server, alone, texts, BEAM, repeats, **with_key(secret)))
            rows.append({"server": name, **row})
    return rows


def started(stack: contextlib.ExitStack, size: str, arguments: argparse.Namespace, served: Path) -> Servers:
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
    result: Servers = {
        "bare": (stack.enter_context(ours(served, request_log="false")), None),
        "all of it": (stack.enter_context(ours(served, **guarded)), secret),
    }
    if arguments.redis:
        url = stack.enter_context(redis(arguments.redis))
        result["all of it, with Redis"] = (stack.enter_context(ours(served, redis_url=url, **guarded)), secret)
    return result


def main() -> None:
    top = argument_parser("guarded", __doc__)
    top.add_argument("--data", type=Path, required=True, help="Multi30k's folder")
    top.add_argument("--checkpoint", type=Path, required=True, help="a de→en translator")
    top.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES)
    top.add_argument("--redis", metavar="PROGRAM")
    top.add_argument("--rounds", type=int, default=7)
    top.add_argument("--sentences", type=int, help="of a round (default: some three seconds' work)")
    arguments = top.parse_args()
    rows, goals = [], []
    for size in arguments.sizes:
        with contextlib.ExitStack() as stack:
            served = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            servers = started(stack, size, arguments, served)
            texts = sentences(arguments.data)
            results = turns(servers, texts, arguments.sentences or ASKED[size], arguments.rounds)
            costs = []
            if size != "base":
                costs = over_the_engine(
                    servers,
                    served / "de-en",
                    texts[: min(ONE_CLIENTS, arguments.sentences or ONE_CLIENTS)],
                    max(2, arguments.rounds // 2),
                )
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
    finish(arguments, rows, goals)


if __name__ == "__main__":
    main()
