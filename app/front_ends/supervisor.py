"""Starts and watches the front-end processes. One that ends is started again, with growing pauses where it ends soon
after its start; one that is silent for `hang_timeout_s` is killed, since connections to it would wait without end. Time
in which this process itself did not run does not count."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.engine.metrics.collector import PREFIX
from app.front_ends import codec as c
from app.front_ends.engine_server import EngineServer, FrontEndConnection

log = logging.getLogger(__name__)

FIRST_PAUSE_S, MAX_PAUSE_S = 0.5, 30.0
HEALTHY_S = 5.0  # a front end that has listened for so long is started again at once
REAP_TIMEOUT_S = 5.0


class FrontEndProcess:
    """One front end: its process of now, and the connection to it. listening: it takes connections."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process: subprocess.Popen[bytes] | None = None
        self.connection: FrontEndConnection | None = None
        self.listens_since_s = 0.0
        self.listening = asyncio.Event()
        self.gone = asyncio.Event()

    async def start(self, server: EngineServer, settings: str) -> None:
        """The process inherits only its socket, stdout and stderr."""
        self.listening.clear()
        self.gone.clear()
        ours, theirs = socket.socketpair()
        with theirs:
            self.connection = await server.connect(
                ours, c.Start(settings), on_listening=self._listens, on_end=self.gone.set
            )
            try:
                # not asyncio's subprocess: see `app.engine.dispatch.worker_process`
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "app.front_ends.front_end", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                    start_new_session=True,  # Ctrl-C reaches only the engine process, which ends the service in order
                )
            except BaseException:
                self.connection.link.abort()
                raise

    def _listens(self) -> None:
        self.listens_since_s = time.monotonic()
        self.listening.set()

    async def reap(self) -> int:
        """Waits for the process, whose connection has closed, and kills it after `REAP_TIMEOUT_S`. Returns its exit
        status; a signal's number is negative."""
        assert self.process is not None
        if self.process.poll() is None:
            try:
                await asyncio.to_thread(self.process.wait, REAP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                await asyncio.to_thread(self.process.wait)
        return int(self.process.returncode)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()


class FrontEnds(Collector):
    """Keeps `count` front ends running. settings: of each of them, as of `codec.Start`. Times in seconds."""

    def __init__(
        self,
        server: EngineServer,
        count: int,
        settings: str,
        *,
        start_timeout_s: float,
        hang_timeout_s: float,
    ) -> None:
        self._server, self._settings = server, settings
        self._start_timeout_s, self._hang_timeout_s = start_timeout_s, hang_timeout_s
        self.processes = [FrontEndProcess(f"front end {number}") for number in range(1, count + 1)]
        self.restarts = 0
        self.status = 0  # of the first process that could not listen at the start of the service
        self._keeping = list[asyncio.Task[None]]()
        self._watching: asyncio.Task[None] | None = None
        self._ending = False

    def describe(self) -> list[Metric]:
        return []  # registration collects nothing

    def collect(self) -> Iterator[Metric]:
        alive = sum(front_end.listening.is_set() for front_end in self.processes)
        yield GaugeMetricFamily(f"{PREFIX}front_ends", "Front-end processes that take connections.", alive)
        restarts = "Front-end processes that were started for one that ended."
        yield CounterMetricFamily(f"{PREFIX}front_end_restarts", restarts, self.restarts)

    async def start(self) -> bool:
        """Returns once all of them listen; False where one of them ended before, with `status`."""
        await asyncio.gather(*(self._start(front_end) for front_end in self.processes))
        self._watching = asyncio.create_task(self._watch())
        first = [asyncio.create_task(self._listens(front_end)) for front_end in self.processes]
        if not all(await asyncio.gather(*first)):
            return self._ending
        self._keeping = [asyncio.create_task(self._keep(front_end)) for front_end in self.processes]
        return True

    async def _start(self, front_end: FrontEndProcess) -> None:
        await front_end.start(self._server, self._settings)
        if self._ending:  # meanwhile: it would not be told to drain
            front_end.kill()

    async def _listens(self, front_end: FrontEndProcess) -> bool:
        """Whether a process listens before it ends."""
        waits = [asyncio.create_task(event.wait()) for event in (front_end.listening, front_end.gone)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if front_end.gone.is_set():
            status = await front_end.reap()
            if not self._ending:
                self.status = self.status or status or 1
            return False
        return True

    async def _keep(self, front_end: FrontEndProcess) -> None:
        pause_s = 0.0
        while True:
            await front_end.gone.wait()
            healthy = front_end.listening.is_set() and time.monotonic() - front_end.listens_since_s >= HEALTHY_S
            front_end.listening.clear()
            status = await front_end.reap()
            if self._ending:
                return
            pause_s = 0.0 if healthy else min(MAX_PAUSE_S, max(FIRST_PAUSE_S, 2 * pause_s))
            how = f"by signal {-status}" if status < 0 else f"with status {status}"
            log.error("%s ended %s; the next starts in %g s", front_end.name, how, pause_s)
            await asyncio.sleep(pause_s)
            if self._ending:
                return
            self.restarts += 1
            try:
                await self._start(front_end)
            except Exception:
                log.exception("%s could not be started", front_end.name)
                front_end.gone.set()

    async def _watch(self) -> None:
        interval_s = min(1.0, self._hang_timeout_s / 4, self._start_timeout_s / 4)
        while True:
            expected_s = time.monotonic() + interval_s
            await asyncio.sleep(interval_s)
            now_s = time.monotonic()
            asleep_s = max(0.0, now_s - expected_s)
            for front_end in self.processes:
                if (connection := front_end.connection) is None or front_end.gone.is_set():
                    continue
                connection.heard_at_s += asleep_s  # its messages may wait to be read
                limit_s = self._hang_timeout_s if front_end.listening.is_set() else self._start_timeout_s
                if now_s - connection.heard_at_s > limit_s:
                    log.error("%s has said nothing for %g s; it is ended", front_end.name, limit_s)
                    connection.heard_at_s = now_s  # do not kill it again
                    front_end.kill()

    def leave(self) -> None:
        """Starts no front end again from now on; one that does not listen yet has nothing to answer, and is killed."""
        self._ending = True
        for front_end in self.processes:
            if not front_end.listening.is_set():
                front_end.kill()

    async def ended(self, limit_s: float) -> None:
        """Waits until every front end has answered what it has in flight; kills those that have not ended by then."""
        self.leave()
        running = [asyncio.create_task(front_end.gone.wait()) for front_end in self.processes if front_end.process]
        if running:
            await asyncio.wait(running, timeout=limit_s)
        for front_end in self.processes:
            if not front_end.gone.is_set():
                log.error("%s has not ended after %g s; it is killed", front_end.name, limit_s)
                front_end.kill()
        tasks = [*running, *self._keeping, *([self._watching] if self._watching else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(front_end.reap() for front_end in self.processes if front_end.process))
