"""Reads checkpoints in a thread, one after another, so that a device goes on with its other models meanwhile."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import PreparedModel


@dataclass(frozen=True, slots=True)
class LoadResult:
    """A checkpoint that was read, or the error. began: CLOCK_MONOTONIC seconds."""

    message: m.Load
    began: float
    prepared: PreparedModel | None = None
    error: Exception | None = None

    @classmethod
    def of(cls, message: m.Load, read: Callable[[m.Load], PreparedModel]) -> LoadResult:
        """Reads now, in this thread."""
        began = time.monotonic()
        try:
            return cls(message, began, read(message))
        except Exception as error:
            return cls(message, began, error=error)


class ModelLoader:
    """read: reads a checkpoint without touching what the scheduler works on. on_result: called in the loader's
    thread."""

    def __init__(self, read: Callable[[m.Load], PreparedModel], on_result: Callable[[LoadResult], None]) -> None:
        self._read, self._on_result = read, on_result
        self._messages: queue.SimpleQueue[m.Load] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._begun = self._ended = 0

    def begin(self, message: m.Load) -> None:
        self._begun += 1
        self._messages.put(message)
        if self._thread is None:
            self._thread = threading.Thread(target=self._read_all, name="loading", daemon=True)
            self._thread.start()

    @property
    def busy(self) -> bool:
        return self._ended < self._begun

    def _read_all(self) -> None:
        while True:
            result = LoadResult.of(self._messages.get(), self._read)
            self._on_result(result)
            del result  # or it would keep a network that may be unloaded meanwhile
            self._ended += 1
