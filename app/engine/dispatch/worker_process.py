"""The front end's handle of one device process: start, send, receive, kill."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence

from app.engine.dispatch.cpu_pinning import CoreSet, affinity
from app.engine.dispatch.cuda_devices import device_environment
from app.engine.protocol import messages as m

log = logging.getLogger(__name__)

SLICE_S = 0.002  # of handling messages, before the event loop does anything else
REAP_TIMEOUT_S = 5.0  # a killed process ends at once unless a driver blocks it in the kernel


class WorkerProcess(asyncio.Protocol):
    """One device process and its socket. on_message: called with every message; on_death: once, after its end. A
    protocol handles messages in the event-loop iteration in which they arrive; a stream reader would wake a task,
    which waits behind all requests that arrived meanwhile. Messages that take longer than a slice wait for the next
    iteration, and the process meanwhile for its socket."""

    def __init__(
        self, device: str, *, on_message: Callable[[str, m.FromDevice], None], on_death: Callable[[str], None]
    ) -> None:
        self.device, self._on_message, self._on_death = device, on_message, on_death
        self.cores: CoreSet | None = None  # to which the process is pinned
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._splitter = m.FrameSplitter()
        self._bodies: deque[bytes] = deque()  # received frames with messages that `_on_message` has not had yet
        self._continuing: asyncio.Handle | None = None
        self._over = asyncio.Event()  # the process has ended and all its messages are handled
        self._reaping: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self, first: Sequence[m.ToDevice], cores: CoreSet | None = None) -> None:
        """Spawns the process, pinned to `cores` if there are any, and sends `first`. The process inherits only its
        socket, stdout and stderr. A process whose cores were taken from this service since its start is not pinned."""
        ours, theirs = socket.socketpair()
        with theirs:
            loop = asyncio.get_running_loop()  # connect first, so that the socket is closed if the spawn fails
            transport, _ = await loop.create_connection(lambda: self, sock=ours)
            try:
                self._spawn(theirs, cores)
            except BaseException:
                transport.close()
                raise
        self._transport = transport
        self.send(first)

    def _spawn(self, theirs: socket.socket, cores: CoreSet | None) -> None:
        with contextlib.ExitStack() as pinned:
            if cores is not None:
                try:
                    pinned.enter_context(affinity(cores.cpus))
                    self.cores = cores
                except OSError as error:
                    log.warning("the process of %s is not pinned to %s: %s", self.device, cores, error.strerror)
            # Not asyncio's subprocess: uvloop forks, and the child runs the at-fork hooks of libraries.
            # OpenTelemetry's hook starts a thread and never returns, and the event loop waits for the child.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "app.engine.worker.worker_main", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={
                    **device_environment(self.device),
                    "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
                },
                start_new_session=True,  # Ctrl-C reaches only the front end, which drains and then stops us
            )

    def send(self, messages: Sequence[m.ToDevice]) -> None:
        """Writes without backpressure: admission bounds the requests in flight."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(m.frame(messages))

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        try:
            self._bodies.extend(self._splitter.bodies(data))
        except ValueError:
            self._end_misunderstood()
        else:
            if self._continuing is None:
                self._handle_messages()

    def _handle_messages(self, *, all_at_once: bool = False) -> None:
        self._continuing, began = None, time.perf_counter()
        try:
            while self._bodies:
                for message in m.from_device(self._bodies.popleft()):
                    self._on_message(self.device, message)
                if self._bodies and not all_at_once and time.perf_counter() - began >= SLICE_S:
                    self._continuing = asyncio.get_running_loop().call_soon(self._handle_messages)
                    break
        except Exception:
            self._end_misunderstood()
        if self._transport is not None and not self._transport.is_closing():
            if self._continuing is None:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _end_misunderstood(self) -> None:
        log.exception("a device process said what cannot be understood; it is ended")
        self._bodies.clear()
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._continuing is not None:
            self._continuing.cancel()
            self._handle_messages(all_at_once=True)
        if self._process is not None:  # else `start` raises
            self._reaping = asyncio.get_running_loop().create_task(self._reap(), name=f"reap {self.device}")

    async def _reap(self) -> None:
        try:
            await self.kill()
            self._on_death(self.device)
        finally:
            self._over.set()

    async def kill(self) -> None:
        """Kills the process, even a stopped one (SIGSTOP), and reaps it."""
        if self._transport is not None:
            self._transport.abort()  # discards unread messages
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            if not await self._ends_within(REAP_TIMEOUT_S):
                log.error("process %d of %s does not end although it was killed", self._process.pid, self.device)

    async def _ends_within(self, limit_s: float) -> bool:
        """Waits for the exit, which reaps the process; False on timeout."""
        assert self._process is not None
        try:
            await asyncio.to_thread(self._process.wait, limit_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    async def stop(self, timeout_s: float) -> None:
        """Asks the process to end, and kills it after the timeout."""
        self.send([m.Stop()])
        if self._process is not None:
            await self._ends_within(timeout_s)
        await self.kill()
        if self._transport is not None:
            await self._over.wait()
