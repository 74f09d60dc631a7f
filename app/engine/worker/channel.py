"""The device process's end of the socket, and the results of its other threads."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import select
import socket
import threading

from app.engine.protocol import messages as m
from app.engine.worker.inspection_run import BackgroundResult

READ_BYTES = 1 << 16


class Channel:
    """Reads the socket in the main loop: waking the loop from a reader thread would take longer than the message."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._splitter = connection, m.FrameSplitter()
        self._results: queue.SimpleQueue[BackgroundResult] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)
        self._poll.register(self._wake_read, select.POLLIN)

    def exit_with_front_end(self) -> None:
        """Starts a thread that exits the process when the front end is gone, even in the middle of a step."""

        def wait_and_exit() -> None:
            hangup = select.poll()
            hangup.register(self._connection, 0)  # 0: hangup only
            hangup.poll()
            os._exit(0)

        threading.Thread(target=wait_and_exit, name="hangup", daemon=True).start()

    def put(self, result: BackgroundResult) -> None:
        """Passes a result to the main loop, from any thread."""
        self._results.put(result)
        with contextlib.suppress(BlockingIOError):  # full: a busy main loop does not read it, and needs no waking
            os.write(self._wake_write, b".")

    def send(self, messages: list[m.FromDevice]) -> None:
        if messages:
            self._connection.sendall(m.frame(messages))

    def receive(self, wait_s: float | None) -> list[m.ToDevice | BackgroundResult]:
        """All available messages; waits up to wait_s for the first (None: forever). Raises ConnectionError if the front
        end is gone, ValueError or msgspec.DecodeError for a malformed message."""
        messages = self._available()
        if not messages and wait_s != 0:
            for descriptor, _ in self._poll.poll(None if wait_s is None else math.ceil(wait_s * 1000)):
                if descriptor == self._wake_read:
                    os.read(descriptor, READ_BYTES)  # the result may have been taken already
            messages = self._available()
        return messages

    def _available(self) -> list[m.ToDevice | BackgroundResult]:
        messages: list[m.ToDevice | BackgroundResult] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                if not (data := self._connection.recv(READ_BYTES, socket.MSG_DONTWAIT)):
                    if messages:
                        break
                    raise ConnectionResetError("the front end is gone")
                for body in self._splitter.bodies(data):
                    messages += m.to_device(body)
        with contextlib.suppress(queue.Empty):
            while True:
                messages.append(self._results.get_nowait())
        return messages
