"""An engine of this process, behind the sockets of front ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

from app.access.memory_store import MemoryStore
from app.api.services import SharedParts
from app.engine.metrics.collector import Metrics
from app.front_ends import codec
from app.front_ends.engine_client import EngineClient, EngineConnection
from app.front_ends.engine_server import EngineServer, FrontEndConnection
from app.front_ends.service_parts import FrontEndMetrics, parts_over
from app.main import shared_parts
from app.settings import Settings

PATIENCE_S = 20


class FrontEnd(NamedTuple):
    """A connected front end, and the engine process's side of it."""

    engine: EngineClient
    shared: SharedParts
    connection: EngineConnection
    accepted: FrontEndConnection
    server: EngineServer


def own_parts(engine: Any) -> SharedParts:
    metrics = Metrics()
    metrics.watch(engine)
    return shared_parts(Settings(checkpoints=Path("checkpoints")), engine, metrics, MemoryStore())


@contextlib.asynccontextmanager
async def front_end(engine: Any, server: EngineServer | None = None, **options: Any) -> AsyncIterator[FrontEnd]:
    """server: of the engine, with other front ends. options: of `EngineConnection`."""
    server = server or EngineServer(engine, own_parts(engine))
    ours, theirs = socket.socketpair()
    metrics = FrontEndMetrics()
    connection = EngineConnection(theirs, metrics, **options)
    accepted = await server.connect(ours)
    client = EngineClient(connection)
    await client.start()
    connection.link.send(codec.Listening())
    watching = asyncio.create_task(server.watch())
    try:
        yield FrontEnd(client, parts_over(connection, metrics), connection, accepted, server)
    finally:
        watching.cancel()
        await client.stop()
        await until(lambda: accepted not in server.front_ends)


async def until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)
