"""The servers of a run, each a process of its own on a loopback port, and the processor time that they use."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
START_TIMEOUT_S = 90


@dataclass(frozen=True, slots=True)
class Server:
    """pausable: a peer that may be stopped while others are measured, because some poll while idle. Ours may not: it
    would take a pause for the death of its device process."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    pausable: bool = False

    def pause(self) -> None:
        if self.pausable:
            os.killpg(self.process.pid, signal.SIGSTOP)

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Resumed while it is measured; paused before and after."""
        if self.pausable:
            os.killpg(self.process.pid, signal.SIGCONT)
        try:
            yield
        finally:
            self.pause()

    def pids(self) -> list[int]:
        """The process and all below it, that which does the work included."""
        results, unseen = [], [self.process.pid]
        while unseen:
            pid = unseen.pop()
            results.append(pid)
            with contextlib.suppress(OSError):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    unseen += [int(child) for child in (thread / "children").read_text().split()]
        return results

    def cpu_s(self, pids: Sequence[int] | None = None) -> float:
        """Processor seconds of all its processes so far, or of these, to the nanosecond; Linux only."""
        total = 0
        for pid in self.pids() if pids is None else pids:
            with contextlib.suppress(OSError):
                total += sum(int((t / "schedstat").read_text().split()[0]) for t in Path(f"/proc/{pid}/task").iterdir())
        return total / 1e9

    def get(self, path: str) -> str | None:
        """The body, None where the server has no such page."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError:
            return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def knows(setting: str) -> bool:
    """Whether this version of our server has the setting (without its prefix, in small letters)."""
    return setting in Settings.model_fields


@contextlib.contextmanager
def ours(checkpoints: Path, root: Path = ROOT, **settings: Any) -> Iterator[Server]:
    """The server that `make serve` starts. settings: only those of `app.settings`. root: another checkout of this
    project, to run its server."""
    assert all(knows(name) for name in settings), settings
    environment = {f"PARLANCE_{name.upper()}": str(value) for name, value in settings.items()}
    environment |= {"PARLANCE_CHECKPOINTS": str(checkpoints), "PARLANCE_SHUTDOWN_DELAY_S": "0"}
    with _running("Parlance", ["-m", "app"], "/health/ready", environment, port_option=None, root=root) as server:
        yield server


@contextlib.contextmanager
def peer(module: str, name: str, checkpoint: Path, **options: Any) -> Iterator[Server]:
    """A server of `benchmarks.peers`, paused until it is `awake`."""
    command = ["-m", f"benchmarks.peers.{module}", "--checkpoint", str(checkpoint)]
    for option, value in options.items():
        command += [f"--{option.replace('_', '-')}", str(value)]
    with _running(name, command, "/health", {}, pausable=True) as server:
        server.pause()
        yield server


@contextlib.contextmanager
def libretranslate(python: Path, packages: Path, environment: dict[str, str]) -> Iterator[Server]:
    """LibreTranslate with the Argos packages of a folder; see `benchmarks.peers.libretranslate`."""
    # -P: files beside the script are named like the libraries that it imports
    command = ["-P", str(ROOT / "benchmarks/peers/libretranslate_server.py"), str(packages)]
    with _running("LibreTranslate", command, "/languages", environment, python=str(python), port_option=()) as server:
        yield server


@contextlib.contextmanager
def _running(
    name: str,
    command: list[str],
    health: str,
    environment: dict[str, str],
    *,
    pausable: bool = False,
    python: str = sys.executable,
    port_option: tuple[str, ...] | None = ("--port",),
    root: Path = ROOT,
) -> Iterator[Server]:
    """port_option: the option before the port on the command line; None: the port is a setting, as ours."""
    port = free_port()
    given = {key: value for key, value in os.environ.items() if not key.startswith("PARLANCE_")}
    port_arguments = [] if port_option is None else [*port_option, str(port)]
    environment = {**given, **environment, "PARLANCE_HOST": "127.0.0.1", "PARLANCE_PORT": str(port)}
    process = subprocess.Popen([python, *command, *port_arguments], cwd=root, env=environment, start_new_session=True)
    server = Server(name, port, process, pausable)
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
    """SIGTERM, then SIGKILL to its whole session: LitServe leaves its workers behind."""
    server.process.send_signal(signal.SIGTERM)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.process.pid, signal.SIGCONT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.process.wait(10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.process.pid, signal.SIGKILL)
    server.process.wait()
