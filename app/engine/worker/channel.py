"""The device process's end of the socket, and the results of its own threads."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import select
import socket
import threading

from app.engine.protocol import messages as m
from app.engine.protocol.framing import FrameSplitter
from app.engine.worker.model_loader import LoadResult

PART_BYTES = 1 << 16


class Channel:
    """The main loop reads the socket itself, between steps and while it waits: a thread that reads for it would have
    to wake it, which on an idle machine takes longer than the message does."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._splitter = connection, FrameSplitter()
        self._results: queue.SimpleQueue[LoadResult] = queue.SimpleQueue()
        self._bell, self._rope = os.pipe()
        self._waiting = select.poll()
        for each in (connection.fileno(), self._bell):
            self._waiting.register(each, select.POLLIN)

    def start(self) -> None:
        """End this process when the front end has gone, perhaps in the middle of a step: nobody wants its result."""
        threading.Thread(target=self._end_with_the_front_end, name="hangup", daemon=True).start()

    def _end_with_the_front_end(self) -> None:
        hangup = select.poll()
        hangup.register(self._connection, 0)  # 0: only its end
        hangup.poll()
        os._exit(0)

    def put(self, result: LoadResult) -> None:
        """What this process tells itself, from any thread."""
        self._results.put(result)
        os.write(self._rope, b".")

    def take(self, wait_s: float | None) -> list[m.ToDevice | LoadResult]:
        """All messages that are there; if there is none, wait for one so long (None: for ever). ConnectionError if
        there will be none any more, ValueError or msgspec's if one cannot be understood."""
        found = self._there()
        if not found and wait_s != 0:
            ready = self._waiting.poll(None if wait_s is None else math.ceil(wait_s * 1000))
            if any(descriptor == self._bell for descriptor, _ in ready):
                os.read(self._bell, PART_BYTES)  # rung perhaps for what was found before: then this is a look in vain
            found = self._there()
        return found

    def _there(self) -> list[m.ToDevice | LoadResult]:
        found: list[m.ToDevice | LoadResult] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                if not (data := self._connection.recv(PART_BYTES, socket.MSG_DONTWAIT)):
                    if found:
                        break
                    raise ConnectionResetError("the front end is gone")
                for body in self._splitter.bodies(data):
                    found += m.to_device(body)
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._results.get_nowait())
        return found

    def close(self) -> None:
        os.close(self._bell)
        os.close(self._rope)
