"""A real server process for tests that speak real HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.readme import ROOT

READY_S = 60


class Server(NamedTuple):
    base: str
    process: subprocess.Popen[bytes]

    def ask(self, path: str, body: Any = None, **headers: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json", **headers})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def page(self, path: str) -> bytes:
        with urllib.request.urlopen(self.base + path, timeout=60) as answer:
            return bytes(answer.read())

    def workers(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]


@contextlib.contextmanager
def serving(
    checkpoints: Path,
    folder: Path,
    command: tuple[str, ...] = ("-m", "app"),
    python: Path | None = None,
    preload: Path | None = None,
    wait_for: str = "/health/ready",
    **settings: str,
) -> Iterator[Server]:
    """Ready to answer; started from another folder than the sources, as a service manager would.

    python: of an environment in which Parlance is installed; without it the sources are served.
    preload: a folder of modules for every process, of which Python imports `sitecustomize`.
    settings: by their names without the prefix, such as ADMIN_KEY="...".
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PARLANCE_CHECKPOINTS": str(checkpoints), "PARLANCE_CPU_THREADS": "1"}
    # fp32: as the tests decode, for int8 may say something else; one process: tests stop, kill and watch that one
    environment |= {"PARLANCE_PRECISION": "fp32", "PARLANCE_CPU_WORKERS": "1"}
    environment["PARLANCE_SHUTDOWN_DELAY_S"] = "0"  # no load balancer is to notice
    environment |= {"PARLANCE_PORT": str(port), "PYTHONPATH": "" if python else str(ROOT)}
    if preload is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(preload), environment["PYTHONPATH"]])
    environment |= {f"PARLANCE_{name}": value for name, value in settings.items()}
    words = [word.format(port=port) for word in command]
    process = subprocess.Popen([python or sys.executable, *words], cwd=folder, env=environment)
    server = Server(f"http://127.0.0.1:{port}", process)
    try:
        _wait(server, wait_for)
        yield server
    finally:
        process.kill()
        process.wait()


def _wait(server: Server, path: str) -> None:
    """READY_S in which the server waits for no core: others may have them all for a while."""
    began = time.monotonic()
    while True:
        try:
            server.ask(path)
            return
        except (urllib.error.URLError, ConnectionError):
            assert server.process.poll() is None, "the server ended"
            waited_s = time.monotonic() - began
            assert waited_s < READY_S or waited_s - _starved_s(server) < READY_S, "the server did not become ready"
            time.sleep(0.05)


def _starved_s(server: Server) -> float:
    """How long the threads of the server and of its device processes were ready to run and had no core."""
    seconds = 0.0
    for pid in [server.process.pid, *server.workers()]:
        for schedule in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, IndexError):  # a thread that has ended
                seconds += int(schedule.read_text().split()[1]) / 1e9
    return seconds
