"""The servers of a run, each a process of its own on a loopback port, and the memory that they use."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
START_TIMEOUT_S = 180


def family(pid: int) -> list[int]:
    """A process and all below it."""
    results, unseen = [], [pid]
    while unseen:
        results.append(pid := unseen.pop())
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                unseen += [int(child) for child in (thread / "children").read_text().split()]
    return results


def resident_mb(pid: int) -> float:
    """0 for a process that has ended."""
    with contextlib.suppress(OSError, IndexError):
        return round(int(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0]) / 1024, 1)
    return 0.0


def pin(pids: Iterable[int], cores: Iterable[int]) -> None:
    """All threads of these processes run on `cores` alone."""
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), cores)


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    port: int
    process: subprocess.Popen[bytes]

    def pids(self) -> list[int]:
        """The process and all below it, that which does the work included."""
        return family(self.process.pid)

    def devices(self) -> list[int]:
        """Our device processes, the longest-lived first."""
        found = []
        for pid in self.pids():
            with contextlib.suppress(OSError):
                if b"worker_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append((Path(f"/proc/{pid}").stat().st_ctime, pid))
        return [pid for _, pid in sorted(found)]

    def get(self, path: str, body: Any = None) -> str | None:
        """The body of the answer, None where the server has no such page. body: is posted as JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError:
            return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def ours(
    checkpoints: Path,
    root: Path = ROOT,
    *,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
    **settings: Any,
) -> Iterator[Server]:
    """The server that `make serve` starts. settings: only those of `app.settings`. root: another checkout of this
    project, to run its server. environment: more variables of its process."""
    assert settings.keys() <= Settings.model_fields.keys(), settings
    given = {f"PARLANCE_{name.upper()}": str(value) for name, value in settings.items()}
    given |= {"PARLANCE_CHECKPOINTS": str(checkpoints), "PARLANCE_SHUTDOWN_DELAY_S": "0"} | dict(environment or {})
    with _running("Parlance", [python, "-m", "app"], "/health/ready", given, port_option=None, root=root) as server:
        yield server


@contextlib.contextmanager
def batching_server(name: str, checkpoint: Path, **options: Any) -> Iterator[Server]:
    """That of `benchmarks.peers.batching_server`."""
    command = [sys.executable, "-m", "benchmarks.peers.batching_server", "--checkpoint", str(checkpoint)]
    for option, value in options.items():
        command += [f"--{option.replace('_', '-')}", str(value)]
    with _running(name, command, "/health", {}) as server:
        yield server


@contextlib.contextmanager
def libretranslate(python: Path, packages: Path, environment: Mapping[str, str]) -> Iterator[Server]:
    """LibreTranslate with the Argos packages of a folder; see `benchmarks.peers.libretranslate`."""
    # -P: files beside the script are named like the libraries that it imports
    command = [str(python), "-P", str(ROOT / "benchmarks/peers/libretranslate_server.py"), str(packages)]
    with _running("LibreTranslate", command, "/languages", environment, port_option=()) as server:
        yield server


@contextlib.contextmanager
def _running(
    name: str,
    command: list[str],
    health: str,
    environment: Mapping[str, str],
    *,
    port_option: tuple[str, ...] | None = ("--port",),
    root: Path = ROOT,
) -> Iterator[Server]:
    """port_option: the option before the port on the command line; None: the port is a setting, as ours."""
    port = free_port()
    given = {key: value for key, value in os.environ.items() if not key.startswith("PARLANCE_")}
    port_arguments = [] if port_option is None else [*port_option, str(port)]
    given |= {**environment, "PARLANCE_HOST": "127.0.0.1", "PARLANCE_PORT": str(port)}
    process = subprocess.Popen([*command, *port_arguments], cwd=root, env=given, start_new_session=True)
    server = Server(name, port, process)
    try:
        _wait(server, health)
        yield server
    finally:
        _end(server)


def _wait(server: Server, health: str) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    while True:
        with contextlib.suppress(OSError):
            if server.get(health) is not None:
                return
        if server.process.poll() is not None:
            raise RuntimeError(f"{server.name} ended with {server.process.returncode} before it was ready.")
        if time.monotonic() > end:
            raise RuntimeError(f"{server.name} was not ready within {START_TIMEOUT_S} s.")
        time.sleep(0.05)


def _end(server: Server) -> None:
    """SIGTERM, then SIGKILL to its whole session."""
    server.process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.process.wait(10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.process.pid, signal.SIGKILL)
    server.process.wait()
