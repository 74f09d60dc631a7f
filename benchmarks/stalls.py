"""How long a tiny request waits beside one request of the worst kind that an endpoint takes.

python -m benchmarks.stalls [--checkpoint FOLDER] [--seconds 15] [--cases PATTERN] [--json] [--results FILE]

One request at the limits of its endpoint is sent to a server with its defaults; after --seconds its client leaves. A
process of its own asks for /health/live every two milliseconds meanwhile, and for a second after that. The longest of
these waits is the longest turn of the front end's event loop, or the longest time that a thread held the interpreter,
and whatever the machine itself adds: the rows "idle" have the same without another request. A row also has the 99th
percentile of the waits and the status of the worst request (0: its client left).

A request that is refused measures no work: a status that its case does not expect ends the benchmark with 1.
"""

from __future__ import annotations

import http.client
import multiprocessing
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.corpora import everyday
from benchmarks.load import percentile
from benchmarks.report import argument_parser, finish, goal
from benchmarks.served import prepare
from benchmarks.servers import ROOT, Server, ours
from benchmarks.stall_cases import ADMIN_KEY, CASES, Ask, Body, Case, known, request_of

LONGEST_WAIT_MS = 100  # the goal
PAUSE_S = 0.002
AFTER_S = 1.0
READ_BYTES = 1 << 20


def probe(port: int, control: Connection) -> None:
    """Asks for /health/live until it is told to stop, and sends the waits in seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    waits: list[float] = []
    control.send(waits)
    while not control.poll(PAUSE_S):
        started = time.perf_counter()
        connection.request("GET", "/health/live")
        connection.getresponse().read()
        waits.append(time.perf_counter() - started)
    control.send(waits)


def send(server: Server, case: Case, path: str, body: Body | None, seconds: float) -> int:
    """The status of the answer, 0 if it had not come as a whole in that time."""
    end = time.monotonic() + seconds
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=seconds)
    try:
        connection.request(*request_of(path, body, case.method))
        answer = connection.getresponse()
        while answer.read1(READ_BYTES):
            if time.monotonic() > end:  # a stream that goes on
                return 0
        return answer.status
    except TimeoutError:
        return 0
    finally:
        connection.close()


def measured(server: Server, name: str, case: Case | None, ask: Ask, seconds: float) -> dict[str, Any]:
    """case: None measures the idle server."""
    body = case.body(ask) if case else None
    path = case.path.format_map(ask.known) if case else ""
    context = multiprocessing.get_context("fork")  # another process would import torch first
    ours_end, theirs = context.Pipe()
    prober = context.Process(target=probe, args=(server.port, theirs), daemon=True)
    prober.start()
    ours_end.recv()  # it has begun
    started = time.perf_counter()
    status = send(server, case, path, body, seconds) if case else time.sleep(seconds) or 0
    took = time.perf_counter() - started
    if case and case.goes_on:
        time.sleep(max(0.0, seconds - took))
    time.sleep(AFTER_S)
    ours_end.send(None)
    waits = ours_end.recv()
    prober.join()
    return {
        "case": name,
        "longest_wait_ms": round(1000 * max(waits), 1),
        "p99_wait_ms": round(1000 * percentile(waits, 0.99), 1),
        "waits": len(waits),
        "status": status,
        "expected": case is None or status in (0, case.status),
        "took_s": round(took, 1),
    }


def rows(server: Server, pattern: str, seconds: float) -> Iterator[dict[str, Any]]:
    """The idle server comes after the cold cases, which come before `known` asks for anything, and again before those
    whose work goes on."""
    chosen = [case for case in CASES if re.search(pattern, case.name)]
    cold = [case for case in chosen if case.name.endswith("cold")]
    for case in cold:
        yield measured(server, case.name, case, Ask(server.port, {}), seconds)
    ask = Ask(server.port, known(server.port))
    yield measured(server, "idle", None, ask, min(seconds, 5.0))
    for case in chosen:
        if case not in cold and not case.goes_on:
            yield measured(server, case.name, case, ask, seconds)
    yield measured(server, "idle, at the end", None, ask, min(seconds, 5.0))
    for case in chosen:
        if case.goes_on:
            yield measured(server, case.name, case, ask, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    top = argument_parser("stalls", __doc__)
    top.add_argument("--checkpoint", type=Path, default=ROOT / "checkpoints" / "everyday")
    top.add_argument("--seconds", type=float, default=15.0)
    top.add_argument("--cases", default="", help="a regular expression")
    options = top.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="stalls-") as name:
        folder = prepare(Path(name) / "served", options.checkpoint, everyday(), 0).folder
        with ours(folder, data=Path(name) / "data", admin_key=ADMIN_KEY) as server:
            found = []
            for row in rows(server, options.cases, options.seconds):
                print(row, file=sys.stderr, flush=True)
                found.append(row)
    goals = [
        goal(f"longest wait, {row['case']}", row["longest_wait_ms"], LONGEST_WAIT_MS, "ms", "lower") for row in found
    ]
    finish(options, found, goals)
    for row in found:
        if not row["expected"]:
            print(f"{row['case']} was answered with {row['status']}: the case needs another size.", file=sys.stderr)
    return 0 if all(row["expected"] for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
