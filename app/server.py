"""The HTTP server of the app: uvicorn within `app.connection_limits`, which drains when it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import cast

import uvicorn
from fastapi import FastAPI

from app.connection_limits import ConnectionLimiter, ConnectionLimits, fit_descriptors
from app.settings import Settings
from models.child_process import ending_signals

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

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn's, and SIGHUP; a server in another thread hears none."""
        with super().capture_signals():
            heard = ending_signals() if threading.current_thread() is threading.main_thread() else []
            before = {number: signal.signal(number, self.handle_exit) for number in heard}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._ending:
            if sig == signal.SIGHUP:  # a shell and the kernel both send it when a terminal closes
                return
            os._exit(128 + sig)  # the device processes end with this one
        self._ending = True
        # No load balancer is behind Ctrl-C, and none knows a server that does not listen yet.
        delay_s = self._delay_s if sig != signal.SIGINT and self.started else 0.0
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
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = f"port {port} of {host} is in use; stop the program that listens there, or choose another --port"
        else:
            reason = f"it cannot listen on {host}, port {port} ({error.strerror}); choose another --host or --port"
        raise SystemExit(f"Parlance cannot start: {reason}.") from None


def server_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """app: of `create_app` with these settings."""
    logging.getLogger("uvicorn").setLevel(logging.INFO)
    limiter = ConnectionLimiter(fit_descriptors(settings.section(ConnectionLimits)), app.state.services.metrics)
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=cast(type[asyncio.Protocol], limiter.connection),
        ws="none",
        timeout_keep_alive=settings.keep_alive_timeout_s,  # type: ignore[arg-type]  # `call_later` takes fractions too
        log_config=None,  # `app.logs` has set it up
        access_log=False,
        proxy_headers=False,  # the app has a middleware of its own, for PARLANCE_TRUSTED_PROXIES
        # Without a limit uvicorn would wait for a slow client without end.
        timeout_graceful_shutdown=int(settings.drain_timeout_s + FLUSH_S),
    )
