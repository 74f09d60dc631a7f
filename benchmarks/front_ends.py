"""Requests a second of the server as it is by default, one process with its engine, and of two front ends before an
engine process. The engine answers at once from a script: what HTTP, splitting and answering cost, and what two
processes make of it.

    python -m benchmarks.front_ends [--rounds 5] [--seconds 4] [--json]

The servers are measured in turn, each with `--connections` connections that send the next request when they have an
answer. The client compares lengths and parses no answer. What it takes is the kernel's work for a send and a receive on
loopback: wrk takes the same. `client_ms`, `engine_ms` and `front_ends_ms` are processor time a request. With fewer than
four cores, two front ends share them with the engine process and the client. `ratio_client_elsewhere` is what the
processor times give on two cores with the client on another machine. `bound` is the number of front ends at which the
engine process would be busy all the time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import uvloop

from app.engine.interface import ModelInfo, PoolStatus, TranslationRequest, TranslationResult
from app.front_ends.engine_process import serve_front_ends
from app.main import create_app
from app.server import Server as HttpServer
from app.server import server_config
from app.settings import Settings, load_settings
from benchmarks.report import finish, goal
from benchmarks.servers import Server, _running
from benchmarks.wire import post

GOAL = 1.7
REQUEST = post("/translate", {"q": "Ich möchte ein Bier und eine Suppe.", "source": "de", "target": "en"})
ANSWER = "I would like a beer and a soup."


class ScriptedEngine:
    """Answers every translation at once."""

    def __init__(self, *_: object) -> None:
        model = ModelInfo(
            "scripted",
            "translator",
            "transformer",
            1,
            "de",
            "en",
            8000,
            256,
            256,
            ("cpu",),
            language_pairs=(("de", "en"),),
        )
        self._models, self._status = [model], PoolStatus(True, {"cpu": "ready"}, 1, ())

    def status(self) -> PoolStatus:
        return self._status

    def models(self) -> list[ModelInfo]:
        return self._models

    def check_room(self) -> None:
        pass

    async def source_room(self, model: str | None, source_language: str, target_language: str) -> int:
        return 256

    async def source_tokens(
        self, model: str | None, source_language: str, target_language: str, texts: Sequence[str]
    ) -> list[int]:
        return [len(text.split()) for text in texts]

    async def translate(self, requests: Sequence[TranslationRequest]) -> list[TranslationResult]:
        return [TranslationResult(ANSWER, model="scripted") for _ in requests]

    def announce_shutdown(self) -> None:
        self._status = PoolStatus(False, {"cpu": "ready"}, 1, ("The service is shutting down.",))

    async def start(self) -> None:
        pass

    async def drain(self) -> None:
        pass

    async def stop(self) -> None:
        pass


class Loop(asyncio.Protocol):
    """One connection, which sends the next request when it has an answer. answers: so far. All answers are as long as
    the first, whose length its header gives."""

    def __init__(self) -> None:
        self.answers = self._received = self._length = 0
        self._first = b""
        self.running = True

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        if not self._length:
            self._first += data
            head, end, _ = self._first.partition(b"\r\n\r\n")
            if not end:
                return
            assert head.startswith(b"HTTP/1.1 200 "), head
            (size,) = [
                int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
            ]
            self._length, data = len(head) + 4 + size, self._first
        if not self._received:
            assert data.startswith(b"HTTP/1.1 200 "), data[:200]
        self._received += len(data)
        if self._received == self._length:
            self.answers, self._received = self.answers + 1, 0
            if self.running:
                self.transport.write(REQUEST)

    def connection_lost(self, exc: Exception | None) -> None:
        assert not self.running, f"the server closed a connection: {exc}"


async def closed_loop(server: Server, connections: int, seconds: float) -> dict[str, float]:
    """A row: answers a second, and milliseconds of a core that a request takes of each kind of process."""
    loop = asyncio.get_running_loop()
    loops = [(await loop.create_connection(Loop, "127.0.0.1", server.port))[1] for _ in range(connections)]
    await asyncio.sleep(min(1.0, seconds / 4))  # warm
    parts = processes(server)
    before, cpu = sum(each.answers for each in loops), {name: server.cpu_s(pids) for name, pids in parts.items()}
    client_s, began_s = time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    took_s, client_s = time.perf_counter() - began_s, time.process_time() - client_s
    answers = sum(each.answers for each in loops) - before
    cpu = {f"{name}_ms": round(1000 * (server.cpu_s(pids) - cpu[name]) / answers, 4) for name, pids in parts.items()}
    for each in loops:
        each.running = False
        each.transport.abort()
    cpu["client_ms"] = round(1000 * client_s / answers, 4)
    return {"requests_per_s": round(answers / took_s, 1), **cpu}


def processes(server: Server) -> dict[str, list[int]]:
    others = [pid for pid in server.pids() if pid != server.process.pid]
    if not others:
        return {"front_ends": [server.process.pid]}
    assert all(b"app.front_ends.front_end" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in others)
    return {"engine": [server.process.pid], "front_ends": others}


def serve(settings: Settings) -> None:
    """As `app.__main__.serve`, with the engine from the script."""
    if settings.front_ends > 1:
        serve_front_ends(settings, ScriptedEngine)
        return
    engine = ScriptedEngine()
    app = create_app(settings, engine)
    config = server_config(app, settings)
    HttpServer(config, announce=engine.announce_shutdown, drain=engine.drain, delay_s=0.0).run()


@contextlib.contextmanager
def served(count: int) -> Iterator[Server]:
    settings = {"PARLANCE_FRONT_ENDS": str(count), "PARLANCE_SHUTDOWN_DELAY_S": "0", "PARLANCE_REQUEST_LOG": "true"}
    settings["PARLANCE_LOG_LEVEL"] = "warning"
    command = ["-m", "benchmarks.front_ends", "--serve"]
    with _running(f"{count} front ends", command, "/health/ready", settings, port_option=None) as server:
        yield server


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.front_ends", description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one measurement")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve:
        serve(load_settings())
        return 0
    rows = list[dict[str, Any]]()
    with served(1) as one, served(2) as two:
        for number in range(given.rounds):
            for count, server in ((1, one), (2, two)):
                row = uvloop.run(closed_loop(server, given.connections, given.seconds))
                rows.append({"round": number + 1, "front_ends": count, **row})
    by_round = list(zip(rows[::2], rows[1::2], strict=True))
    ratio = statistics.median(two["requests_per_s"] / one["requests_per_s"] for one, two in by_round)
    bound = statistics.median(two["front_ends_ms"] / two["engine_ms"] for _, two in by_round)
    elsewhere = statistics.median(
        2 * one["front_ends_ms"] / (two["front_ends_ms"] + two["engine_ms"]) for one, two in by_round
    )
    ratios = {"ratio": round(ratio, 2), "ratio_client_elsewhere": round(elsewhere, 2)}
    rows.append({**ratios, "bound": round(bound, 1), "cores": os.cpu_count()})
    goals = [goal("two front ends / one, requests a second", round(ratio, 2), GOAL, "x", "higher")]
    finish("front_ends", rows, goals, as_json=given.json, out=given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
