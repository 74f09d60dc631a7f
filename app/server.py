"""The HTTP server of the app: uvicorn within the limits of `app.intake`, which drains when it is told to end."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import cast

import uvicorn
from fastapi import FastAPI

from app.intake import Intake, IntakeLimits, fit_descriptors
from app.settings import Settings

log = logging.getLogger(__name__)

FLUSH_S = 5  # beyond the drain timeout: for the last answers to reach their clients


class Server(uvicorn.Server):
    """uvicorn's server, with an engine that drains while the connections do; a drained server exits with 0.

    announce: makes /health/ready 503 and changes nothing else; delay_s: from there to the drain, after SIGTERM."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        announce: Callable[[], None],
        drain: Callable[[], Coroutine[object, object, None]],
        delay_s: float,
    ) -> None:
        super().__init__(config)
        self._announce, self._drain, self._delay_s = announce, drain, delay_s
        self._ending = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._ending:
            os._exit(128 + sig)  # the device processes end with this one
        self._ending = True
        # No load balancer is behind Ctrl-C, and none knows a server that does not listen yet.
        delay_s = self._delay_s if sig == signal.SIGTERM and self.started else 0.0
        asyncio.run_coroutine_threadsafe(self._end(delay_s), asyncio.get_running_loop())

    async def _end(self, delay_s: float) -> None:
        if delay_s:
            self._announce()
            log.info("not ready from now on; draining in %g s; a second signal ends at once", delay_s)
            await asyncio.sleep(delay_s)
        self.should_exit = True
        log.info("draining; a second signal ends at once")
        await self._drain()


def check_address(host: str, port: int) -> None:
    """SystemExit with a sentence where the server could not listen, as another program may do."""
    for probe in bound_sockets(host, port):
        probe.close()


def bound_sockets(host: str, port: int, *, shared: bool = False, reused: bool = True) -> list[socket.socket]:
    """A socket bound to each address of the host. shared: other processes of this user may bind them too, if their
    sockets are shared (SO_REUSEPORT). reused: ended connections of an earlier server may linger there (TIME_WAIT), and
    until one of the sockets listens, any program may bind them too. SystemExit with a sentence where another program
    has one of them."""
    sockets = list[socket.socket]()
    try:
        for family, kind, protocol, _, address in dict.fromkeys(
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        ):
            bound = socket.socket(family, kind, protocol)
            sockets.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reused)
            if shared:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind(address)
    except OSError as error:
        for bound in sockets:
            bound.close()
        if error.errno == errno.EADDRINUSE:
            reason = f"port {port} of {host} is in use; stop the program that listens there, or choose another --port"
        else:
            reason = f"it cannot listen on {host}, port {port} ({error.strerror}); choose another --host or --port"
        raise SystemExit(f"Parlance cannot start: {reason}.") from None
    return sockets


def server_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """app: of `create_app` with these settings."""
    logging.getLogger("uvicorn").setLevel(logging.INFO)
    intake = Intake(fit_descriptors(settings.section(IntakeLimits)), app.state.services.metrics)
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=cast(type[asyncio.Protocol], intake.connection),
        ws="none",  # the app has no WebSockets; their protocol would take the connection out of the intake
        timeout_keep_alive=settings.keep_alive_timeout_s,  # type: ignore[arg-type]  # `call_later` takes fractions too
        log_config=None,  # `app.logs` has set it up
        access_log=False,
        proxy_headers=False,  # the app has a middleware of its own, for PARLANCE_TRUSTED_PROXIES
        # Without a limit uvicorn would wait for a slow client without end.
        timeout_graceful_shutdown=int(settings.drain_timeout_s + FLUSH_S),
    )
