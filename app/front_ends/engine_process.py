"""The engine process of a service with several front ends: it has the devices, the shared parts and the front-end
processes, and does not listen itself. Signals are as in `app.__main__`; front ends ignore them, and end when they are
told to or when this process is gone."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

from pydantic import SecretStr

from app import logs
from app.engine.interface import Engine
from app.engine.metrics.collector import Metrics
from app.front_ends import codec as c
from app.front_ends.engine_server import ALIVE_S, EngineServer
from app.front_ends.supervisor import FrontEnds
from app.interpreter import shared_interpreter
from app.main import create_engine, shared_parts, usage_counts
from app.server import FLUSH_S, bound_sockets, check_address
from app.settings import Settings

log = logging.getLogger(__name__)

DRAIN_MARGIN_S = 2.0  # beyond the front ends' own limits


class ServedEngine(Engine, Protocol):
    """An engine with a life: `AsyncEngine`, or a scripted one."""

    async def start(self) -> None: ...

    def announce_shutdown(self) -> None: ...

    async def drain(self) -> None: ...

    async def stop(self) -> None: ...


def serve_front_ends(
    settings: Settings, make_engine: Callable[[Settings, Metrics], ServedEngine] = create_engine
) -> None:
    """Serves with `settings.front_ends` front ends. Returns after a drained end; SystemExit where the service could not
    start."""
    if sys.platform != "linux":
        raise SystemExit("Parlance cannot start: PARLANCE_FRONT_ENDS takes more than 1 on Linux alone; leave it at 1.")
    logs.set_up_logging(settings.log_level, settings.log_format)
    held = hold_address(settings.host, settings.port)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            status = runner.run(EngineProcess(settings, make_engine).serve())
    finally:
        for bound in held:
            bound.close()
    if status:
        sys.exit(status)


def hold_address(host: str, port: int) -> list[socket.socket]:
    """Sockets that keep other programs, and other services of this kind, from the address: bound, and not listening, so
    that they get no connections. SystemExit with a sentence where another program has it."""
    check_address(host, port)
    try:
        held = bound_sockets(host, port, reused=False)
    except SystemExit:  # within a minute of an earlier server; a program that binds it now is noticed when it listens
        held = bound_sockets(host, port)
    for bound in held:  # only now, for a service that starts at the same moment could bind it too
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return held


def settings_of_front_end(settings: Settings) -> str:
    """As of `codec.Start`: the service's settings, and of limits that each process has for itself, its share."""
    count = settings.front_ends
    largest_body = max(settings.max_body_bytes, settings.max_file_bytes)
    shares = {
        "max_connections": -(-settings.max_connections // count),
        "max_connections_per_client": -(-settings.max_connections_per_client // count),
        "max_uploaded_bytes": max(settings.max_uploaded_bytes // count, largest_body),
        "cache_mb": -(-settings.cache_mb // count),
    }
    values: dict[str, Any] = {name: getattr(settings, name) for name in type(settings).model_fields} | shares
    for name, value in values.items():
        if isinstance(value, SecretStr):
            values[name] = value.get_secret_value()
        elif isinstance(value, Path):
            values[name] = str(value)
    return json.dumps(values)


class EngineProcess:
    """The engine, its server and the front ends, from their start to their end."""

    def __init__(self, settings: Settings, make_engine: Callable[[Settings, Metrics], ServedEngine]) -> None:
        self._settings = settings
        metrics = Metrics()
        counts = usage_counts(settings, metrics)
        self._engine = make_engine(settings, metrics)
        metrics.watch(self._engine)
        self._shared = shared_parts(settings, self._engine, metrics, counts)
        self._server = EngineServer(self._engine, self._shared, min(ALIVE_S, settings.worker_hang_timeout_s / 4))
        self._front_ends: FrontEnds
        self._ending: asyncio.Task[None] | None = None
        self._serving = False

    async def serve(self) -> int:
        """Until a signal; the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        settings = self._settings
        self._front_ends = FrontEnds(
            self._server,
            settings.front_ends,
            settings_of_front_end(settings),
            start_timeout_s=settings.worker_start_timeout_s,
            hang_timeout_s=settings.worker_hang_timeout_s,
        )
        self._shared.metrics.registry.register(self._front_ends)
        self._ended = asyncio.Event()
        watching = asyncio.create_task(self._server.watch())
        await self._engine.start()
        try:
            async with shared_interpreter():
                started = await self._front_ends.start()
                if not started:
                    log.error("A front end ended before it listened; its messages are above. The service ends.")
                    self._end_with(self._drain())
                elif self._ending is None:
                    self._serving = True
                    where = f"http://{settings.host}:{settings.port}"
                    log.info("%d front ends listen on %s (stop with Ctrl-C)", settings.front_ends, where)
                await self._ended.wait()
        finally:
            watching.cancel()
            await self._shared.importer.stop()
            await self._engine.stop()
            await self._shared.counts.close()
        return self._front_ends.status

    def _signalled(self, number: signal.Signals) -> None:
        if self._ending is not None:
            os._exit(128 + number)  # the front ends and the device processes end with this one
        # No load balancer is behind Ctrl-C, and none knows a service that does not listen yet.
        delay_s = self._settings.shutdown_delay_s if number == signal.SIGTERM and self._serving else 0.0
        self._end_with(self._end(delay_s))

    def _end_with(self, work: Coroutine[Any, Any, None]) -> None:
        self._ending = asyncio.create_task(work)
        self._ending.add_done_callback(lambda _: self._ended.set())

    async def _end(self, delay_s: float) -> None:
        self._engine.announce_shutdown()
        self._server.push()
        if delay_s:
            log.info("not ready from now on; draining in %g s; a second signal ends at once", delay_s)
            await asyncio.sleep(delay_s)
        log.info("draining; a second signal ends at once")
        await self._drain()

    async def _drain(self) -> None:
        limit_s = self._settings.drain_timeout_s + FLUSH_S + DRAIN_MARGIN_S
        ends_s = time.monotonic() + limit_s
        self._front_ends.leave()
        self._server.send_all(c.Drain())
        draining = asyncio.create_task(self._engine.drain())
        await asyncio.sleep(0)
        self._server.push()  # new requests are refused from now on
        await draining
        await self._front_ends.ended(max(DRAIN_MARGIN_S, ends_s - time.monotonic()))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's where it is, as uvicorn has it."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
