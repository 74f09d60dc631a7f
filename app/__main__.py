"""python -m app: serve on PARLANCE_HOST and PARLANCE_PORT.

SIGTERM (or Ctrl-C) drains: /health/ready is 503 at once, no connection is accepted any more, what is in flight has
PARLANCE_DRAIN_TIMEOUT_S to end and is then told to try again; the exit status is 0. A second signal ends at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

import uvicorn

from app.main import create_app, load_settings_or_exit

log = logging.getLogger(__name__)

FLUSH_S = 5  # beyond the drain timeout: for the last answers to reach their clients


class Server(uvicorn.Server):
    """uvicorn's, but the engine drains while connections do, not after them; and a drained server has not failed, so
    the signal is not raised again at the end."""

    def __init__(self, config: uvicorn.Config, drain: Callable[[], Coroutine[Any, Any, None]]) -> None:
        super().__init__(config)
        self._drain, self._draining = drain, asyncio.Event()

    async def serve(self, sockets: list[Any] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        drains = asyncio.create_task(self._drain_when_told())
        try:
            await super().serve(sockets)
        finally:
            drains.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await drains

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(128 + sig)  # the device processes end with this one
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._draining.set)

    async def _drain_when_told(self) -> None:
        await self._draining.wait()
        log.info("draining; a second signal ends at once")
        await self._drain()


async def _nothing() -> None:
    pass


def main() -> None:
    settings = load_settings_or_exit()
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,  # `app.logs` has set it up
        access_log=False,
        proxy_headers=False,  # PARLANCE_TRUSTED_PROXIES decides, and the app believes them itself
        # Without a limit of its own uvicorn would wait for a slow client's connection for as long as that pleases.
        timeout_graceful_shutdown=int(settings.drain_timeout_s + FLUSH_S),
    )
    logging.getLogger("uvicorn").setLevel(logging.INFO)
    server = Server(config, getattr(app.state.services.engine, "drain", _nothing))
    server.run()
    if not server.started:
        sys.exit(3)  # uvicorn's own status for this; it has said why


if __name__ == "__main__":
    main()
