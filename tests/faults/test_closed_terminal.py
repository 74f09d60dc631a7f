"""A server whose terminal closes, or whose connection to the machine breaks, drains as after SIGTERM."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.test_process_faults import LONG, ready, status_of
from tests.readme import ROOT
from tests.serving import serving
from tests.test_end_to_end import gone, wait_for

pytestmark = pytest.mark.faults
COMMANDS = {
    "app": (("-m", "app"), {}),
    "parlance serve": (("-m", "parlance", "serve", "--no-demo"), {}),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_sighup_drains_requests_and_exits_with_0(name: str, tiny_checkpoints: Path, tmp_path: Path) -> None:
    command, settings = COMMANDS[name]
    with serving(tiny_checkpoints, tmp_path, command, **settings) as server, ThreadPoolExecutor(4) as clients:
        children = server.workers()
        futures = [clients.submit(status_of, server, "/generate", LONG) for _ in range(4)]
        time.sleep(0.3)
        for _ in range(2):  # a shell sends it to its jobs, and then the kernel does
            for process in (server.process.pid, *children):
                os.kill(process, signal.SIGHUP)
        assert [future.result()[0] for future in futures] == [200] * 4
        assert server.process.wait(30) == 0
        wait_for(lambda: all(map(gone, children)))


def test_sighup_is_ignored_under_nohup(tiny_checkpoints: Path, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with serving(tiny_checkpoints, tmp_path) as server:
            for process in (server.process.pid, *server.workers()):
                os.kill(process, signal.SIGHUP)
            time.sleep(1)
            assert ready(server)
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_terminal_that_closes_ends_the_server_in_order(tiny_checkpoints: Path, tmp_path: Path) -> None:
    """Though nothing can be written to it any more."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        settings = {"CHECKPOINTS": str(tiny_checkpoints), "PORT": str(probe.getsockname()[1]), "CPU_WORKERS": "1"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} | {f"PARLANCE_{name}": settings[name] for name in settings}
    environment |= {"PARLANCE_CPU_THREADS": "1", "PARLANCE_SHUTDOWN_DELAY_S": "0"}
    terminal, inside = pty.openpty()
    login = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, sys.argv[1:])"
    )
    command = [sys.executable, "-c", login, sys.executable, "-m", "parlance", "serve", "--no-demo"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=inside, stdout=inside, stderr=inside, start_new_session=True
    )
    try:
        os.close(inside)
        shown = b""
        while b"running on" not in shown:
            shown += os.read(terminal, 4096)
        os.close(terminal)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
