"""Reads checkpoints in a thread, one after another, so that a device goes on with its other models meanwhile."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.engine.protocol import messages as m


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What came of reading a checkpoint; began: CLOCK_MONOTONIC seconds."""

    message: m.Load
    began: float
    network: Any = None
    error: Exception | None = None


def read(message: m.Load, how: Callable[[m.Load], Any]) -> LoadResult:
    """Now, in this thread."""
    began = time.monotonic()
    try:
        return LoadResult(message, began, how(message))
    except Exception as error:
        return LoadResult(message, began, error=error)


class ModelLoader:
    """how: reads a checkpoint without touching what the scheduler works on. tell: gets each result, in that thread."""

    def __init__(self, how: Callable[[m.Load], Any], tell: Callable[[LoadResult], None]) -> None:
        self._how, self._tell = how, tell
        self._messages: queue.SimpleQueue[m.Load] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.begun = self.ended = 0

    def begin(self, message: m.Load) -> None:
        """Its turn comes after those that were begun before."""
        self.begun += 1
        self._messages.put(message)
        if self._thread is None:
            self._thread = threading.Thread(target=self._read_all, name="loading", daemon=True)
            self._thread.start()

    @property
    def busy(self) -> bool:
        return self.ended < self.begun

    def _read_all(self) -> None:
        while True:
            result = read(self._messages.get(), self._how)
            self._tell(result)
            del result  # or it would keep a network that may be unloaded meanwhile
            self.ended += 1
