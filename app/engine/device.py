"""The front end's end of one device process: starts it, writes to it, hands on what it says, notices its death."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from app.engine import messages as m

log = logging.getLogger(__name__)

REAP_S = 5.0  # a killed process ends at once, unless a driver holds it in the kernel: nobody waits for that


class DeviceProcess:
    """on_message gets every message of the process; on_death is called once, when it has ended or was ended."""

    def __init__(
        self,
        device: str,
        *,
        on_message: Callable[[str, m.FromDevice], None],
        on_death: Callable[[str], None],
    ) -> None:
        self.device, self._on_message, self._on_death = device, on_message, on_death
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self, first: list[m.ToDevice]) -> None:
        """Spawn and send `first`. The process inherits nothing but its socket, standard output and error."""
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_connection(sock=ours)  # first: so it is closed whatever comes next
            try:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "app.engine.worker",
                    str(theirs.fileno()),
                    pass_fds=[theirs.fileno()],
                    stdin=asyncio.subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                    start_new_session=True,  # Ctrl-C is for the front end alone: it drains, then stops us
                )
            except BaseException:
                writer.close()
                raise
        self._writer = writer
        self._reading = asyncio.create_task(self._read(reader), name=f"read {self.device}")
        self.send(first)

    def send(self, messages: list[Any]) -> None:
        """Hand over without waiting: what is in flight is bounded by admission, not here."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(m.frame(messages))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                length = m.body_length(await reader.readexactly(m.HEADER.size))
                for message in m.from_device(await reader.readexactly(length)):
                    self._on_message(self.device, message)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except Exception:
            log.exception("the process of %s said what cannot be understood; it is ended", self.device)
        await self.kill()
        self._on_death(self.device)

    async def kill(self) -> None:
        """End the process now, stopped or not, and reap it."""
        if self._writer is not None:
            self._writer.close()
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            try:
                await asyncio.wait_for(self._process.wait(), REAP_S)
            except TimeoutError:
                log.error("process %d of %s does not end although it was killed", self._process.pid, self.device)

    async def stop(self, timeout_s: float) -> None:
        """Ask the process to end, then make it."""
        self.send([m.Stop()])
        if self._process is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), timeout_s)
        await self.kill()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
