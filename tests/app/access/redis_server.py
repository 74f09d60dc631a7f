"""A real redis-server of the test's own, on a free port, which keeps nothing."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path


class RedisServer:
    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder, self.url = folder, f"redis://127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(
            ["redis-server", *options, "--dir", str(self.folder)], stdout=subprocess.DEVNULL
        )
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < end, "redis-server did not start"
                time.sleep(0.02)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    server = RedisServer(folder)
    try:
        yield server
    finally:
        server.stop()
