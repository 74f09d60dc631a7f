"""One device process as the front end holds it: started, written to, read from, ended."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence

from app.engine.protocol import messages as m
from app.engine.protocol.framing import FrameProtocol, frame

log = logging.getLogger(__name__)

REAP_TIMEOUT_S = 5.0  # a killed process ends at once, unless a driver holds it in the kernel


class WorkerProcess:
    """on_message gets every message of the process; on_death is called once, when it has ended or was ended."""

    def __init__(
        self, device: str, *, on_message: Callable[[str, m.FromDevice], None], on_death: Callable[[str], None]
    ) -> None:
        self.device, self._on_message, self._on_death = device, on_message, on_death
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._over = asyncio.Event()  # the process has ended, and all its messages were handled
        self._reaping: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self, first: Sequence[m.ToDevice]) -> None:
        """Spawn and send `first`. The process inherits nothing but its socket, standard output and error."""
        ours, theirs = socket.socketpair()
        with theirs:
            loop = asyncio.get_running_loop()  # connected first: so it is closed whatever comes next
            transport, _ = await loop.create_connection(
                lambda: FrameProtocol(self._on_frame, self._on_connection_lost), sock=ours
            )
            try:
                # Not asyncio's: uvloop forks, and the child first runs what libraries have registered for after a fork.
                # OpenTelemetry's starts a thread and never comes back, and the event loop waits for the child.
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "app.engine.worker.worker_main", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                    start_new_session=True,  # Ctrl-C is for the front end alone: it drains, then stops us
                )
            except BaseException:
                transport.close()
                raise
        self._transport = transport
        self.send(first)

    def send(self, messages: Sequence[m.ToDevice]) -> None:
        """Hand over without waiting: what is in flight is bounded by admission, not here."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(m.encode(messages)))

    def _on_frame(self, body: bytes) -> None:
        for message in m.from_device(body):
            self._on_message(self.device, message)

    def _on_connection_lost(self) -> None:
        if self._process is not None:  # else `start` raises
            self._reaping = asyncio.get_running_loop().create_task(self._reap(), name=f"reap {self.device}")

    async def _reap(self) -> None:
        try:
            await self.kill()
            self._on_death(self.device)
        finally:
            self._over.set()

    async def kill(self) -> None:
        """End the process now, stopped or not, and reap it."""
        if self._transport is not None:
            self._transport.abort()  # what it might still hold is not wanted
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            if not await self._ends_within(REAP_TIMEOUT_S):
                log.error("process %d of %s does not end although it was killed", self._process.pid, self.device)

    async def _ends_within(self, limit_s: float) -> bool:
        """Whether it does; its status is taken then, so that it leaves no zombie."""
        assert self._process is not None
        try:
            await asyncio.to_thread(self._process.wait, limit_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    async def stop(self, timeout_s: float) -> None:
        """Ask the process to end, then make it."""
        self.send([m.Stop()])
        if self._process is not None:
            await self._ends_within(timeout_s)
        await self.kill()
        if self._transport is not None:
            await self._over.wait()
