"""Files, a real server process, real HTTP: what is served is what `models.decoding` says, and SIGTERM ends it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from models import checkpoint as checkpoints
from models.networks import load_network
from tests.readme import ROOT
from tests.tiny import GERMAN
from training.evaluate import translate


class Server(NamedTuple):
    base: str
    process: subprocess.Popen[bytes]

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def workers(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]


@pytest.fixture
def server(tiny_checkpoints: Path, tmp_path: Path) -> Iterator[Server]:
    """Started from another folder than the sources, as a service manager would."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "--factory", "app.main:create_app", "--port", str(port)]
    environment = {**os.environ, "PARLANCE_CHECKPOINTS": str(tiny_checkpoints), "PARLANCE_CPU_THREADS": "1"}
    process = subprocess.Popen(command, cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT)})
    server = Server(f"http://127.0.0.1:{port}", process)
    end = time.monotonic() + 60
    while True:
        try:
            server.ask("/health/ready")
            break
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < end, "the server did not become ready"
            assert process.poll() is None, "the server ended"
            time.sleep(0.05)
    try:
        yield server
    finally:
        process.kill()
        process.wait()


def gone(pid: int) -> bool:
    """Ended: no such process, or one that only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_http_says_what_offline_decoding_says_and_sigterm_ends_it(server: Server, tiny_checkpoints: Path) -> None:
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    wanted = translate(checkpoint, load_network(checkpoint), GERMAN, beam=4)
    with ThreadPoolExecutor(8) as clients:  # many at once, and each as if alone
        bodies = [{"q": text, "source": "de", "target": "en"} for text in GERMAN * 8]
        answers = list(clients.map(lambda body: server.ask("/translate", body), bodies))
    assert [answer["translatedText"] for answer in answers] == wanted * 8
    together = server.ask("/translate", {"q": GERMAN, "source": "de", "target": "en"})
    assert together["translatedText"] == wanted

    (worker,) = server.workers()
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(30)
    wait_for(lambda: gone(worker))


def test_no_worker_outlives_a_killed_server(server: Server) -> None:
    (worker,) = server.workers()
    server.process.kill()
    server.process.wait()
    wait_for(lambda: gone(worker))
