"""python -m benchmarks.ray_replicas --checkpoint FOLDER --source de --target en --text "…": one replica on Ray Serve
against two, each pinned to a core of its own, and what the way through Ray's proxy costs beside `python -m app`.

Needs the extra `ray`. The proxy, Ray's own processes and the client share the cores with the replicas, so that on a
machine of two cores a factor of two cannot be reached: the processor time of each part is printed."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.load import closed_loop
from benchmarks.report import finish, goal
from benchmarks.servers import Server, free_port, ours
from benchmarks.wire import Client, post

CLIENTS = 16
REQUESTS = 200
SERIAL = 200
ROUNDS = 3


def replica_pids() -> list[int]:
    """The replicas on this machine."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and b"ServeReplica:" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return sorted(found)


def family(pid: int) -> list[int]:
    """A process and all below it."""
    results, unseen = [], [pid]
    while unseen:
        results.append(pid := unseen.pop())
        for thread in Path(f"/proc/{pid}/task").iterdir():
            unseen += [int(child) for child in (thread / "children").read_text().split()]
    return results


def pin(pids: list[int], core: int) -> None:
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), {core})


def cpu_s(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):
                total += int(thread.read_text().split()[0])
    return total / 1e9


@contextmanager
def on_ray(replicas: int) -> Iterator[int]:
    """The port of Ray's proxy in front of so many replicas, replica i on core i."""
    import ray
    from ray import serve

    from app.ray_app import app

    port = free_port()
    ray.init(num_cpus=replicas, include_dashboard=False, logging_level="error", log_to_driver=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(app({"min_replicas": replicas, "max_replicas": replicas, "num_cpus": 1}), route_prefix="/")
        for core, pid in enumerate(replica_pids()):
            pin(family(pid), core)
        yield port
    finally:
        serve.shutdown()
        ray.shutdown()


async def throughput(port: int, request: bytes) -> tuple[float, float]:
    """Requests a second of the median round, and processor seconds of the replicas in each second of all rounds."""
    client, rates = Client(port), []
    pids = [each for pid in replica_pids() for each in family(pid)]
    await closed_loop(client, [request] * REQUESTS, CLIENTS)
    before, began = cpu_s(pids), time.perf_counter()
    for _ in range(ROUNDS):
        outcomes, seconds = await closed_loop(client, [request] * REQUESTS, CLIENTS)
        assert all(outcome.answer.status == 200 for outcome in outcomes)
        rates.append(REQUESTS / seconds)
    busy = (cpu_s(pids) - before) / (time.perf_counter() - began)
    client.close()
    return statistics.median(rates), busy


async def serial_ms(port: int, request: bytes) -> float:
    client = Client(port)
    outcomes, _ = await closed_loop(client, [request] * SERIAL, 1)
    client.close()
    return 1000 * statistics.median(outcome.latency_s for outcome in outcomes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--source", default="de")
    parser.add_argument("--target", default="en")
    parser.add_argument("--text", default="ein mann mit einem orangefarbenen hut, der etwas anstarrt.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    pair = {"source": options.source, "target": options.target}
    heavy, light = post("/translate", {"q": options.text, "beam_size": 8, **pair}), post("/detect", {"q": options.text})
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Path(folder) / "checkpoints"
        shutil.copytree(options.checkpoint, checkpoints / "translator", ignore=shutil.ignore_patterns("resume"))
        settings = {"cpu_workers": 1, "cpu_threads": 1, "data": folder, "request_log": "false", "log_level": "error"}
        os.environ |= {f"PARLANCE_{name.upper()}": str(value) for name, value in settings.items()}
        os.environ |= {"PARLANCE_CHECKPOINTS": str(checkpoints), "RAY_USAGE_STATS_ENABLED": "0"}
        os.environ |= {"RAY_AUTH_MODE": "disabled"}
        rates = {}
        for replicas in (1, 2):
            with on_ray(replicas) as port:
                rates[replicas], busy = asyncio.run(throughput(port, heavy))
                row = {
                    "replicas": replicas,
                    "requests_a_second": round(rates[replicas], 2),
                    "busy_cores": round(busy, 2),
                }
                if replicas == 1:
                    row |= {
                        f"{name}_ms": round(asyncio.run(serial_ms(port, request)), 2)
                        for name, request in (("translate", heavy), ("detect", light))
                    }
                rows.append(row)
        with ours(checkpoints, **settings) as server:
            rows.append(direct(server, heavy, light))
    hop = rows[0]["detect_ms"] - rows[2]["detect_ms"]
    rows.append({"hop_ms": round(hop, 2)})
    cores = os.cpu_count() or 1
    goals = [goal("2 replicas against 1", round(rates[2] / rates[1], 2), 1.8, "×", "higher", f"on {cores} cores")]
    finish("ray_replicas", rows, goals, as_json=options.json, out=options.results)


def direct(server: Server, heavy: bytes, light: bytes) -> dict[str, Any]:
    pin(family(server.process.pid), 0)
    times = {
        name: asyncio.run(serial_ms(server.port, request))
        for name, request in (("translate", heavy), ("detect", light))
    }
    return {"server": "python -m app"} | {f"{name}_ms": round(ms, 2) for name, ms in times.items()}


if __name__ == "__main__":
    main()
