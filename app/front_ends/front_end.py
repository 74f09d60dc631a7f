"""A front-end process: the whole app, but for the engine and the shared parts. Run as
`python -m app.front_ends.front_end FD`, where FD is one end of a socket pair; the engine process holds the other. It
ends when it is told to drain, or when that end closes."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from types import FrameType

import uvicorn

from app.engine.protocol.child_process import die_with_parent
from app.engine.protocol.messages import HEADER
from app.front_ends import codec as c
from app.front_ends.engine_client import EngineClient, EngineConnection
from app.front_ends.service_parts import FrontEndMetrics, parts_over
from app.main import create_app
from app.server import bound_sockets, server_config
from app.settings import Settings, mistakes_end_with_status_2

log = logging.getLogger(__name__)

ORPHAN_S = 1.0  # to answer with 503 what was in flight when the engine process ended


class FrontEndServer(uvicorn.Server):
    """Announces when it listens, and leaves signals to the engine process: an init system may send them to every
    process of a service."""

    def __init__(self, config: uvicorn.Config, connection: EngineConnection) -> None:
        super().__init__(config)
        self._connection = connection
        connection.on_drain, connection.on_loss = self._drain, self._orphaned

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._connection.link.send(c.Listening())

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        pass

    def _drain(self) -> None:
        self.should_exit = True

    def _orphaned(self) -> None:
        log.error("the engine process is gone; this front end ends")
        self.should_exit = True
        asyncio.get_running_loop().call_later(ORPHAN_S, os._exit, 1)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    die_with_parent()
    with mistakes_end_with_status_2():
        connection = socket.socket(fileno=int(sys.argv[1]))
        connection.set_inheritable(False)
        serve(connection)


def serve(connection: socket.socket) -> None:
    """Returns after a drained end; SystemExit where it could not start."""
    start = first_message(connection)
    settings = Settings(**json.loads(start.settings))
    metrics = FrontEndMetrics()
    engine_connection = EngineConnection(connection, metrics, hang_timeout_s=settings.worker_hang_timeout_s)
    app = create_app(settings, EngineClient(engine_connection), parts_over(engine_connection, metrics))
    config = server_config(app, settings)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # the engine process says where the service listens
    server = FrontEndServer(config, engine_connection)
    server.run(sockets=bound_sockets(settings.host, settings.port, shared=True))
    if not server.started:
        sys.exit(3)  # uvicorn's own status for this; it has said why


def first_message(connection: socket.socket) -> c.Start:
    """The message that the first frame holds. What follows stays in the socket."""

    def read(size: int) -> bytes:
        received = b""
        while len(received) < size:
            part = connection.recv(size - len(received))
            if not part:
                raise SystemExit("The engine process ended before it had said what to serve.")
            received += part
        return received

    (length,) = HEADER.unpack(read(HEADER.size))
    (start,) = c.to_front_end(read(length))
    assert isinstance(start, c.Start), "the first message says what to serve"
    return start


if __name__ == "__main__":
    main()
